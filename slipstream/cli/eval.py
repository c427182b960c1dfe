"""Evaluate a policy."""

from __future__ import annotations

import argparse

from slipstream.config.compose import help_text as keys_help


def help_text(words: list[str]) -> str:
    """Return the keys with their defaults for the task in `words`."""
    return keys_help("eval", words)


def run(args: argparse.Namespace) -> int:
    """Evaluate, and print the tables."""
    from slipstream.training.evaluate import evaluate

    evaluate(*args.words)
    return 0
