"""Runs targets in a child process, so that a crash, a hang or too much memory is seen and has a number.

    python tests/fuzz/harness.py [--seed S] [--share 0.001] [--seconds N] [TARGET ...]

An input is a function of the good inputs, the seed and its number: the parent makes a failing one again and saves it.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import multiprocessing
import os
import resource
import signal
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
WAIT_S = 30  # wall time of one input that takes no processor time
MEMORY = 512 << 20  # that one input may add to the process: the budget of 64 MB, libraries, and fragmentation
CORPUS = Path(__file__).parent / "corpus"
ENDINGS = {-signal.SIGPROF: "hangs", -signal.SIGALRM: "waits for ever"}


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
    context = multiprocessing.get_context("fork")
    number = context.Value("q", 0, lock=False)  # the input that the child uses
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None) as folder:
        for inner in ("seeds", "work"):
            (Path(folder) / inner).mkdir()
        seeds, log = target.seeds(Path(folder) / "seeds"), Path(folder) / "log.jsonl"
        while number.value < count and time.monotonic() - begin < seconds and len(report.failures) < 20:
            log.write_text("")
            child = context.Process(
                target=_child, args=(target, seeds, seed, count, Path(folder) / "work", log, number, begin + seconds)
            )
            child.start()
            child.join()
            for failed, what in map(json.loads, log.read_text().splitlines()):
                if what == "refused":
                    report.refused += failed
                else:
                    report.failures.append((failed, what))
            if child.exitcode != 0:
                what = ENDINGS.get(child.exitcode, f"the process ended with {child.exitcode}")
                report.failures.append((number.value, what))
                number.value += 1
        report.count, report.seconds = number.value, time.monotonic() - begin
        for failed, what in report.failures if save_to else ():
            save_to.mkdir(parents=True, exist_ok=True)
            data = targets.make_input(target, seeds, seed, failed)[0]
            (save_to / f"{name}-{seed}-{failed}.bin").write_bytes(data)
            (save_to / f"{name}-{seed}-{failed}.txt").write_text(what)
    return report


def _child(target, seeds, seed, count, work, log, number, until) -> None:
    """Use inputs from `number` on until the last one, or until one ends this process."""
    import targets
    import torch

    faulthandler.disable()  # of pytest: the parent reports a crash
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    sys.stderr.flush()

    def use(i: int) -> str:
        data, rng = targets.make_input(target, seeds, seed, i)
        return use_one(target, data, work, rng)

    good = use(0)  # warm, before memory is measured
    pages = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (pages + (3 << 30), resource.RLIM_INFINITY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    peak, refused = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, 0
    with open(log, "a", buffering=1) as file:
        if good != "used":
            print(json.dumps([0, f"a good input: {good}"]), file=file)
        for i in range(number.value, count):
            number.value = i
            if time.monotonic() > until:
                break
            signal.setitimer(signal.ITIMER_PROF, HANG_S)  # both signals end the process, also in native code
            signal.alarm(WAIT_S)
            outcome = use(i)
            grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak) * 1024
            if grown > MEMORY:
                outcome, peak = f"takes {grown >> 20} MB", peak + (grown >> 10)
            if outcome == "refused":
                refused += 1
            elif outcome != "used":
                print(json.dumps([i, outcome]), file=file)
        else:
            number.value = count
        print(json.dumps([refused, "refused"]), file=file)
    sys.stdout.flush()
    os._exit(0)


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
