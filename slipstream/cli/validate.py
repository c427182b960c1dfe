"""Fly a policy in two simulators and compare them."""

from __future__ import annotations

import argparse

from slipstream.cli import add_force, check_output
from slipstream.config.compose import help_text as keys_help
from slipstream.config.overrides import plain_overrides, value_of


def help_text(words: list[str]) -> str:
    """Return the keys, which are those of `eval`."""
    return keys_help("eval", words)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Besides the keys: --force."""
    add_force(parser)


def run(args: argparse.Namespace) -> int:
    """Validate, and print the tables."""
    from slipstream.training.evaluate import validate

    words = plain_overrides(args.words)
    check_output(value_of("out", words), args.force)
    validate(*words)
    return 0
