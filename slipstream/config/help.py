"""Which keys can be set: their names, defaults and help, the nearest one to a wrong one, and the errors that name
it."""

from __future__ import annotations

import ast
import difflib
import inspect
import textwrap
from collections.abc import Iterable
from dataclasses import fields, is_dataclass
from typing import Any


class ConfigError(ValueError):
    """A key or value that is not allowed; the message says what is."""


class UnknownKeyError(ConfigError):
    """A key that does not exist. The message names the nearest of the known `keys`; if it is from a file, the place."""

    def __init__(self, key: str, keys: Iterable[str], command: str, source: str = "") -> None:
        self.key, self.keys, self.source = key, list(keys), source
        what = f"{source}: unknown key" if source else f"unknown key '{key}'"
        super().__init__(f"{what}{nearest(key, self.keys)} (all keys: slipstream {command} --help)")


def nearest(word: str, words: Iterable[str]) -> str:
    """The hint `: did you mean …?`, or nothing where no word is near."""
    known = list(words)
    matches = difflib.get_close_matches(word, known, 1, 0.5)
    if not matches:  # the right leaf under another branch
        leaf = word.rpartition(".")[2]
        matches = [k for k in known if k.rpartition(".")[2] == leaf] or difflib.get_close_matches(leaf, known, 1, 0.6)
    return f": did you mean '{matches[0]}'?" if matches else ""


def describe_keys(config: Any, hidden: Iterable[str] = ()) -> str:
    """Return every key of a config with its value and the comment beside it in the code, for --help."""
    lines: list[str] = []

    def walk(instance: Any, prefix: str) -> None:
        notes = _field_comments(type(instance))
        for f in fields(instance):
            value = getattr(instance, f.name)
            if is_dataclass(value):
                walk(value, f"{prefix}{f.name}.")
            elif prefix + f.name not in hidden:
                lines.append(f"  {prefix + f.name + '=' + show(value):44} {notes.get(f.name, '')}".rstrip())

    walk(config, "")
    return "\n".join(lines)


def show(value: Any) -> str:
    """Return a value as it is typed."""
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(str, value)) + "]"
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _field_comments(kind: type[Any]) -> dict[str, str]:
    """Return the comment behind each field of a dataclass, from its source and from what it inherits."""
    found: dict[str, str] = {}
    for one in reversed([base for base in kind.__mro__ if is_dataclass(base)]):
        try:
            source = textwrap.dedent(inspect.getsource(one))
        except OSError:
            continue
        lines = source.splitlines()
        definition = ast.parse(source).body[0]
        for node in definition.body if isinstance(definition, ast.ClassDef) else ():
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                field_lines = lines[node.lineno - 1 : node.end_lineno]
                comments = [text for line in field_lines if (text := line.partition("  # ")[2].strip())]
                found |= {node.target.id: comments[0]} if comments else {}
    return found
