"""One target per format: good inputs, how to mutate them, and a use of everything that an input gives.

`use` returns, or raises one of the target's documented errors. Anything else is a defect. A folder is a bundle: its
files in one input.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import random
import shutil
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import mutate
import numpy as np
import torch
from guard import GuardedBuffers, GuardedMemory, decode
from helpers.recordings import flight
from tensordict import TensorDict

from slipstream import RolloutStorage, load_checkpoint
from slipstream.checkpoint import AsyncCheckpointSaver
from slipstream.checkpoint.load import CheckpointFile, newest_good
from slipstream.checkpoint.saver import base_of
from slipstream.cli import main
from slipstream.config.help import ConfigError
from slipstream.recordings import load_recording, read_title
from slipstream.replay import ReplayBuffer
from slipstream.rollouts.export import episodes
from slipstream.storage.blocks import BlockColumn
from slipstream.storage.codec import block_coder
from slipstream.storage.codec.registry import CodecError, read_header
from slipstream.storage.errors import SaveError, TooLargeError

UNFIT = (KeyError, ValueError, TypeError, IndexError)  # of a use that the contents do not fit, after a good load
CLI_SHARE = 16  # one input in so many goes through the command line too


@dataclass(frozen=True)
class Target:
    """A format."""

    name: str
    seeds: Callable[[Path], list[bytes]]
    mutation: mutate.Mutation
    use: Callable[[bytes, Path, random.Random], None]
    errors: tuple[type[Exception], ...]
    soak: int  # inputs in the soak


TARGETS: dict[str, Target] = {}


def target(mutation: mutate.Mutation, errors: Any, soak: int, seeds: Any) -> Callable[[Any], Any]:
    def add(use: Any) -> Any:
        name = use.__name__.removeprefix("use_")
        TARGETS[name] = Target(name, seeds, mutation, use, errors, soak)
        return use

    return add


def make_input(target: Target, seeds: list[bytes], seed: str, number: int) -> tuple[bytes, random.Random]:
    """Input `number` of a target, and the generator that its use draws from."""
    rng = random.Random(f"{target.name}/{seed}/{number}")
    data = rng.choice(seeds)
    if number % 500 == 0:
        return data, rng  # a good one
    if rng.random() < 0.03 and len(seeds) > 1:
        other = rng.choice(seeds)
        return data[: rng.randrange(len(data))] + other[rng.randrange(len(other)) :], rng
    return target.mutation(data, rng), rng


# --- the command line


def run_cli(*words: object) -> None:
    """Run a command. It may fail with exit code 2 and one sentence, 1 for a broken file; never otherwise."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        code = main([str(word) for word in words])
    text = err.getvalue()
    assert code in (0, 1, 2), f"{words[:2]}: exit code {code}"
    assert "Traceback" not in text and "--debug shows" not in text, f"{words[:2]}: {text[-300:]}"
    assert code != 2 or len([line for line in text.splitlines() if line.startswith("slipstream")]) == 1, text[-300:]


def touch(value: Any) -> int:
    """Read every number of a state."""
    if isinstance(value, dict):
        return sum(touch(child) for child in value.values())
    if isinstance(value, (list, tuple)):
        return sum(touch(child) for child in value)
    if isinstance(value, torch.Tensor) and value.layout is torch.strided and value.device.type == "cpu":
        return len(
            value.detach().reshape(-1).clone(memory_format=torch.contiguous_format).view(torch.uint8).numpy().tobytes()
        )
    return value.tobytes().count(0) if isinstance(value, np.ndarray) else 0


# --- bundles


def pack(files: dict[str, bytes]) -> bytes:
    """Files as one input: JSON of names and sizes, a zero byte, the contents."""
    return json.dumps([[name, len(data)] for name, data in files.items()]).encode() + b"\0" + b"".join(files.values())


def unpack(data: bytes) -> dict[str, bytes]:
    head, _, rest = data.partition(b"\0")
    files, at = {}, 0
    for name, size in json.loads(head):
        files[name], at = rest[at : at + size], at + size
    return files


