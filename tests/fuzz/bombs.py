"""Small files that claim to be large, deep or slow, and what reading them does. Run as a script: one JSON line each.

The budget is 256 MB; the address space is limited to 1.5 GB more than the process has before, and a case that takes too
much processor time, or waits for ever, is ended.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

os.environ["SLIPSTREAM_MAX_BYTES"] = "256e6"

import lz4.frame
import numpy as np
import torch

from slipstream import ReplayBuffer, RolloutStorage, load_checkpoint

sys.path.insert(0, str(Path(__file__).parents[1]))

SECONDS = 20  # of processor time: a busy machine does not count
WAITING = 120
GIANT = 2_000_000_000
CASES: dict[str, Any] = {}


def case(function: Any) -> Any:
    CASES[function.__name__] = function
    return function


@case
def lz4_frame(folder: Path) -> None:
    with lz4.frame.open(folder / "a.pt.lz4", "wb") as file:
        for _ in range(16):
            file.write(bytes(32 << 20))
    load_checkpoint(folder / "a.pt.lz4")


@case
def deflated_archive(folder: Path) -> None:
    torch.save({"x": torch.zeros(75 << 20)}, folder / "plain.pt")
    with (
        zipfile.ZipFile(folder / "plain.pt") as plain,
        zipfile.ZipFile(folder / "a.pt", "w", zipfile.ZIP_DEFLATED) as archive,
    ):
        for name in plain.namelist():
            archive.writestr(name, plain.read(name))
    load_checkpoint(folder / "a.pt")


@case
def stride_of_zero(folder: Path) -> None:
    torch.save({"x": torch.zeros(1).expand(1 << 30)}, folder / "a.pt")
    load_checkpoint(folder / "a.pt")


@case
def tensor_larger_than_its_storage(folder: Path) -> None:
    torch.save({"x": torch.zeros(4)}, folder / "plain.pt")
    with zipfile.ZipFile(folder / "plain.pt") as plain, zipfile.ZipFile(folder / "a.pt", "w") as archive:
        for name in plain.namelist():  # BININT1 4, its size, becomes BININT 1 << 20
            archive.writestr(name, plain.read(name).replace(b"K\x04", b"J\x00\x00\x10\x00"))
    load_checkpoint(folder / "a.pt")


# --- rollouts and replay


@case
def rollout_frame(folder: Path) -> None:
    from helpers.forged import put_together, take_apart

    with RolloutStorage(folder) as saved:
        saved.save({"x": torch.zeros(1, 1, 1000)}, 0)
    path = folder / "rollout_000000.slip"
    parts = take_apart(path.read_bytes())
    parts.head["columns"][0][1] = [1, 1, 120_000_000]
    path.write_bytes(put_together(parts))
    RolloutStorage(folder).load_slice(0, envs=[0] * 1000)


@case
def rollout_frame_verified(folder: Path) -> None:
    from slipstream.rollouts.file import BROKEN

    with contextlib.suppress(*BROKEN):
        rollout_frame(folder)
    for problem in RolloutStorage(folder).file(0).problems():
        raise BROKEN[0](problem)


@case
def tree_of_priorities(folder: Path) -> None:
    from helpers.forged import put_together, take_apart

    buffer = ReplayBuffer(100, sampler="prioritized")
    buffer.add({"x": np.zeros((8, 3), np.float32), "reward": np.zeros(8, np.float32)})
    parts = take_apart(buffer.state_dict()["replay"].numpy().tobytes())
    changed = json.dumps(parts.head["state"]).replace('"size": 1024', '"size": 16777216')
    assert "16777216" in changed
    parts.head["state"] = json.loads(changed)
    data = torch.from_numpy(np.frombuffer(put_together(parts), np.uint8).copy())
    ReplayBuffer(100, sampler="prioritized").load_state_dict({"replay": data})


@case
def ring_of_giant_frames(folder: Path) -> None:
    buffer = ReplayBuffer(1000, storage="ring")
    buffer.extend({"observation": {"x": torch.zeros(2, 4, 3)}, "next": {"observation": {"x": torch.zeros(2, 4, 3)}},
                   "reward": torch.zeros(2, 4), "terminated": torch.zeros(2, 4, dtype=torch.bool),
                   "truncated": torch.zeros(2, 4, dtype=torch.bool)})  # fmt: skip
    state = buffer.state_dict()
    state["schema"][0][1] = [GIANT]
    ReplayBuffer(1000, storage="ring").load_state_dict(state)


# --- run folders


def run_folder(folder: Path, config: str = "task: x\n", metrics: bytes = b"") -> Any:
    from slipstream.training.run_folder import RunFolder

    (folder / "checkpoints").mkdir()
    (folder / "config.yaml").write_text(config)
    (folder / "metrics.jsonl").write_bytes(metrics)
    return RunFolder.open(folder)


def alias_bomb() -> str:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    return "\n".join([*lines, *(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 12))])


@case
def yaml_aliases_in_a_run(folder: Path) -> None:
    from slipstream.training.run_folder import config_yaml

    config_yaml(run_folder(folder, alias_bomb()).config())


@case
def yaml_that_is_deep(folder: Path) -> None:
    run_folder(folder, "a: " + "[" * 5000 + "]" * 5000).config()


@case
def yaml_of_many_values(folder: Path) -> None:
    run_folder(folder, "a: [" + "1," * 2_000_000 + "1]").config()


@case
def metrics_that_are_deep(folder: Path) -> None:
    from slipstream.training.metrics_log import read_metrics

    read_metrics(run_folder(folder, metrics=b"[" * 200_000 + b"\n{}\n").path)


@case
def metrics_that_are_no_objects(folder: Path) -> None:
    from slipstream.training.metrics_log import RunLog

    RunLog(run_folder(folder, metrics=b"[1]\n7\n{}\n"), done=5)


@case
def metrics_that_never_end(folder: Path) -> None:
    from slipstream.training.metrics_log import read_metrics

    run = run_folder(folder)
    run.metrics_path.unlink()
    os.mkfifo(run.metrics_path)
    read_metrics(run.path)


@case
def rollout_that_never_ends(folder: Path) -> None:
    os.mkfifo(folder / "rollout_000000.slip")
    RolloutStorage(folder).file(0)


def warm_up() -> None:
    """Compile the kernels: the first process on a machine takes a minute for it, and memory."""
    with tempfile.TemporaryDirectory() as folder:
        with RolloutStorage(folder) as saved:
            saved.save({"x": torch.zeros(2, 4, 1000)}, 0)
            saved.wait()  # without the time limit of close
        RolloutStorage(folder).load(0)
    for sampler in ("uniform", "prioritized"):
        buffer = ReplayBuffer(100, sampler=sampler)
        buffer.add({"x": np.zeros((8, 300), np.float32), "reward": np.zeros(8, np.float32)})
        buffer.load_state_dict(buffer.state_dict())
        buffer.sample(4)


def address_space() -> int:
    fields = Path("/proc/self/statm").read_text().split()
    return int(fields[0]) * resource.getpagesize()


def main(names: list[str]) -> None:
    def too_long(*_: Any) -> None:
        raise SystemExit("hangs")  # not an Exception: no reader may catch it

    signal.signal(signal.SIGALRM, too_long)
    signal.signal(signal.SIGPROF, too_long)
    warm_up()
    limit = address_space() + (3 << 29)
    for name in names or list(CASES):
        with tempfile.TemporaryDirectory() as folder:
            resource.setrlimit(resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))
            print(json.dumps({"begin": name}), flush=True)
            signal.alarm(WAITING)
            signal.setitimer(signal.ITIMER_PROF, SECONDS)
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            try:
                CASES[name](Path(folder))
                outcome, message = "loaded", ""
            except Exception as error:
                outcome, message = type(error).__name__, str(error)
            except SystemExit as error:
                outcome, message = str(error), ""
            signal.alarm(0)
            signal.setitimer(signal.ITIMER_PROF, 0)
            grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024
            print(json.dumps({"end": name, "outcome": outcome, "message": message, "grown_mb": grown}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
