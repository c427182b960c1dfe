"""The names of keys in other libraries: the table in `names.yaml`.

A name stands for a key of ours, or for a sentence that says what to set instead: it has spaces.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

import yaml

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # written in C: 1 ms instead of 20
TABLE = yaml.load(Path(__file__).with_suffix(".yaml").read_bytes(), _LOADER)
ALIASES = {alias: key for key, aliases in TABLE["renamed"].items() for alias in aliases}
NAMES: dict[str, list[str]] = TABLE["names"]
INSTEAD = [(row["key"], row["names"], row["set"]) for row in TABLE["instead"]]
WORDS: dict[str, str] = TABLE["words"]
FLAGS: dict[str, str] = TABLE["flags"]


def other_names(keys: Collection[str]) -> dict[str, str]:
    """Return what other names mean for a config with these keys: a key, or a sentence on what to set."""
    meanings = dict(ALIASES)
    for key, names, meaning in [*((key, names, key) for key, names in NAMES.items()), *INSTEAD]:
        if key in keys:
            meanings |= dict.fromkeys(names, meaning)
    named = {key: key for key in keys} | meanings
    flags = {name.removeprefix("algo."): meaning for name, meaning in named.items() if name.startswith("algo.")}
    return flags | meanings  # as in --gamma 0.99


def is_without_effect(key: str) -> bool:
    """Return whether a key configures what is not here, such as Isaac Sim."""
    return any(f"{key}.".startswith(f"{name}.") for name in TABLE["without_effect"])
