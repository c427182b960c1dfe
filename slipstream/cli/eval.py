"""Evaluate a policy; `slipstream validate` flies it in two simulators and compares them."""

from __future__ import annotations

import argparse
from pathlib import Path

from slipstream.cli import add_force, check_output
from slipstream.config.compose import help_text as keys_help
from slipstream.config.overrides import plain_overrides, value_of

add_arguments = add_force  # besides the keys
BESIDE = (".png", ".html", ".rec", ".acmi")  # files with these suffixes may be written beside the one that out= names


def help_text(words: list[str]) -> str:
    """Return the keys with their defaults for the task in `words`."""
    return keys_help("eval", words)


def run(args: argparse.Namespace) -> int:
    """Evaluate or validate, and print the tables."""
    from slipstream.training.evaluate import evaluate, validate

    if args.command == "validate":
        validate(*args.words)
        return 0
    words = plain_overrides(args.words)
    out = value_of("out", words)
    if out and Path(out).suffix:
        for path in [Path(out), *(Path(out).with_suffix(suffix) for suffix in BESIDE)]:
            check_output(path, args.force)
    evaluate(*words)
    return 0
