"""slipstream advise: measure changes that could make your configuration faster.

    slipstream advise [key=value ...]                any key of `slipstream train --help`, presets too
    slipstream advise seconds=180                    how long it may take (60); changes without time are listed

Each change runs in ten alternating pairs with the present state. It is advised if it wins nine of them, and by 1.02 in
the median; then it becomes the present state. The last line is the command with the advice.
"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from slipstream.config.compose import flat_settings, load_train, split_options, to_dict
from slipstream.config.help import ConfigError, show
from slipstream.config.overrides import value_of
from slipstream.config.validation import check_range
from slipstream.monitor import Advisor
from slipstream.monitor.advisor import ADVISED, KEEP, NOT_TRIED, WITHDRAWN, Report
from slipstream.sim.devices import resolve_device
from slipstream.training.tuning import TrainingTrial, choose_sizes, load_trial, training_questions
from slipstream.ui.tables import TextTable


@dataclass
class AdviseOptions:
    """The key of this command; the others are those of a training."""

    seconds: float = 60.0

    def __post_init__(self) -> None:
        check_range(self, "seconds", above=0, hint=": give how long the advice may take, as seconds=60")


def run(args: argparse.Namespace) -> int:
    """`slipstream advise [key=value ...] [seconds=60]`."""
    own, rest = split_options(AdviseOptions, args.words)
    words: list[str] = [*rest]
    if value_of("resume", words):
        raise ConfigError("advice is for a new run: give the run's settings, not resume=RUN")
    config = load_train(words)
    if config.actors.count:
        raise ConfigError("advice is measured in one process: leave actors.count out")
    if config.auto:
        sizes = flat_settings(to_dict(choose_sizes(config)))
        words += [f"{key}={sizes[key]}" for key in config.auto]

    def open_trial(changes: Mapping[str, object]) -> TrainingTrial:
        return TrainingTrial(load_trial(words, changes), print)

    report = Advisor(open_trial, training_questions(), own.seconds, log=print).advise()
    print(f"\n{table(report, resolve_device(config.device))}\n\n{closing(report, words)}")
    return 0


def table(report: Report, device: torch.device) -> str:
    """Return the answers as a table, advice first."""
    where = torch.cuda.get_device_name(device) if device.type == "cuda" else f"{torch.get_num_threads()} CPU threads"
    rows = []
    for f in sorted(report.findings, key=lambda f: (ADVISED, WITHDRAWN, NOT_TRIED, KEEP).index(f.verdict)):
        tried = show(f.value) if f.verdict != KEEP else ""
        gain = f"{f.gain:.2f} × ({f.low:.2f} … {f.high:.2f})" if f.gain else ""
        why = f.why or (f.learning if f.verdict == ADVISED else "")
        rows.append([f.key, show(f.before), tried, gain, f.verdict, why])
    header = ["key", "now", "try", "measured", "verdict", "why"]
    title = f"{report.rate:,.0f} frames/s on {where}, {report.seconds:.0f} s"
    return TextTable(title, header, rows, left=len(header)).render(150)


def closing(report: Report, words: Sequence[str]) -> str:
    """Return the command with the advice, and apart from it changes of the batches: faster is not yet better
    learning."""
    advice = {f.key: show(f.value) for f in report.findings if f.verdict == ADVISED and not f.only_shown}
    shown = [f"{key}={show(value)}" for key, value in report.overrides.items() if key not in advice]
    command = shlex.join([*words, *(f"{key}={value}" for key, value in advice.items())])
    lines = [f"slipstream train {command}" if advice else "no advice: keep it as it is"]
    if shown:
        lines.insert(0, f"faster too, but judge it by what it learns: {' '.join(shown)}")
    return "\n".join([f"all together: {report.together:.2f} ×", *lines] if report.overrides else lines)
