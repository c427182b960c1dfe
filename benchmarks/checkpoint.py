"""Checkpoints beside other libraries: blocking time, size, background time, loading, and the loss of a training loop.

    python benchmarks/checkpoint.py                 # all CPU tables, some minutes
    python benchmarks/checkpoint.py --only blocking # one of: blocking, size, background, load, throughput
    python benchmarks/checkpoint.py --cuda          # how long save_async blocks for 200 MB of CUDA tensors
    python benchmarks/checkpoint.py --write         # also writes benchmarks/results/checkpoint-<date>.md

Peers alternate with ours in one process, on the same states: torch.save + fsync, safetensors,
torch.distributed.checkpoint async_save (default, and with a stager that reuses its memory), LZ4 level 9 around
torch.save, and memcpy as the limit. Every save has its own file name; the file before the last is removed.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import itertools
import os
import platform
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from checkpoint_peers import Distributed, pickle_save, safetensors_save, torch_save
from checkpoint_states import State, make_states, megabytes, mlp, tensors
from checkpoint_timing import Rotation, in_turns, milliseconds, table, timed
from torch import nn

sys.path.insert(0, str(Path(__file__).parents[1]))

from slipstream.checkpoint import AsyncCheckpointSaver, load_checkpoint  # noqa: E402


def blocking_table(name: str, state: State, folder: Path, rounds: int) -> str:
    """What the caller waits for: the copy, and everything else that is not in the background."""
    path = Rotation(folder)
    flat = tensors(state)
    warm = [torch.empty_like(t).copy_(t) for t in flat]
    default, reused = Distributed(reuse=False), Distributed(reuse=True)

    def memcpy() -> float:
        return milliseconds(lambda: [a.copy_(b) for a, b in zip(warm, flat, strict=True)])

    def ours(compress: bool | str) -> float:
        target = path()
        out = milliseconds(lambda: saver.save_async(state, target, compress))
        saver.wait()
        return out

    def distributed(dcp: Distributed) -> float:
        target = path()
        out = milliseconds(lambda: dcp.save(state, target))
        dcp.wait()
        return out

    with AsyncCheckpointSaver() as saver:
        ways: dict[str, Callable[[], float]] = {
            "memcpy into warm buffers (the limit)": memcpy,
            "save_async": lambda: ours(True),
            "save_async, compress=False": lambda: ours(False),
            "DCP async_save": lambda: distributed(default),
            "DCP async_save, reused stager": lambda: distributed(reused),
            "torch.save + fsync": lambda: timed(torch_save, state, path()),
        }
        times = in_turns(ways, rounds)
    limit = statistics.median(times["memcpy into warm buffers (the limit)"])
    rows = [
        [n, f"{statistics.median(t):.2f}", f"{min(t):.2f}", f"{statistics.median(t) / limit:.2f}"]
        for n, t in times.items()
    ]
    title = f"Blocking, {name}: {megabytes(state):.1f} MB in {len(flat)} tensors"
    return table(title, ["", "median ms", "least ms", "x memcpy"], rows)


def size_table(states: dict[str, dict[int, State]], folder: Path) -> str:
    """Bytes saved against the tensors' own, whole and as a difference 1 and 10 updates later."""
    rows = []
    for name, steps in states.items():
        for moments in (None, "int8") if "new data" not in name else (None,):
            with AsyncCheckpointSaver(full_every=3, moments=moments) as saver:
                sizes = []
                for step in (300, 301, 310):
                    sizes.append(saver.save_async(steps[step], folder / f"size_{step}.pt"))
                saver.wait()
            raw = 1e6 * megabytes(steps[300])
            saved = [f"{100 * (1 - p.stat().st_size / raw):.1f} %" for p in sizes]
            moment = torch.cat([t.flatten() for t in tensors(steps[300]["optimizer"]["state"])])
            rows.append(
                [
                    name + (f', moments="{moments}"' if moments else ""),
                    f"{100 * (moment == 0).float().mean():.0f} %",
                    *saved,
                ]
            )
            if moments is None and "new data" not in name:
                path = folder / "baseline.pt.lz4"
                pickle_save(steps[300], path)
                rows.append(["  LZ4-9 around torch.save", "", f"{100 * (1 - path.stat().st_size / raw):.1f} %", "", ""])
    noise = {"noise": torch.randint(0, 256, (188_000_000,), dtype=torch.uint8)}
    with AsyncCheckpointSaver() as saver:
        path = saver.save_async(noise, folder / "noise.pt")
    rows.append(["random bytes, 188 MB", "", f"{100 * (1 - path.stat().st_size / 188e6):.3f} %", "", ""])
    return table(
        "Size: saved, lossless unless moments are named",
        ["state", "zero moments", "whole", "1 update later", "10 later"],
        rows,
    )


