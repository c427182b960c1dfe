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
    from slipstream.train import run as train
    from slipstream.training.resume import trusted_words

    cfg = load_train(args.words)
    folder = train(cfg).path
    print(f"run folder: {folder}")
    curves = [path for name in ("report.html", "learning.png") if (path := folder / name).exists()]
    if curves:
        print(f"curves:     {curves[0]}")
    print(f"evaluate:   slipstream eval checkpoint={folder}{trusted_words({'task': cfg.task})}")
    return 0