def folder_bundle(folder: Path) -> bytes:
    return pack(
        {
            str(p.relative_to(folder)): p.read_bytes()
            for p in sorted(folder.rglob("*"))
            if p.is_file() and not p.is_symlink()
        }
    )


def write_bundle(data: bytes, folder: Path) -> Path:
    """Write a bundle; a name that ends with / is a folder, with | a pipe, with @ a link to its contents."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for name, content in unpack(data).items():
        path = folder / name.rstrip("/|@")
        path.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(OSError, ValueError):
            if name.endswith("/"):
                path.mkdir()
            elif name.endswith("|"):
                os.mkfifo(path)
            elif name.endswith("@"):
                path.symlink_to(content.decode("utf-8", "replace")[:100].replace("\0", "") or ".")
            else:
                path.write_bytes(content)
    return folder


NAMES = ["rollout_000009.slip", "rollout_1.slip", f"rollout_{'9' * 200}.slip", "ckpt_000099.pt.slip", "checkpoints/ckpt_000003.pt",
         "checkpoints/latest.pt", "best.pt", "metrics.jsonl", "a\x1b[31m.pt", "replay.slip", "checkpoints/ckpt_1.pt.lz4"]  # fmt: skip


def bundle(data: bytes, rng: random.Random) -> bytes:
    """Mutate one file of a folder by its format; sometimes its name or its kind."""
    if not data.startswith(b"[["):
        return data
    files = unpack(data)
    name = rng.choice(list(files))
    content, dice = files[name], rng.random()
    if dice < 0.85:
        if not content:
            files[name] = b"\0"
        elif name.endswith(".yaml"):
            files[name] = mutate.yaml_text(content, rng)
        elif name.endswith((".json", ".jsonl")):
            files[name] = mutate.json_text(content, rng)
        elif name.endswith(".slip"):
            files[name] = mutate.container(content, rng)
        else:
            files[name] = mutate.lz4_file(content, rng) if name.endswith(".lz4") else mutate.torch_file(content, rng)
    elif dice < 0.89:
        del files[name]
    elif dice < 0.93:
        files[rng.choice(NAMES)] = content
    elif dice < 0.96:
        files[name] = files[rng.choice(list(files))]
    else:
        files.pop(name)
        files[name + rng.choice("/|@")] = rng.choice((b"x", b"/etc/passwd", b"..", name.encode()))
    return pack(files or {"x": b""})


# --- checkpoints


def small_state() -> dict[str, Any]:
    flat = torch.arange(24.0)
    return {
        "model": {"weight": flat, "row": flat[4:8], "half": torch.ones(3).bfloat16(), "grid": flat.view(4, 6).t()},
        "state": {0: {"exp_avg": torch.sin(torch.arange(2000.0)), "exp_avg_sq": torch.ones(1500), "step": torch.tensor(3.0)}},
        "array": np.arange(5),
        "values": [1, 2.5, float("inf"), 1 << 80, "text", None, b"raw", torch.float16, torch.Size([2]), np.float32(2), (1, (2,))],
    }  # fmt: skip


def slip_seeds(folder: Path) -> list[bytes]:
    made = []
    for moments in (None, "int8", "bf16"):
        with AsyncCheckpointSaver(moments=moments) as saver:
            path = saver.save_async(small_state(), folder / "c.pt", metrics={"return": 1.5}, step=3)
        made.append(path.read_bytes())
    return made


def use_checkpoint(path: Path, rng: random.Random) -> None:
    if rng.randrange(CLI_SHARE) == 0:
        for words in rng.sample([("info", path, "--tensors"), ("verify", path), ("export", path, "--force", "--out", path.with_name("o.pt")),
                                 ("export", path, "--to", "safetensors", "--force", "--out", path.with_name("o.safetensors")),
                                 ("export", path, "--to", "slip", "--force", "--out", path.with_name("s.pt.slip"))], 2):  # fmt: skip
            run_cli("ckpt", *words)
    base_of(path)
    touch(load_checkpoint(path))
    load_checkpoint(path, keys=["model"])


@target(mutate.container, (SaveError, KeyError), 150_000, slip_seeds)
def use_slip(data: bytes, folder: Path, rng: random.Random) -> None:
    path = folder / "c.pt.slip"
    path.write_bytes(data)
    use_checkpoint(path, rng)
    with CheckpointFile(path) as file:
        file.check()


def difference_seeds(folder: Path) -> list[bytes]:
    state = small_state()
    state["state"][0]["exp_avg"] = torch.sin(torch.arange(20_000.0))
    with AsyncCheckpointSaver(full_every=4) as saver:
        saver.save_async(state, folder / "c_1.pt", step=1)
        saver.wait()
        state["state"][0]["exp_avg"] = state["state"][0]["exp_avg"] * 0.9
        saver.save_async(state, folder / "c_2.pt", step=2)
    return [folder_bundle(folder)]


@target(bundle, (SaveError, KeyError, OSError), 60_000, difference_seeds)
def use_difference(data: bytes, folder: Path, rng: random.Random) -> None:
    run = write_bundle(data, folder / "d")
    use_checkpoint(run / "c_2.pt.slip", rng)


def torch_state() -> dict[str, Any]:
    """What a torch file holds: nothing of NumPy."""
    values = [1, 2.5, float("inf"), 1 << 80, "text", None, torch.Size([2]), (1, (2,))]
    return {"model": small_state()["model"], "values": values}


def torch_seeds(folder: Path) -> list[bytes]:
    torch.save(torch_state(), folder / "c.pt")
    return [(folder / "c.pt").read_bytes()]


@target(mutate.torch_file, (SaveError, KeyError), 130_000, torch_seeds)
def use_pt(data: bytes, folder: Path, rng: random.Random) -> None:
    path = folder / "c.pt"
    path.write_bytes(data)
    touch(load_checkpoint(path))
    if rng.randrange(4) == 0:
        use_checkpoint(path, rng)


def lz4_seeds(folder: Path) -> list[bytes]:
    with AsyncCheckpointSaver() as saver:
        path = saver.save_async(torch_state(), folder / "c.pt", compress="lz4")
    return [path.read_bytes()]


@target(mutate.lz4_file, (SaveError, KeyError), 80_000, lz4_seeds)
def use_pt_lz4(data: bytes, folder: Path, rng: random.Random) -> None:
    path = folder / "c.pt.lz4"
    path.write_bytes(data)
    use_checkpoint(path, rng)


# --- rollouts


def batch(envs: int = 3, steps: int = 8) -> dict[str, Any]:
    scan = (torch.arange(envs * (steps + 1) * 40) // 7 % 5).float().view(envs, steps + 1, 40)
    done = torch.zeros(envs, steps, dtype=torch.bool)
    done[0, 3] = done[1, 7] = True
    return {
        "observation": {"scan": scan[:, :-1], "state": torch.randn(envs, steps, 2, generator=torch.Generator().manual_seed(1))},
        "next": {"observation": {"scan": scan[:, 1:]}}, "action": torch.ones(envs, steps, 1), "reward": torch.ones(envs, steps),
        "terminated": done, "truncated": torch.zeros_like(done), "valid": torch.ones_like(done),
        "names": np.array([[1, 2]]), "small": torch.arange(5), "empty": torch.empty(envs, steps, 0),
    }  # fmt: skip


def rollout_seeds(folder: Path) -> list[bytes]:
    made = []
    for level in (0, 3, 12):
        with RolloutStorage(folder, compression_level=level) as storage:
            storage.save(batch(), 1)
            storage.save(TensorDict(batch()).exclude("names", "small").auto_batch_size_(2), 2)
            storage.wait()
        made += [(folder / f"rollout_00000{i}.slip").read_bytes() for i in (1, 2)]
    return made


@target(mutate.container, SaveError, 120_000, rollout_seeds)
def use_rollout(data: bytes, folder: Path, rng: random.Random) -> None:
    path = folder / "rollout_000001.slip"
    path.write_bytes(data)
    if rng.randrange(CLI_SHARE) == 0:
        export = ("export", folder, "--to", "parquet", "--out", folder.with_name("out.parquet"))
        run_cli("rollouts", *rng.choice([("info", folder), ("verify", path), export]))
    storage = RolloutStorage(folder)
    file = storage.file(1)
    list(file.problems())
    touch(file.read())
    with contextlib.suppress(*UNFIT):
        file.read_slice(envs=[0], steps=[0, 2])
    with contextlib.suppress(*UNFIT):
        list(episodes(storage, [1]))


# --- replay


SAMPLERS = ("uniform", "prioritized")


def steps() -> dict[str, Any]:
    """Return a batch of what a buffer holds."""
    made = {key: value for key, value in batch().items() if key not in ("names", "small", "empty")}
    made["next"] = {"observation": {**made["next"]["observation"], "state": made["observation"]["state"].roll(-1, 1)}}
    return made


def filled(sampler: str, storage: str = "cpu") -> ReplayBuffer:
    buffer = ReplayBuffer(60, sampler=sampler, storage=storage)
    for _ in range(2):
        buffer.extend(steps())
    buffer.sample(4)
    return buffer


def draw(buffer: ReplayBuffer, episodes: bool = True) -> None:
    """Every kind of draw, every step, one more batch."""
    with contextlib.suppress(*UNFIT):  # other keys or shapes than these draws need, or no steps
        buffer.sample(16)
        buffer.sample(16, n_step=4)
        buffer.sample_slices(8, 5, burn_in=3)
        end = buffer.stats()["steps_ever"]
        buffer.get(np.arange(end - len(buffer), end))
        if episodes:
            buffer.sample_episodes(4)
    with contextlib.suppress(*UNFIT):
        buffer.extend(steps())
        buffer.sample(16)


def replay_state_seeds(folder: Path) -> list[bytes]:
    return [filled(sampler).state_dict()["replay"].numpy().tobytes() for sampler in SAMPLERS]


def sampler_of(data: bytes) -> str:
    """Which sampler an input was saved with, as far as it still says so."""
    return "prioritized" if b"Prioritized" in data else "uniform"


@target(mutate.container, (SaveError, ValueError, TooLargeError), 60_000, replay_state_seeds)
def use_replay_state(data: bytes, folder: Path, rng: random.Random) -> None:
    with ReplayBuffer(60, sampler=sampler_of(data)) as buffer:
        try:
            buffer.load_state_dict({"replay": torch.from_numpy(np.frombuffer(data, np.uint8).copy())})
        except (SaveError, ValueError):
            assert len(buffer) == 0
            raise
        draw(buffer)


def replay_folder_seeds(folder: Path) -> list[bytes]:
    made = []
    for sampler in SAMPLERS:
        place, buffer = folder / sampler, filled(sampler)
        buffer.save(place)
        buffer.extend(steps())
        buffer.save(place)
        made.append(folder_bundle(place))
    return made


@target(bundle, (SaveError, ValueError, OSError), 40_000, replay_folder_seeds)
def use_replay_folder(data: bytes, folder: Path, rng: random.Random) -> None:
    place = write_bundle(data, folder / "r")
    with ReplayBuffer(60, sampler=sampler_of(data)) as buffer:
        buffer.load(place)
        draw(buffer)


def ring_seeds(folder: Path) -> list[bytes]:
    made = []
    for sampler in SAMPLERS:
        filled(sampler, "ring").save(folder / sampler)
        made.append(next((folder / sampler).glob("*.slip")).read_bytes())
    return made


@target(mutate.container, (SaveError, ValueError, OSError), 40_000, ring_seeds)
def use_replay_ring(data: bytes, folder: Path, rng: random.Random) -> None:
    (folder / "ring.slip").write_bytes(data)
    with ReplayBuffer(60, sampler=sampler_of(data), storage="ring") as buffer:
        buffer.load(folder)
        draw(buffer, episodes=False)


# --- blocks and bytes in memory


STEPS = (
    "",
    "lz4",
    "mask",
    "palette",
    "mask+lz4",
    "palette+lz4",
    "delta+mask+lz4",
    "delta+lz4",
    "palette+delta+mask+lz4",
)


def block_seeds(folder: Path) -> list[bytes]:
    made = []
    frames = (np.arange(64 * 40) // 9 % 6).astype(np.float32).reshape(64, 40)
    for dtype in (np.float32, np.uint8, np.int64, np.float16):
        for codec in STEPS:
            for group in (1, 4):
                column = BlockColumn((40,), np.dtype(dtype), codec or "raw", group, block_rows=32)
                column.append(frames.astype(dtype))
                column.flush()
                made += [block.read().tobytes() for block in column.blocks()][:1]
                column.close()
    return made


@target(mutate.block, (CodecError, ValueError), 190_000, block_seeds)
def use_block(data: bytes, folder: Path, rng: random.Random) -> None:
    header = read_header(data)
    if header.frame_bytes > 1 << 16 or header.block_rows * header.frame_bytes > 1 << 20:
        return  # the columns of replay and rollouts count this memory first
    if not _guards:
        _guards.extend(GuardedMemory(1 << 20) for _ in range(2))
        block_coder._buffer = GuardedBuffers(1 << 18)
    decode(data, *_guards, verify=True)
    decode(data, *_guards, verify=False)


_guards: list[GuardedMemory] = []


def frame_seeds(folder: Path) -> list[bytes]:
    from slipstream.collectors.compressed import CompressedFrames

    return [CompressedFrames(batch()["observation"]["scan"].flatten(0, 1), level).to_bytes() for level in (1, 3)]


@target(mutate.container, (SaveError, ValueError), 30_000, frame_seeds)
def use_frames(data: bytes, folder: Path, rng: random.Random) -> None:
    from slipstream.collectors.compressed import CompressedFrames

    frames = CompressedFrames.from_bytes(data)
    touch(frames.rows())


def image_seeds(folder: Path) -> list[bytes]:
    from slipstream import compress_image

    return [compress_image((np.arange(4000) // 11 % 7).astype(np.uint8), level) for level in (0, 9)]


@target(mutate.change_bytes, (ValueError,), 30_000, image_seeds)
def use_image(data: bytes, folder: Path, rng: random.Random) -> None:
    from slipstream import decompress_image, decompress_image_seq

    decompress_image(data, (40, 100)) if rng.random() < 0.5 else decompress_image(data)
    decompress_image_seq(data, (10, 10), 40)


def recording_seeds(folder: Path) -> list[bytes]:
    return [flight(rows=8).to_bytes()]


@target(mutate.container, SaveError, 20_000, recording_seeds)
def use_recording(data: bytes, folder: Path, rng: random.Random) -> None:
    path = folder / "a.rec"
    path.write_bytes(data)
    with contextlib.suppress(SaveError):
        read_title(path)
    recording = load_recording(path)
    recording.to_bytes()
    if rng.randrange(CLI_SHARE) == 0:
        run_cli("recording", "export", path, "--to", rng.choice(["acmi", "html"]), "--force")


# --- runs, policies, configurations


def train_words() -> list[str]:
    return ["task=navigation", "env.num_envs=2", "env.num_obstacles=4", "model.encoder=dict"]


def policy_state() -> dict[str, Any]:
    from slipstream.algorithms.base import build_network
    from slipstream.config.compose import load_train, to_dict

    config = to_dict(load_train(train_words()))
    env = specs()
    policy = build_network(config["algo"], env.observation_spec, env.action_spec, model_config(config))
    return {"config": config, "policy": policy.state_dict()}


def model_config(config: dict[str, Any]) -> Any:
    from slipstream.models.policy import ModelConfig

    return ModelConfig(**config["model"])


def specs() -> Any:
    from slipstream.envs.specs import Box
    from slipstream.tasks.navigation.env import NavigationConfig, NavigationEnv

    more = {"config": NavigationConfig(), "spec_settings": NavigationEnv.spec_settings}
    return SimpleNamespace(observation_spec={"state": Box((3,))}, action_spec=Box((2,), -1.0, 1.0), **more)


def policy_seeds(folder: Path) -> list[bytes]:
    with AsyncCheckpointSaver() as saver:
        path = saver.save_async(policy_state(), folder / "p.pt", step=1)
    return [path.read_bytes()]


@target(mutate.container, (SaveError, ValueError), 20_000, policy_seeds)
def use_policy(data: bytes, folder: Path, rng: random.Random) -> None:
    from slipstream.algorithms.policy_file import load_policy

    path = folder / "p.pt.slip"
    path.write_bytes(data)
    policy = load_policy(path)
    _ = policy.name, policy.task, policy.trained_env
    policy.other_settings(specs())
    policy.build(specs(), "cpu")


def run_seeds(folder: Path) -> list[bytes]:
    from slipstream.training.run_folder import config_yaml

    state = policy_state()
    (folder / "checkpoints").mkdir()
    with AsyncCheckpointSaver(full_every=1) as saver:
        for step in (1, 2):
            saver.save_async(state, folder / "checkpoints" / f"ckpt_{step:06d}.pt", metrics={"x": 1.0}, step=step)
    torch.save({"config": {"task": "navigation"}}, folder / "best.pt")
    (folder / "config.yaml").write_text(config_yaml(state["config"]))
    rows = [{"iteration": i, "frames": 10 * i, "time_s": 1.5, "loss": 0.1} for i in (1, 2, 3)]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "git.json").write_text('{"commit": "abc", "dirty": false}')
    return [folder_bundle(folder)]


@target(bundle, (SaveError, ValueError, OSError), 10_000, run_seeds)
def use_run_folder(data: bytes, folder: Path, rng: random.Random) -> None:
    from slipstream.algorithms.policy_file import load_policy
    from slipstream.config.compose import load_train
    from slipstream.training.metrics_log import RunLog, read_metrics
    from slipstream.training.run_folder import RunFolder

    run = write_bundle(data, folder / "run")
    if rng.randrange(CLI_SHARE) == 0:
        run_cli(*rng.choice([("ckpt", "info", run), ("ckpt", "verify", run), ("config", f"config={run}")]))
    uses = (
        lambda: RunFolder.open(run).config(),
        lambda: read_metrics(run),
        lambda: newest_good(run / "checkpoints"),
        lambda: load_train([f"resume={run}"]),
        lambda: load_train([f"config={run}"]),
        lambda: load_policy(run).build(specs(), "cpu"),
        lambda: RunLog(RunFolder.open(run), done=2).close(),
    )
    for use in rng.sample(uses, 2):
        with contextlib.redirect_stderr(io.StringIO()), contextlib.suppress(SaveError, ValueError, OSError):
            use()


def config_seeds(folder: Path) -> list[bytes]:
    from slipstream.config.compose import load_train, to_dict
    from slipstream.training.run_folder import config_yaml

    chosen = ("task", "total_frames", "seed", "device", "wandb", "model")
    words = config_yaml({k: v for k, v in to_dict(load_train(train_words())).items() if k in chosen}).encode()
    return [words, b"task: aircombat\nenv:\n  num_envs: 4\nalgo:\n  name: ppo\n  epochs: 2\n"]


@target(mutate.yaml_text, (ConfigError, ValueError), 20_000, config_seeds)
def use_config(data: bytes, folder: Path, rng: random.Random) -> None:
    from slipstream.config.compose import load_train

    path = folder / "c.yaml"
    path.write_bytes(data)
    if rng.randrange(CLI_SHARE) == 0:
        run_cli("config", f"config={path}" if rng.random() < 0.7 else f"@{path}")
    load_train([f"config={path}"])


assert sum(t.soak for t in TARGETS.values()) == 1_000_000, sum(t.soak for t in TARGETS.values())
