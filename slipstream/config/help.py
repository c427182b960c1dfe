"""What can be set: the nearest key to a wrong one, and the error."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
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


def show(value: Any) -> str:
    """Return a value as it is typed."""
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(str, value)) + "]"
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
