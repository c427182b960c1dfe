"""Train a policy."""

from __future__ import annotations

import argparse

from slipstream.config.compose import help_text as keys_help
from slipstream.config.compose import load_train


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Everything else is a key."""


def help_text(words: list[str]) -> str:
    """Return the keys with their defaults for the task, algorithm and preset in `words`."""
    return keys_help("train", words)


def run(args: argparse.Namespace) -> int:
    """Train, and print where the results are."""
    from slipstream.config import registry
    from slipstream.train import run as train

    cfg = load_train(args.words)
    folder = train(cfg).path
    print(f"run folder: {folder}")
    curves = [path for name in ("report.html", "learning.png") if (path := folder / name).exists()]
    if curves:
        print(f"curves:     {curves[0]}")
    trusting = registry.trusting_words({"task": cfg.task, "algo": cfg.algo.name})
    print(f"evaluate:   slipstream eval checkpoint={folder}{trusting}")
    return 0
