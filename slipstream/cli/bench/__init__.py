"""Measure the speed of this installation on this machine, beside peers: slipstream bench env | train."""

from __future__ import annotations

import argparse
from types import ModuleType

from slipstream.config.help import ConfigError, nearest

OWN_KEYS = ("sizes", "forms", "out")


def run(args: argparse.Namespace) -> int:
    """Measure one subject."""
    subjects, given = _subjects(), [*args.words, ""][0]
    if given not in subjects:
        hint = nearest(given, subjects)
        raise ConfigError(f"slipstream bench measures {' or '.join(subjects)}, not '{given}'{hint} (see its --help)")
    return int(subjects[given].run(args.words[1:]))


def help_text(words: list[str]) -> str:
    """Return the help of the subject in `words`, or of all."""
    texts = {name: module.__doc__ or "" for name, module in _subjects().items()}
    return "\n".join(text for name, text in texts.items() if name in words or not set(texts) & set(words))


def _subjects() -> dict[str, ModuleType]:
    from slipstream.cli.bench import env, train

    return {"env": env, "train": train}
