"""Which keys can be set: their names, defaults and help, the nearest one to a wrong one, and the errors that name
it."""

from __future__ import annotations

import ast
import difflib
import inspect
import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from slipstream.storage.errors import printable

_NEAR = 0.75  # one wrong letter of four


class ConfigError(ValueError):
    """A key or value that is not allowed; the message says what is, in one line also if the value has several."""

    def __init__(self, message: str) -> None:
        super().__init__(printable(message, keep=""))


class UnknownKeyError(ConfigError):
    """A key that does not exist. The message names the nearest of the known `keys`; if it is from a file, the place."""

    def __init__(
        self, key: str, keys: Iterable[str], command: str, source: str = "", aliases: Mapping[str, str] | None = None
    ) -> None:
        self.key, self.keys, self.source, self.aliases = key, list(keys), source, aliases
        what = f"{source}: unknown key" if source else f"unknown key '{key}'"
        section, _, name = key.partition(".")
        own = f"an argument of your env is {section}.kwargs.{name}; " if f"{section}.kwargs" in self.keys else ""
        super().__init__(f"{what}{nearest(key, self.keys, aliases)} ({own}all keys: slipstream {command} --help)")


def nearest(word: str, words: Iterable[str], aliases: Mapping[str, str] | None = None) -> str:
    """The hint `: did you mean …?`, or nothing where no word is near.

    Only the last parts of keys decide: the section is no likeness (`algo.banana`), and it may be the wrong part.

    Args:
        word: as typed.
        words: the known ones.
        aliases: other names of the known ones.
    """
    named = {**(aliases or {}), **{key: key for key in words}}
    leaf = word.rpartition(".")[2]

    def likeness(key: str) -> tuple[float, float]:
        name = key.rpartition(".")[2]
        begins = len(leaf) >= 3 and len(name) >= 3 and (name.startswith(leaf) or leaf.startswith(name))
        begins |= len(leaf) >= 5 and name.endswith(f"_{leaf}")  # frames for total_frames
        same = difflib.SequenceMatcher(None, leaf, name).ratio() + (0.1 if len(leaf) < 4 else 0)  # one letter of three
        return max(same, _NEAR) if begins else same, difflib.SequenceMatcher(None, word, key).ratio()

    scores = {key: likeness(key) for key in named}
    best = max(scores, key=lambda key: scores[key], default="")
    return f": did you mean '{named[best]}'?" if best and scores[best][0] >= _NEAR else ""


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
