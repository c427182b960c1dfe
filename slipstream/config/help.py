"""What can be set: the keys with their defaults for --help, the nearest one to a wrong one, and the error."""

from __future__ import annotations

import difflib
import inspect
import re
import textwrap
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import fields, is_dataclass
from typing import Any

from slipstream.storage.errors import printable

_NEAR = 0.75  # one wrong letter of four


class ConfigError(ValueError):
    """A key or value that is not allowed; the message says what is, in one line also if the value has several."""

    def __init__(self, message: str) -> None:
        super().__init__(printable(message, keep=""))


def unknown(what: str, given: str, known: Iterable[str], besides: str = "") -> ConfigError:
    """Return the error for a name that is none of the `known`; `besides` are other forms that it may have."""
    known = list(known)
    return ConfigError(f"unknown {what} '{given}'{nearest(given, known)} (there are: {', '.join(known)}{besides})")


def nearest(word: str, words: Iterable[str], aliases: Mapping[str, str] | None = None) -> str:
    """Return the hint `: did you mean …?`, or nothing where no word is near.

    Only the last parts of keys decide: the section is no likeness (`algo.banana`), and it may be the wrong part. A key
    with its unit left out is near (`env.wind` for `env.wind_mps2`).

    Args:
        word: As typed.
        words: The known ones.
        aliases: Other names of the known ones.
    """
    named = {**(aliases or {}), **{key: key for key in words}}
    leaf = word.rpartition(".")[2]

    def likeness(key: str) -> tuple[float, float]:
        pairs = (leaf, key.rpartition(".")[2]), (word, key)
        part, complete = (difflib.SequenceMatcher(None, *pair).ratio() for pair in pairs)
        return (_NEAR if pairs[0][1].startswith(f"{leaf}_") else part), complete

    best = max(named, key=likeness, default="")
    return f": did you mean '{named[best]}'?" if best and likeness(best)[0] >= _NEAR else ""


def describe_keys(config: Any, hidden: Iterable[str] = (), prefix: str = "") -> str:
    """Return every key of a config with its value and the comment beside it in the code, for --help."""
    lines: list[str] = []
    notes = _field_comments(type(config))
    for f in fields(config):
        key, value = prefix + f.name, getattr(config, f.name)
        if is_dataclass(value):
            lines.append(describe_keys(value, hidden, f"{key}."))
        elif key not in hidden:
            lines.append(f"  {f'{key}={show(value)}':44} {notes.get(f.name, '')}".rstrip())
    return "\n".join(filter(None, lines))


def show(value: Any) -> str:
    """Return a value as it is typed."""
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(str, value)) + "]"
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _field_comments(kind: type[Any]) -> dict[str, str]:
    """Return the comment in the first line of each field of a dataclass and of what it inherits."""
    comments: dict[str, str] = {}
    for base in reversed([base for base in kind.__mro__ if is_dataclass(base)]):
        with suppress(OSError):  # a class of an interactive session
            source = textwrap.dedent(inspect.getsource(base))
            comments |= dict(re.findall(r"^    (\w+): .*  # (.+)$", source, re.MULTILINE))
    return comments