def background_table(name: str, steps: dict[int, State], folder: Path, rounds: int) -> str:
    """From the call until the file is on the disk, on an idle machine."""
    path, state = Rotation(folder), steps[300]

    def ours(saver: AsyncCheckpointSaver, compress: bool | str) -> float:
        def save(state: State, target: Path) -> None:
            saver.save_async(state, target, compress)
            saver.wait()

        return timed(save, state, path())

    base = folder / "base.pt"
    with AsyncCheckpointSaver() as saver, AsyncCheckpointSaver(full_every=10**6) as differences:
        differences.save_async(steps[301], base)
        ways: dict[str, Callable[[], float]] = {
            "torch.save + fsync": lambda: timed(torch_save, state, path()),
            "ours, compress=False": lambda: ours(saver, False),
            "ours": lambda: ours(saver, True),
            "ours, difference": lambda: ours(differences, True),
            "safetensors + fsync": lambda: timed(safetensors_save, state, path()),
        }
        ways["LZ4-9 around torch.save"] = lambda: timed(pickle_save, state, path())
        processor: dict[str, list[float]] = {name: [] for name in ways}

        def counted(name: str) -> float:
            before = sum(os.times()[:2])
            out = ways[name]()
            processor[name].append(1e3 * (sum(os.times()[:2]) - before))
            return out

        slow = {name: partial(counted, name) for name in list(ways)[-1:]}
        times = in_turns({name: partial(counted, name) for name in list(ways)[:-1]}, rounds) | in_turns(slow, 1)
    limit = statistics.median(times["torch.save + fsync"])
    rows = []
    for n, t in times.items():
        cpu = statistics.median(processor[n])
        rows.append(
            [n, f"{statistics.median(t):.0f}", f"{min(t):.0f}", f"{statistics.median(t) / limit:.2f}", f"{cpu:.0f}"]
        )
    return table(
        f"Background: {name}, until durable", ["", "median ms", "least ms", "x torch.save", "processor ms"], rows
    )


def fresh_process(call: str) -> float:
    """Milliseconds of one call in a new process; its imports are not counted."""
    code = f"""
import sys, time
sys.path.insert(0, {str(Path(__file__).parents[1])!r})
import torch
from slipstream.checkpoint import load_checkpoint
torch.ones(1 << 20) + 1
start = time.perf_counter()
{call}
print(1e3 * (time.perf_counter() - start))
"""
    return float(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout)


def load_table(name: str, steps: dict[int, State], folder: Path, rounds: int) -> str:
    """From a file in the page cache to tensors in memory."""
    noise = {str(i): torch.randint(0, 256, (47_000_000,), dtype=torch.uint8) for i in range(4)}
    torch.save(steps[300], folder / "load.pt")
    torch.save(noise, folder / "raw.pt")
    with AsyncCheckpointSaver(full_every=2) as saver:
        whole = saver.save_async(steps[300], folder / "whole.pt")
        difference = saver.save_async(steps[301], folder / "difference.pt")
    with AsyncCheckpointSaver() as saver:
        raw = saver.save_async(noise, folder / "noise.pt")
    torch_load, ours = "torch.load({!r}, weights_only=True)", "load_checkpoint({!r})"
    calls = {
        "torch.load": torch_load.format(str(folder / "load.pt")),
        "ours, plain .pt": ours.format(str(folder / "load.pt")),
        "ours, compressed": ours.format(str(whole)),
        "ours, difference and its base": ours.format(str(difference)),
        "torch.load of 188 MB random bytes": torch_load.format(str(folder / "raw.pt")),
        "ours, the same stored raw": ours.format(str(raw)),
    }
    times = in_turns({name: partial(fresh_process, call) for name, call in calls.items()}, rounds)
    limit = statistics.median(times["torch.load"])
    rows = [
        [n, f"{statistics.median(t):.0f}", f"{min(t):.0f}", f"{statistics.median(t) / limit:.2f}"]
        for n, t in times.items()
    ]
    note = "Every checksum is tested in ours; torch tests none. Each load in a process of its own, as a resume is: memory is new."
    return table(f"Loading: {name}", ["", "median ms", "least ms", "x torch.load"], rows, note)


