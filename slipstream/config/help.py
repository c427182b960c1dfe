"""Which keys can be set: their names, their defaults, their help, the nearest one to a wrong one, and the errors that tell so."""

from __future__ import annotations

import difflib
import inspect
import re
from collections.abc import Iterable
from dataclasses import fields, is_dataclass
from typing import Any


class ConfigError(ValueError):
    """A key or value that cannot be; the message says what can."""


class UnknownKeyError(ConfigError):
    """A key that nobody reads; says which of the known `keys` of `command` is nearest."""

    def __init__(self, key: str, keys: Iterable[str], command: str) -> None:
        self.key, self.keys = key, list(keys)
        super().__init__(f"unknown key '{key}'{nearest(key, self.keys)} (all keys: slipstream {command} --help)")


def settable(kind: type[Any], sections: dict[str, type[Any]]) -> dict[str, Any]:
    """Every key that can be set, dotted, with its default; `sections` has the dataclasses of those that are chosen (env, algo)."""
    keys: dict[str, Any] = {}

    def walk(instance: Any, prefix: str) -> None:
        for f in fields(instance):
            value = getattr(instance, f.name) if prefix or f.name not in sections else sections[f.name]()
            keys[prefix + f.name] = value
            if is_dataclass(value):
                walk(value, f"{prefix}{f.name}.")

    walk(kind(), "")
    return keys


def nearest(word: str, words: Iterable[str]) -> str:
    """The hint `: did you mean …?`, or nothing where no word is near."""
    known = list(words)
    matches = difflib.get_close_matches(word, known, 1, 0.5)
    if not matches:  # the right leaf under another branch
        leaf = word.rpartition(".")[2]
        matches = [k for k in known if k.rpartition(".")[2] == leaf] or difflib.get_close_matches(leaf, known, 1, 0.6)
    return f": did you mean '{matches[0]}'?" if matches else ""


def describe_keys(config: Any, hidden: Iterable[str] = ()) -> str:
    """Every key of a configuration with its value and the comment that stands beside it in the code, for --help."""
    lines: list[str] = []

    def walk(instance: Any, prefix: str) -> None:
        notes = _field_comments(type(instance))
        for f in fields(instance):
            value = getattr(instance, f.name)
            if is_dataclass(value):
                walk(value, f"{prefix}{f.name}.")
            elif prefix + f.name not in hidden:
                lines.append(f"  {prefix + f.name + '=' + _shown(value):44} {notes.get(f.name, '')}".rstrip())

    walk(config, "")
    return "\n".join(lines)


def _shown(value: Any) -> str:
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(str, value)) + "]"
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _field_comments(kind: type[Any]) -> dict[str, str]:
    """The comment behind each field of a dataclass, from its source and from what it inherits."""
    found: dict[str, str] = {}
    for one in reversed([base for base in kind.__mro__ if is_dataclass(base)]):
        try:
            source = inspect.getsource(one)
        except OSError:
            continue
        found |= {name: text.strip() for name, text in re.findall(r"^\s+(\w+): [^#\n]*#\s*(.+)$", source, re.MULTILINE)}
    return found
