"""Runs targets in a child process, so that a crash, a hang or too much memory is seen and has a number.

    python tests/fuzz/harness.py [--seed S] [--share 0.001] [--seconds N] [TARGET ...]

An input is a function of the good inputs, the seed and its number: the parent makes a failing one again and saves it.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import mmap
import multiprocessing
import os
import resource
import struct
import sys
import tempfile
import time
import traceback
import warnings
from dataclasses import dataclass, field
from pathlib import Path

os.environ.setdefault("SLIPSTREAM_MAX_BYTES", str(64 << 20))
os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]

HANG_S = 5.0  # processor time of one input
WAIT_S = 30.0  # wall time of one input that takes no processor time
MEMORY = 512 << 20  # that one input may add to the process: the budget of 64 MB, libraries, and fragmentation
CORPUS = Path(__file__).parent / "corpus"
_STATE = struct.Struct("<qqd")  # number of the input, failures, wall time of its start


@dataclass
class Report:
    """What happened."""

    target: str
    count: int = 0
    refused: int = 0
    seconds: float = 0.0
    failures: list[tuple[int, str]] = field(default_factory=list)  # (number, what)


def run_target(name: str, count: int, seed: str, save_to: Path | None = None, seconds: float = 1e9) -> Report:
    """Run inputs 0 to `count` of a target in child processes; a child that dies is replaced after its input."""
    import targets

    target, report, begin = targets.TARGETS[name], Report(name), time.monotonic()
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None) as folder:
        place = Path(folder)
        (place / "seeds").mkdir()
        seeds = target.seeds(place / "seeds")
        number = 0
        while number < count and time.monotonic() - begin < seconds and len(report.failures) < 20:
            number = _run_child(target, seeds, seed, number, count, place, report, begin + seconds)
        report.count = number
        if save_to is not None:
            for failed, what in report.failures:
                save_to.mkdir(parents=True, exist_ok=True)
                (save_to / f"{name}-{seed}-{failed}.bin").write_bytes(
                    targets.make_input(target, seeds, seed, failed)[0]
                )
                (save_to / f"{name}-{seed}-{failed}.txt").write_text(what)
    report.seconds = time.monotonic() - begin
    return report


def _run_child(target, seeds, seed, first, count, place, report, until) -> int:
    """Run inputs from `first` on until the last one, or until one ends the child; return the next number."""
    shared = mmap.mmap(-1, _STATE.size)
    shared[:] = _STATE.pack(first, 0, time.monotonic())
    log = place / "failures.jsonl"
    log.write_text("")
    child = multiprocessing.get_context("fork").Process(
        target=_child, args=(target, seeds, seed, first, count, place, log, shared, until)
    )
    child.start()
    ended = ""
    seen, at_start = -1, 0.0
    while child.is_alive():
        child.join(0.2)
        number, _, started = _STATE.unpack(shared[:])
        used = _processor_time(child.pid)
        if number != seen:
            seen, at_start = number, used
        elif used - at_start > HANG_S or time.monotonic() - started > WAIT_S:
            ended = "hangs"
            child.kill()
            child.join()
    number = _STATE.unpack(shared[:])[0]
    for line in log.read_text().splitlines():
        entry = json.loads(line)
        report.refused += entry.get("refused", 0)
        if "what" in entry:
            report.failures.append((entry["number"], entry["what"]))
    if child.exitcode != 0:
        report.failures.append((number, ended or f"the process ended with {child.exitcode}"))
        return number + 1
    return number


def _processor_time(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    except OSError:
        return 0.0


def _child(target, seeds, seed, first, count, place, log, shared, until) -> None:
    import targets
    import torch

    faulthandler.disable()  # of pytest: the parent reports a crash
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    work = place / "work"
    work.mkdir(exist_ok=True)
    sys.stderr.flush()
    good = use_one(target, *_input(targets, target, seeds, seed, 0, work))  # warm, before memory is measured
    if good != "used":
        log.write_text(json.dumps({"number": 0, "what": f"a good input: {good}"}) + "\n")
    pages = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (pages + (3 << 30), resource.RLIM_INFINITY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    peak, refused, number = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, 0, first
    with open(log, "a") as file:
        for number in range(first, count):
            if time.monotonic() > until:
                break
            shared[:] = _STATE.pack(number, 0, time.monotonic())
            outcome = use_one(target, *_input(targets, target, seeds, seed, number, work))
            grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak) * 1024
            if grown > MEMORY:
                outcome, peak = f"takes {grown >> 20} MB", peak + (grown >> 10)
            if outcome == "refused":
                refused += 1
            elif outcome != "used":
                file.write(json.dumps({"number": number, "what": outcome}) + "\n")
                file.flush()
        else:
            number = count
        file.write(json.dumps({"refused": refused}) + "\n")
    shared[:] = _STATE.pack(number, 0, time.monotonic())
    sys.stdout.flush()
    os._exit(0)


def _input(targets, target, seeds, seed, number, work):
    data, rng = targets.make_input(target, seeds, seed, number)
    return data, work, rng


def use_one(target, data: bytes, work: Path, rng) -> str:
    """Use one input; return "used", "refused" or what is wrong."""
    try:
        target.use(data, work, rng)
        return "used"
    except target.errors as error:
        text = str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)
        return "refused" if "\n" not in text and "\x1b" not in text else f"a message of several lines: {text!r}"
    except BaseException as error:
        lines = traceback.format_tb(error.__traceback__)
        return f"{type(error).__name__}: {str(error)[:300]}\n{''.join(lines[-4:])}"


def replay_corpus(name: str) -> list[str]:
    """Use the saved inputs of a target in this process; return what is wrong."""
    import random

    import targets

    class Everything(random.Random):
        """Takes the rare branches, and all of a sample: every command is run."""

        def randrange(self, *args):
            return 0

        def sample(self, population, k, **kwargs):
            return list(population)

    wrong = []
    for path in sorted(CORPUS.glob(f"{name}-*.bin")):
        for rng in random.Random(0), Everything(0):
            with tempfile.TemporaryDirectory() as work:
                outcome = use_one(targets.TARGETS[name], path.read_bytes(), Path(work), rng)
            if outcome not in ("used", "refused"):
                wrong.append(f"{path.name}: {outcome}")
    return wrong


def main() -> int:
    """Run targets and print a table of counts."""
    import targets

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("targets", nargs="*")
    parser.add_argument("--seed", default="1")
    parser.add_argument("--share", type=float, default=0.001, help="of the soak's inputs")
    parser.add_argument("--seconds", type=float, default=1e9, help="per target, at most")
    parser.add_argument("--save", type=Path, default=Path("fuzz-failures"))
    args = parser.parse_args()
    failed = 0
    for name in args.targets or targets.TARGETS:
        report = run_target(
            name, max(1, int(args.share * targets.TARGETS[name].soak)), args.seed, args.save, args.seconds
        )
        failed += len(report.failures)
        print(line(report), flush=True)
        kinds: dict[str, list[tuple[int, str]]] = {}
        for number, what in report.failures:
            kinds.setdefault(what.split(":")[0] + what.rstrip().rpartition("File")[2], []).append((number, what))
        for found in kinds.values():
            print(f"   inputs {', '.join(str(number) for number, _ in found)}: {found[0][1]}", flush=True)
    return 1 if failed else 0


def line(report: Report) -> str:
    """One row of the table."""
    each = 1e3 * report.seconds / max(1, report.count)
    return f"{report.target:15} {report.count:9,} inputs, {report.refused:9,} refused, {len(report.failures)} failures, {report.seconds:6.0f} s, {each:.2f} ms each"


if __name__ == "__main__":
    sys.exit(main())