def throughput_table(folder: Path, rounds: int, steps: int = 30, every: int = 10) -> str:
    """A training loop that keeps all cores busy, saving every few steps: what each saver takes of its steps per second.

    Short turns of `steps`, the savers in a new random order each round, compared with the turn without a saver before
    and the one
    after: what else the machine does falls on neighbors alike. Each save, the last too, has an interval of steps after
        it.
    """
    model = mlp(nn.ELU, 0.0)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    inputs = torch.randn(128, 512)

    def turn(save: Callable[[State], Any], finish: Callable[[], None]) -> float:
        start = time.perf_counter()
        for count in range(steps):
            optimizer.zero_grad()
            model(inputs).square().mean().backward()
            optimizer.step()
            if count % every == 0:
                save({"model": model.state_dict(), "optimizer": optimizer.state_dict()})
        finish()  # what is still in the background belongs to the price
        return time.perf_counter() - start

    path = Rotation(folder)
    numbers = itertools.count()
    dcp, dcp_reused = Distributed(reuse=False), Distributed(reuse=True)

    def distributed(dcp: Distributed) -> Callable[[State], None]:
        def save(state: State) -> None:
            dcp.wait()  # DCP allows one save at a time
            dcp.save(state, path())

        return save

    def nothing(*state: State) -> None:
        pass

    with contextlib.ExitStack() as savers:
        full = savers.enter_context(AsyncCheckpointSaver())
        raw = savers.enter_context(AsyncCheckpointSaver(compression_level=0))
        delta = savers.enter_context(AsyncCheckpointSaver(full_every=10, keep_last=2))
        ways: dict[str, Callable[[], float]] = {
            "ours": lambda: turn(lambda s: full.save_async(s, path()), full.wait),
            "ours, full_every=10": lambda: turn(
                lambda s: delta.save_async(s, folder / f"d_{next(numbers)}.pt"), delta.wait
            ),
            "ours, raw": lambda: turn(lambda s: raw.save_async(s, path()), raw.wait),
            "ours, compress=False": lambda: turn(lambda s: full.save_async(s, path(), False), full.wait),
            "DCP async_save": lambda: turn(distributed(dcp), dcp.wait),
            "DCP async_save, reused stager": lambda: turn(distributed(dcp_reused), dcp_reused.wait),
            "torch.save + fsync": lambda: turn(lambda s: torch_save(s, path()), nothing),
        }
        for way in ways.values():
            way()
        lost: dict[str, list[float]] = {name: [] for name in ways}
        free = [turn(nothing, nothing)]
        for _ in range(rounds):
            for name in random.sample(list(ways), len(ways)):
                took = ways[name]()
                free.append(turn(nothing, nothing))
                lost[name].append(100 * (1 - (free[-2] + free[-1]) / 2 / took))
    rows = [["no checkpoints", "", "", "", f"{steps / statistics.median(free):.2f}"]]
    peer = statistics.median(lost["torch.save + fsync"])
    for name, shares in lost.items():
        low, middle, high = statistics.quantiles(shares, n=4)
        bound = {"ours": 1.25, "ours, full_every=10": 1.25, "ours, raw": 1.0}.get(name)
        verdict = "" if bound is None else f", {'ok' if middle <= bound * peer else 'MORE'} for {bound:g}"
        rows.append(
            [
                name,
                f"{middle:.1f} %",
                f"{low:.1f} to {high:.1f} %",
                f"{middle / peer:.2f}{verdict}",
                f"{steps / statistics.median(free) * (1 - middle / 100):.2f}",
            ]
        )
    title = f"Throughput: 188 MB saved every {every} steps of a loop that keeps {torch.get_num_threads()} cores busy"
    note = f"{rounds} turns of {steps} steps each, in random order. What is still in the background at its end is waited for and counted."
    return table(title, ["", "lost, median", "half of the turns", "x torch.save", "steps/s"], rows, note)


