"""Rollout files beside other libraries: NavRL-shaped batches saved and loaded.

    python benchmarks/rollouts.py                    # some minutes
    python benchmarks/rollouts.py --write            # also writes benchmarks/results/rollouts-<date>.md

The batches are simulated: 1,024 drones x 32 steps of NavigationEnv with the shipped policy, after some seconds of
flight. Peers alternate with ours in one process, on the same batches: pickle + LZ4 level 9, torch.save, HDF5 (gzip and
lzf), TensorDict.memmap, Minari. Those that are not installed are left out.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.util
import os
import pickle
import platform
import shutil
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from tensordict import TensorDict

sys.path.insert(0, str(Path(__file__).parents[1]))

from slipstream import NavigationEnv, RolloutStorage, SyncDataCollector  # noqa: E402
from slipstream.algorithms.policy_file import load_policy  # noqa: E402
from slipstream.config.registry import find_task  # noqa: E402
from slipstream.rollouts.export import export  # noqa: E402

DRONES, STEPS = 1024, 32


def fly(steps: int, batches: int, before: int) -> list[TensorDict]:
    """Batches [1024, steps] as the collector gives them, `next` a view of the same memory, each in memory of its
    own."""
    env = NavigationEnv(DRONES, "cpu", 7)
    policy = load_policy(find_task("navigation").weights).build(env, "cpu")
    flown = SyncDataCollector(env, policy, DRONES * steps, DRONES * (before + steps * batches))
    return list(flown)[-batches:]


# --- the peers, each a function (batch, path) -> path; and how it is read


def pickle_save(batch: TensorDict, path: Path) -> Path:
    """Save with pickle and LZ4 level 9."""
    import lz4.frame

    data = {
        "/".join(key) if isinstance(key, tuple) else key: batch[key].cpu().numpy() for key in batch.keys(True, True)
    }
    compressed = lz4.frame.compress(pickle.dumps(data, protocol=4), compression_level=9)
    with open(path, "wb") as file:
        file.write(compressed)
    return path


def pickle_load(path: Path) -> Any:
    import lz4.frame

    data = pickle.loads(lz4.frame.decompress(path.read_bytes()))
    return {key: torch.from_numpy(value) for key, value in data.items()}


def hdf5_save(kind: dict[str, Any]) -> Callable[[TensorDict, Path], Path]:
    import h5py

    def save(batch: TensorDict, path: Path) -> Path:
        with h5py.File(path, "w") as file:
            for key in batch.keys(True, True):
                array = batch[key].numpy()
                chunks = (max(1, min(len(array), (1 << 18) // max(1, array[0].nbytes))), *array.shape[1:])
                file.create_dataset("/".join(key) if isinstance(key, tuple) else key, data=array, chunks=chunks, **kind)
        return path

    return save


def hdf5_load(path: Path) -> Any:
    import h5py

    out = {}
    with h5py.File(path) as file:
        file.visititems(
            lambda name, item: (
                out.update({name: torch.from_numpy(item[()])}) if isinstance(item, h5py.Dataset) else None
            )
        )
    return out


def torch_save(batch: TensorDict, path: Path) -> Path:
    torch.save(batch.to_dict(), path)
    return path


def memmap_save(batch: TensorDict, path: Path) -> Path:
    batch.memmap(path)
    return path


def memmap_load(path: Path) -> Any:
    return TensorDict.load_memmap(path).clone()


def minari_save(batch: TensorDict, path: Path) -> Path:
    with RolloutStorage(path.with_name(path.name + "-source")) as storage:
        storage.save(batch, 0)
        storage.wait()
        start = time.perf_counter()
        export(storage, "minari", path)
        minari_save.seconds = time.perf_counter() - start  # type: ignore[attr-defined]
    return path.with_name(path.name + "-v0")


def installed(name: str) -> bool:
    return importlib.util.find_spec(name) is not None


def size_of(path: Path) -> int:
    return path.stat().st_size if path.is_file() else sum(p.stat().st_size for p in path.rglob("*") if p.is_file())


def bare(batch: TensorDict) -> TensorDict:
    """Without successors: what a peer may leave out if it knows that they are the observations one step on."""
    return batch.exclude("next")


def batches_table(folder: Path, rounds: int) -> str:
    flown = fly(STEPS, 3, 32 * 8)
    copies = [batch.clone().contiguous() for batch in flown]  # what TorchRL's collector gives: successors of their own
    raw = sum(t.numel() * t.element_size() for t in copies[0].values(True, True))
    storages = {
        "RolloutStorage, successors as views": (RolloutStorage(folder / "views"), flown),
        "RolloutStorage, successors as copies": (RolloutStorage(folder / "copies"), copies),
        "RolloutStorage, level 12": (RolloutStorage(folder / "twelve", 12), flown),
        "RolloutStorage, level 0": (RolloutStorage(folder / "raw", 0), flown),
    }
    peers: dict[str, tuple[Any, Any, Any]] = {
        "baseline: pickle + LZ4-9": (pickle_save, pickle_load, copies),
        "baseline, without `next`": (pickle_save, pickle_load, [bare(b) for b in copies]),
        "torch.save": (torch_save, lambda p: torch.load(p), copies),
        "TensorDict.memmap": (memmap_save, memmap_load, copies),
    }
    if installed("h5py"):
        peers["HDF5, gzip 4 + shuffle"] = (hdf5_save({"compression": "gzip", "shuffle": True}), hdf5_load, copies)
        peers["HDF5, lzf + shuffle"] = (hdf5_save({"compression": "lzf", "shuffle": True}), hdf5_load, copies)
    blocked: dict[str, list[float]] = {}
    saved: dict[str, list[float]] = {}
    loaded: dict[str, list[float]] = {}
    sizes: dict[str, int] = {}
    for n in range(rounds + 1):
        for name, (storage, batches) in storages.items():
            start = time.perf_counter()
            path = storage.save(batches[n % 3], n)
            middle = time.perf_counter()
            storage.wait()
            end = time.perf_counter()
            got = storage.load(n)
            after = time.perf_counter()
            assert torch.equal(got["next", "observation", "lidar"], batches[n % 3]["next", "observation", "lidar"])
            note(n, name, blocked, middle - start, saved, end - start, loaded, after - end)
            sizes[name] = size_of(path)
        for name, (save, load, batches) in peers.items():
            start = time.perf_counter()
            path = save(batches[n % 3], folder / f"peer-{n}-{abs(hash(name))}")
            middle = time.perf_counter()
            load(path)
            note(n, name, blocked, middle - start, saved, middle - start, loaded, time.perf_counter() - middle)
            sizes[name] = size_of(path)
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    if installed("minari"):
        for _ in range(2):
            path = minari_save(flown[0], folder / "peer-minari")
            seconds = minari_save.seconds  # type: ignore[attr-defined]
            note(1, "Minari (1,024 episodes)", blocked, seconds, saved, seconds, loaded, float("nan"))
        sizes["Minari (1,024 episodes)"] = size_of(path)
    for storage, _ in storages.values():
        storage.close()
    rows = []
    base = statistics.median(saved["baseline: pickle + LZ4-9"])
    for name in (*storages, *peers, *(["Minari (1,024 episodes)"] if installed("minari") else [])):
        middle = statistics.median(saved[name])
        read = "-" if loaded[name][0] != loaded[name][0] else ms(loaded[name])
        rows.append(
            [
                name,
                f"{sizes[name] / 1e6:.2f}",
                ms(blocked[name]),
                ms(saved[name]),
                span(saved[name]),
                f"{base / middle:.1f}",
                read,
            ]
        )
    text = table(f"Batches of 1,024 x 32, {raw / 1e6:.1f} MB, {rounds} rounds of 3 different batches",
                 ["", "MB", "the loop waits, ms", "on disk after, ms", "range", "x baseline", "load, ms"], rows)  # fmt: skip
    return text + (
        "Ours is on the disk (fsync of file and folder); no peer calls fsync. `next` is stored once by ours; the line without it\n"
        "shows pickle + LZ4 on the same numbers. Level 9 is the default.\n"
    )


def note(n: int, name: str, *pairs: Any) -> None:
    for lists, value in zip(pairs[::2], pairs[1::2], strict=True):
        if n:  # the first round warms up
            lists.setdefault(name, []).append(value)


def ms(times: list[float]) -> str:
    return f"{1e3 * statistics.median(times):.1f}"


def span(times: list[float]) -> str:
    return f"{1e3 * min(times):.1f} to {1e3 * max(times):.1f}"


def table(title: str, head: list[str], rows: list[list[str]]) -> str:
    lines = [
        f"## {title}",
        "",
        "| " + " | ".join(head) + " |",
        "|" + "---|" * len(head),
        *("| " + " | ".join(row) + " |" for row in rows),
    ]
    return "\n".join([*lines, "", ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--write", action="store_true", help="write the tables to benchmarks/results/")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    today = datetime.date.today().isoformat()
    load = os.getloadavg()[0]
    machine = (
        f"{platform.machine()}, {os.cpu_count()} cores, torch {torch.__version__}, load average at the start {load:.1f}"
    )
    out = [f"# Rollout files, {today}\n", f"`python benchmarks/rollouts.py`, {machine}.\n"]
    print("\n".join(out), flush=True)
    folder = Path(tempfile.mkdtemp(prefix="slipstream-rollouts-"))
    try:
        text = batches_table(folder, args.rounds)
        out.append(text)
        print(text, flush=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if args.write:
        (Path(__file__).parent / "results" / f"rollouts-{today}.md").write_text("\n".join(out))


if __name__ == "__main__":
    main()
