"""Fly a policy in two simulators and compare them."""

from __future__ import annotations

import argparse

from slipstream.config.compose import help_text as keys_help


def help_text(words: list[str]) -> str:
    """Return the keys, which are those of `eval`."""
    return keys_help("eval", words)


def run(args: argparse.Namespace) -> int:
    """Validate, and print the tables."""
    from slipstream.training.evaluate import validate

    validate(*args.words)
    return 0
