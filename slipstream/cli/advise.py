"""slipstream advise: profile your configuration, and measure changes that could make it faster.

    slipstream advise [key=value ...]                any key of `slipstream train --help`, presets too
    slipstream advise preset=demo --apply FILE       write the advice; then: slipstream train preset=demo @FILE
    slipstream advise seconds=180                    how long it may take (60); changes without time are listed
    slipstream advise only=collect.pipeline,compile  only these keys, with more time for each
    slipstream advise --json                         the last line is one JSON object

Each answer names its key, the gain that is possible at most (Amdahl's law and the shares of an iteration that the
learner waits), and the measured gain: seven to ten alternating pairs, their median and its 97.5 % interval. Changes
that do not help are withdrawn.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.table import Table

from slipstream.config.compose import load_train
from slipstream.config.help import ConfigError
from slipstream.config.overrides import split_keys, value_of
from slipstream.config.values import convert
from slipstream.monitor import Advisor
from slipstream.monitor.advisor import ADVISED, KEEP, NOT_TRIED, WITHDRAWN, Report
from slipstream.storage.files import check_writable, write_file
from slipstream.tasks.report import render
from slipstream.training.advice import training_questions
from slipstream.training.tuning import TrainingProbe, choose_sizes, format_value

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
    log: Callable[[str], None] = (lambda text: None) if as_json else print
    config = load_train(words)
    if config.actors.count:
        raise ConfigError("advice is measured in one process: leave actors.count out")
    if config.auto:
        found = choose_sizes(config, log)
        chosen = {"env.num_envs": found.env.num_envs, "algo.minibatches": getattr(found.algo, "minibatches", None)}
        words += [f"{key}={chosen[key]}" for key in config.auto]
    probe = TrainingProbe(words, log)
    questions = [question for question in training_questions() if not only or question.key in only]
    try:
        report = Advisor(probe, questions, seconds, log=log).advise()
    finally:
        probe.close()
    if file:
        write_file(Path(file), apply_text(report, words).encode())
    if as_json:
        print(json.dumps(report.as_dict()))
        return 0
    print(f"\n{table(report, probe.facts()['name'])}\n\n{closing(report)}")
    if file:
        print(f"wrote {file}: slipstream train {' '.join([*words, '@' + file])}")
    return 0


def table(report: Report, where: str) -> str:
    """Return the answers as a table, advice first."""
    title = f"{report.rate:,.0f} frames/s on {where}, {report.seconds:.0f} s; bottleneck: {report.bottleneck}"
    answers = Table(title=title, title_justify="left")
    for name in ("question", "key", "now", "try", "at most", "measured", "verdict", "why"):
        answers.add_column(name, overflow="fold")
    order = (ADVISED, WITHDRAWN, NOT_TRIED, KEEP)
    for f in sorted(report.findings, key=lambda f: order.index(f.verdict)):
        tried = format_value(f.value) if f.value != f.before else ""
        bound = f"{f.predicted:.2f} ×" if f.predicted and f.verdict != KEEP else ""
        why = f"{f.why} [{f.learning}]" if f.learning and f.verdict == ADVISED else f.why
        answers.add_row(f.question, f.key, format_value(f.before), tried, bound, str(f.gain or ""), f.verdict, why)
    return render(answers, 150)


def closing(report: Report) -> str:
    """Return what to do, in a sentence or two."""
    advised = [finding for finding in report.findings if finding.verdict == ADVISED]
    if advised:
        words = " ".join(f"{key}={format_value(value)}" for key, value in report.overrides.items())
        several = sum(finding.gain is not None for finding in advised) > 1
        together = f" (all together {report.together})" if report.together and several else ""
        changed = "; ".join(
            dict.fromkeys(f"{finding.key}: {finding.learning}" for finding in advised if finding.learning)
        )
        return f"advice{together}: {words}" + (f"\nlearning changes: {changed}" if changed else "")
    no_time = ", ".join(dict.fromkeys(f.key for f in report.findings if f.verdict == NOT_TRIED))
    more = f"; no time was left for {no_time}: give a larger seconds=" if no_time else ""
    if any(finding.gain is not None for finding in report.findings):
        return f"no change made it faster: keep it as it is{more}"
    return f"nothing was tried{more or ': no question promises a gain; keep it as it is'}"


def apply_text(report: Report, words: list[str]) -> str:
    """Return a file for `slipstream train @FILE`. Changes of the batches are comments: faster is not yet better
    learning."""
    lines = [f"# slipstream advise {' '.join(words)}: {report.rate:,.0f} frames/s; bottleneck: {report.bottleneck}"]
    last = {finding.key: finding for finding in report.findings if finding.verdict == ADVISED}
    for key, finding in last.items():
        note = "; ".join(text for text in (str(finding.gain or finding.why), finding.learning) if text)
        for name, value in {key: finding.value, **finding.also}.items():
            lines.append(f"{'# ' if finding.batches else ''}{name}={format_value(value)}  # {note}")
    return "\n".join(lines) + "\n"


def _seconds(text: Any) -> float:
    try:
        seconds = 60.0 if text is None else float(text)
    except ValueError:
        seconds = 0.0
    if seconds <= 0:
        raise ConfigError(f"seconds={text} is not a time: give how long the advice may take, as seconds=60")
    return seconds


def _only(text: Any) -> list[str]:
    """Return the keys of `only=KEY,KEY`; none if it is not given."""
    asked = [key.strip() for key in str(text).split(",")] if text is not None else []
    known = dict.fromkeys(question.key for question in training_questions())
    for key in asked:
        if key not in known:
            raise ConfigError(f"only={text}: nothing is asked about '{key}': use some of {', '.join(known)}")
    return asked
