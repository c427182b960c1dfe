"""slipstream advise: measure changes that could make your configuration faster.

    slipstream advise [key=value ...]                any key of `slipstream train --help`, presets too
    slipstream advise preset=demo --apply FILE       write the advice; then: slipstream train preset=demo config=FILE
    slipstream advise seconds=180                    how long it may take (60); changes without time are listed

Each change runs in ten alternating pairs with the present state. It is advised if it wins nine of them, and by 1.02 in
the median; then it becomes the present state.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from rich.table import Table

from slipstream.config.compose import load_train, split_options
from slipstream.config.help import ConfigError
from slipstream.config.overrides import value_of
from slipstream.config.validation import check_range
from slipstream.monitor import Advisor
from slipstream.monitor.advisor import ADVISED, KEEP, NOT_TRIED, WITHDRAWN, Report
from slipstream.sim.devices import resolve_device
from slipstream.storage.files import check_writable, write_file
from slipstream.training.tuning import TrainingTrial, choose_sizes, format_value, load_trial, training_questions
from slipstream.ui.tables import render


@dataclass
class AdviseOptions:
    """The keys of this command; the others are those of a training."""

    seconds: float = 60.0
    apply: str | None = None

    def __post_init__(self) -> None:
        check_range(self, "seconds", above=0, hint=": give how long the advice may take, as seconds=60")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Everything else is a key."""


def run(args: argparse.Namespace) -> int:
    """`slipstream advise [key=value ...] [seconds=60] [--apply FILE]`."""
    own, rest = split_options(AdviseOptions, args.words)
    words: list[str] = list(rest)
    file = own.apply
    if value_of("resume", words):
        raise ConfigError("advice is for a new run: give the run's settings, not resume=RUN")
    if file:
        check_writable(Path(file))  # before minutes of measuring
    config = load_train(words)
    if config.actors.count:
        raise ConfigError("advice is measured in one process: leave actors.count out")
    if config.auto:
        chosen = choose_sizes(config)
        sizes = {"env.num_envs": chosen.env.num_envs, "algo.minibatches": getattr(chosen.algo, "minibatches", None)}
        words += [f"{key}={sizes[key]}" for key in config.auto]

    def open_trial(changes: Mapping[str, Any]) -> TrainingTrial:
        return TrainingTrial(load_trial(words, changes), print)

    report = Advisor(open_trial, training_questions(), own.seconds, log=print).advise()
    if file:
        write_file(Path(file), apply_text(report, words).encode())
    print(f"\n{table(report, resolve_device(config.device))}\n\n{closing(report)}")
    if file:
        kept = [word for word in words if word.partition("=")[0] not in report.overrides]  # typed words would win
        print(f"wrote {file}: slipstream train {' '.join([*kept, f'config={file}'])}")
    return 0


def table(report: Report, device: torch.device) -> str:
    """Return the answers as a table, advice first."""
    where = torch.cuda.get_device_name(device) if device.type == "cuda" else f"{torch.get_num_threads()} CPU threads"
    title = f"{report.rate:,.0f} frames/s on {where}, {report.seconds:.0f} s"
    answers = Table(title=title, title_justify="left")
    for name in ("key", "now", "try", "measured", "verdict", "why"):
        answers.add_column(name, overflow="fold")
    order = (ADVISED, WITHDRAWN, NOT_TRIED, KEEP)
    for f in sorted(report.findings, key=lambda f: order.index(f.verdict)):
        tried = format_value(f.value) if f.verdict != KEEP else ""
        gain = f"{f.gain:.2f} × ({f.low:.2f} … {f.high:.2f})" if f.gain else ""
        why = f.why or (f.learning if f.verdict == ADVISED else "")
        answers.add_row(f.key, format_value(f.before), tried, gain, f.verdict, why)
    return render(answers, 150)


def closing(report: Report) -> str:
    """Return what to do, in a sentence."""
    if not report.overrides:
        return "no advice: keep it as it is"
    words = " ".join(f"{key}={format_value(value)}" for key, value in report.overrides.items())
    return f"advice (together {report.together:.2f} ×): {words}"


def apply_text(report: Report, words: list[str]) -> str:
    """Return a file for `slipstream train config=FILE`. Changes of the batches are comments: faster is not yet better
    learning."""
    lines = [f"# slipstream advise {' '.join(words)}: {report.rate:,.0f} frames/s"]
    for f in report.findings:
        if f.verdict == ADVISED:
            note = f"{f.gain:.2f} ×" + (f"; {f.learning}" if f.learning else "")
            lines.append(f"{'# ' if f.only_shown else ''}{f.key}: {format_value(f.value)}  # {note}")
    return "\n".join(lines) + "\n"