class OtherLoad:
    """The share of the processor that other programs took since the last look (Linux), kernel threads that write to
    disk among them."""

    def __init__(self) -> None:
        self._before = self._read()

    def _read(self) -> tuple[float, float, float]:
        """(all, busy, ours) in seconds."""
        try:
            fields = [int(x) for x in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
        except OSError:
            return 0.0, 0.0, 0.0
        tick = os.sysconf("SC_CLK_TCK")
        own = os.times()
        return sum(fields) / tick, (sum(fields) - fields[3] - fields[4]) / tick, sum(own[:4])

    def percent(self) -> float:
        """The share in percent; looks anew from here on."""
        before, self._before = self._before, self._read()
        total, busy, own = (b - a for a, b in zip(before, self._before, strict=True))
        return max(0.0, 100 * (busy - own) / total) if total else 0.0


def cuda_table(folder: Path, rounds: int) -> str:
    """200 MB of CUDA tensors: what the host waits for, and the copies that the trainer's stream carries."""
    device = torch.device("cuda")
    state = {"layers": [torch.randn(1_000_000, device=device) for _ in range(50)]}
    compress = True
    try:
        import zstandard  # noqa: F401
    except ImportError:
        compress = False
    path = Rotation(folder)
    block, bus, stream = [], [], []
    pinned = [torch.empty(1_000_000, pin_memory=True) for _ in range(50)]
    with AsyncCheckpointSaver() as saver:
        for _ in range(rounds + 2):
            target = path()  # which removes old files: tens of milliseconds that are not the saver's
            torch.cuda.synchronize()
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            begin.record()
            block.append(timed(lambda s, p: saver.save_async(s, p, compress), state, target))
            end.record()
            torch.cuda.synchronize()
            stream.append(begin.elapsed_time(end))
            saver.wait()
            start = time.perf_counter()
            for host, tensor in zip(pinned, state["layers"], strict=True):
                host.copy_(tensor, non_blocking=True)
            torch.cuda.synchronize()
            bus.append(1e3 * (time.perf_counter() - start))
        expected = [t.cpu() for t in state["layers"]]
        last = saver.save_async(state, path(), compress)
        for tensor in state["layers"]:
            tensor.zero_()  # training goes on at once: the snapshot must hold what was there before
        saver.wait()
    exact = all(torch.equal(a, b) for a, b in zip(load_checkpoint(last)["layers"], expected, strict=True))
    rows = [
        ["save_async blocks the host", f"{statistics.median(block[2:]):.3f}", f"{max(block[2:]):.3f}"],
        [
            "until the trainer's stream is through with the copy",
            f"{statistics.median(stream[2:]):.3f}",
            f"{max(stream[2:]):.3f}",
        ],
        [
            "copying it over the bus to pinned memory (what is avoided)",
            f"{statistics.median(bus[2:]):.2f}",
            f"{max(bus[2:]):.2f}",
        ],
    ]
    note = f"The saved state {'equals' if exact else 'DIFFERS FROM'} what the tensors held at the call. compress={compress}."
    return table(
        f"CUDA, 200 MB in 50 tensors on {torch.cuda.get_device_name()}", ["", "median ms", "most ms"], rows, note
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=("blocking", "size", "background", "load", "throughput"))
    parser.add_argument("--cuda", action="store_true")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--cache", type=Path, help="keep the trained states here between runs")
    parser.add_argument("--write", action="store_true", help="write the tables to benchmarks/results/")
    args = parser.parse_args()
    today = datetime.date.today().isoformat()
    command = "python benchmarks/checkpoint.py" + (" --cuda" if args.cuda else "")
    out = [
        f"# Checkpoints, {today}",
        "",
        f"`{command}`, {platform.machine()}, {os.cpu_count()} cores, torch {torch.__version__}.",
        "",
    ]
    print("\n".join(out), flush=True)

    load = OtherLoad()

    def add(text: str) -> None:
        text += f"\nOther programs took {load.percent():.1f} % of the processor meanwhile.\n"
        out.append(text)
        print(text, flush=True)

    folder = Path(tempfile.mkdtemp(prefix="slipstream-checkpoint-"))
    try:
        if args.cuda:
            add(cuda_table(folder, args.rounds))
        else:
            wanted = args.only or ["blocking", "size", "background", "load", "throughput"]
            if args.cache:
                args.cache.mkdir(parents=True, exist_ok=True)
            states = make_states(args.cache) if set(wanted) != {"throughput"} else {}
            if "blocking" in wanted:
                for name in ("dense (ELU)", "NavRL policy, 512 wide", "NavRL policy"):
                    add(
                        blocking_table(
                            name, states[name][300], folder, args.rounds if name[0] == "d" else 3 * args.rounds
                        )
                    )
            if "size" in wanted:
                add(size_table(states, folder))
            for name in ("dense (ELU)", "sparse (ReLU, dead units)"):
                if "background" in wanted:
                    add(background_table(name, states[name], folder, args.rounds))
                if "load" in wanted:
                    add(load_table(name, states[name], folder, args.rounds))
            if "throughput" in wanted:
                states.clear()
                add(throughput_table(folder, args.rounds))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if args.write:
        result = Path(__file__).parent / "results" / f"checkpoint-{today}{'-cuda' if args.cuda else ''}.md"
        result.write_text("\n".join(out))
    with contextlib.suppress(Exception):
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
