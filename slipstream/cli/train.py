"""Train a policy."""

from __future__ import annotations

import argparse
import os
import shlex
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

from slipstream.config.compose import help_text as keys_help
from slipstream.config.compose import load_train, to_dict
from slipstream.config.overrides import plain_overrides
from slipstream.config.schema import TrainConfig
from slipstream.sim.startup import start_cuda, without_garbage_collection

EARLY_SIGNALS = ("SIGTERM", "SIGUSR1", "SIGHUP", "SIGQUIT")  # Ctrl-C is Python's KeyboardInterrupt
STOPPED = 75  # training.run_folder.STOPPED, which this module must not load yet
_is_loading = False


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Everything else is a key."""
    parser.add_argument("--multirun", action="store_true", help="train once per value of key=A,B and compare the runs")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="trainings at a time (1)")


def help_text(words: list[str]) -> str:
    """Return the keys with their defaults for the task, algorithm and preset in `words`."""
    return keys_help("train", words)


@contextmanager
def stopped_by_signals() -> Iterator[None]:
    """Let a stop signal that comes before the first iteration, or after the last, end the command with the exit code of
    a training that was stopped. During the iterations the training itself answers them."""

    def stop(number: int, frame: FrameType | None) -> None:
        if _is_loading:  # an exception inside the import of a C++ library can crash it, and nothing is open yet
            os._exit(STOPPED)
        else:
            raise SystemExit(STOPPED)

    known = [getattr(signal, name) for name in EARLY_SIGNALS if hasattr(signal, name)]
    taken = [number for number in known if signal.getsignal(number) == signal.SIG_DFL]
    if threading.current_thread() is not threading.main_thread():
        taken = []
    for number in taken:
        signal.signal(number, stop)
    try:
        yield
    finally:
        for number in taken:
            signal.signal(number, signal.SIG_DFL)


@contextmanager
def loading() -> Iterator[None]:
    """Let a stop signal inside the block end the process at once."""
    global _is_loading
    _is_loading = True
    try:
        yield
    finally:
        _is_loading = False


def _load_as_rank(words: Sequence[str]) -> TrainConfig:
    """Return the config of a rank; the others end if it has an error."""
    from slipstream.training.distributed import failing_together

    with failing_together():
        return load_train(words)


def run(args: argparse.Namespace) -> int:
    """Train, and print where the results are."""
    with stopped_by_signals():
        return train(args)


def train(args: argparse.Namespace) -> int:
    """Train in this process, or in several."""
    from slipstream.cli import compare, console, exploit
    from slipstream.config import registry
    from slipstream.distributed import multirun

    multirun.end_with_parent()
    words = plain_overrides(args.words)
    jobs = multirun.expand(words, args.multirun)
    if jobs:
        cfg = load_train(jobs[0].words)  # an error in the words is reported before anything starts
        group = multirun.run_jobs(jobs, args.jobs, multirun.LocalStart(args.jobs, cfg))
        compare.show([str(group)], console(), [], None)
        return 0
    with without_garbage_collection(), loading():
        cfg = _load_as_rank(words) if "RANK" in os.environ else load_train(words)
        if cfg.device != "cpu":
            start_cuda()
        # loaded after an error in the words would have been reported: 1.5 s
        from slipstream.distributed.launch import launch, ranks_to_start
        from slipstream.train import run as train_here
        from slipstream.training.distributed import is_root

    count = ranks_to_start(cfg)
    if count > 1:
        return launch(args.words, cfg, count)[0]
    run_folder = train_here(cfg)
    if not is_root():
        return 0
    folder = run_folder.path
    print(f"run folder: {folder}")
    if (folder / "learning.png").exists():
        print(f"curves:     {folder / 'learning.png'}")
    env = to_dict(cfg.env) | registry.find_task(cfg.task).evaluation_settings
    trusting = registry.trusting_words({"task": cfg.task, "algo": cfg.algo.name, "model": vars(cfg.model), "env": env})
    print(f"evaluate:   slipstream eval {shlex.quote(f'checkpoint={folder}')}{trusting}")
    code = run_folder.exit_code()
    of_report = registry.find_task(cfg.task).words_of_report(cfg, folder)
    return exploit.run(argparse.Namespace(words=of_report)) if of_report and code == 0 else code
