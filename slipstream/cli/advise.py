"""slipstream advise: profiles your own configuration, and tries what could make it faster.

    slipstream advise [key=value ...]                any key of `slipstream train --help`, presets too
    slipstream advise preset=demo --apply FILE       writes what held; then: slipstream train preset=demo @FILE
    slipstream advise seconds=180                    how long it may take (60); what no time is left for is listed as not tried
    slipstream advise only=collect.pipeline,compile  just these keys, for which there is more time then
    slipstream advise --json                         the last line is one JSON object

Every advice names its key, what it can gain at most (Amdahl's law over the shares of an iteration for which the learner stands
still), and what it gained when it was tried: both states in turns, the median of seven to ten pairs and a 97.5 % interval of it.
What does not hold is shown as withdrawn.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from rich.table import Table

from slipstream.config.compose import load_train
from slipstream.config.help import ConfigError
from slipstream.config.overrides import split_keys, value_of
from slipstream.config.values import convert
from slipstream.monitor import Advisor
from slipstream.monitor.asking import ADVISED, NOT_TRIED, Finding, Report
from slipstream.storage.files import check_writable, write_file
from slipstream.tasks.tables import render
from slipstream.training.tuning import TrainingProbe, choose_sizes, training_questions
from slipstream.training.tuning.probe import as_word

OWN_KEYS = ("seconds", "only", "apply", "json")  # besides the keys of a training


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Everything else is a key."""


def run(args: argparse.Namespace) -> int:
    """`slipstream advise [key=value ...] [seconds=60] [only=KEY,KEY] [--apply FILE] [--json]`."""
    own, rest = split_keys(args.words, OWN_KEYS)
    words: list[str] = list(rest)
    file, as_json = own.get("apply"), convert(own.get("json", False), bool)
    seconds, only = _seconds(own.get("seconds")), _only(own.get("only"))
    if value_of("resume", words):
        raise ConfigError("advice is for a new run: give the run's settings, not resume=RUN")
    if file:
        check_writable(Path(file))  # before minutes of measuring
    tell: Callable[[str], None] = (lambda text: None) if as_json else print
    config = load_train(words)
    if config.auto:
        found = choose_sizes(config, tell)
        chosen = {"env.num_envs": found.env.num_envs, "algo.minibatches": getattr(found.algo, "minibatches", None)}
        words += [f"{key}={chosen[key]}" for key in config.auto]
    report, where = profile(words, seconds, tell, only)
    if file:
        write_file(Path(file), apply_text(report, words).encode())
    if as_json:
        print(json.dumps(report.as_dict()))
        return 0
    print(f"\n{table(report, where)}\n\n{closing(report)}")
    if file:
        print(f"wrote {file}: slipstream train {' '.join([*words, '@' + file])}")
    return 0


def profile(
    words: list[str], seconds: float, tell: Callable[[str], None] = print, only: Collection[str] = ()
) -> tuple[Report, str]:
    """The report of the configuration that `words` describe, and where it ran; `only`: the keys to ask about, all by default."""
    probe = TrainingProbe(words, tell)
    questions = [question for question in training_questions(probe.gain_over_half) if not only or question.key in only]
    try:
        report = Advisor(probe, questions, seconds, tell=tell).advise()
    finally:
        probe.close()
    return report, probe.facts()["name"]


def table(report: Report, where: str) -> str:
    """The answers, what held first."""
    title = f"{report.rate:,.0f} frames/s on {where}, {report.seconds:.0f} s; bottleneck: {report.bottleneck}"
    found = Table(title=title, title_justify="left")
    for name in ("question", "key", "now", "try", "at most", "measured", "verdict", "why"):
        found.add_column(name, overflow="fold")
    order = ("advised", "withdrawn", "not tried", "keep")
    for finding in sorted(report.findings, key=lambda f: order.index(f.verdict)):
        found.add_row(*_row(finding))
    return render(found, 150)


def closing(report: Report) -> str:
    """What to do, in a sentence or two."""
    held = [finding for finding in report.findings if finding.verdict == ADVISED]
    if not held:
        return _nothing_held(report)
    words = " ".join(f"{key}={as_word(value)}" for key, value in report.overrides.items())
    measured = [finding for finding in held if finding.gain]
    together = f" (all together {report.together})" if report.together and len(measured) > 1 else ""
    changed = "; ".join(dict.fromkeys(f"{finding.key}: {finding.learning}" for finding in held if finding.learning))
    return f"advice{together}: {words}" + (f"\nwhat is learned changes: {changed}" if changed else "")


def _nothing_held(report: Report) -> str:
    """Why there is no advice: what was tried did not help, or there was no time, or nothing to try."""
    tried = any(finding.gain is not None for finding in report.findings)
    left = [finding.key for finding in report.findings if finding.verdict == NOT_TRIED]
    more = f"; no time was left for {', '.join(dict.fromkeys(left))}: give a larger seconds=" if left else ""
    if tried:
        return f"nothing that was tried made it faster: keep it as it is{more}"
    return f"nothing was tried{more or ': nothing that is asked about could make it faster; keep it as it is'}"


def apply_text(report: Report, words: list[str]) -> str:
    """A file for `slipstream train @FILE`. What changes the batches is written as a remark: faster is not yet better learning."""
    lines = [f"# slipstream advise {' '.join(words)}: {report.rate:,.0f} frames/s; bottleneck: {report.bottleneck}"]
    last = {finding.key: finding for finding in report.findings if finding.verdict == ADVISED}
    for key, finding in last.items():
        mark = "# " if finding.batches else ""
        note = f"{finding.gain}" if finding.gain else finding.why
        note += f"; {finding.learning}" if finding.learning else ""
        lines += [
            f"{mark}{name}={as_word(value)}  # {note}" for name, value in {key: finding.value, **finding.also}.items()
        ]
    return "\n".join(lines) + "\n"


def _row(finding: Finding) -> list[str]:
    tried = as_word(finding.value) if finding.value != finding.before else ""
    predicted = f"{finding.predicted:.2f} ×" if finding.predicted and finding.verdict != "keep" else ""
    measured = str(finding.gain) if finding.gain else ""
    why = finding.why + (f" [{finding.learning}]" if finding.learning and finding.verdict == ADVISED else "")
    return [finding.question, finding.key, as_word(finding.before), tried, predicted, measured, finding.verdict, why]


def _seconds(text: Any) -> float:
    try:
        seconds = 60.0 if text is None else float(text)
    except ValueError:
        seconds = 0.0
    if seconds <= 0:
        raise ConfigError(f"seconds={text} is not a time: give how long the advice may take, as seconds=60")
    return seconds


def _only(text: Any) -> list[str]:
    """The keys of `only=KEY,KEY`; none where it is not given."""
    asked = [key.strip() for key in str(text).split(",")] if text is not None else []
    known = dict.fromkeys(question.key for question in training_questions())
    for key in asked:
        if key not in known:
            raise ConfigError(f"only={text}: nothing is asked about '{key}': use some of {', '.join(known)}")
    return asked
