"""The keys of a config class: their values, types and comments; and text and plain data turned into those types."""

from __future__ import annotations

import functools
import inspect
import re
import textwrap
import types
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import fields, is_dataclass
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from slipstream.config.help import show
from slipstream.config.overrides import parse_value

MAX_INTEGER, MAX_FLOAT = 2**63 - 1, 3.4e38  # what torch's int64 and float32 hold
MAX_RANGE = 10_000  # numbers that one range may stand for
BOOLEANS = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}


@functools.cache
def type_hints(kind: Any) -> dict[str, Any]:
    """Return the declared type of each field of a dataclass; the type of its default if the annotation cannot be
    read."""
    try:
        return get_type_hints(kind)
    except (NameError, TypeError):
        return {f.name: type(getattr(kind(), f.name)) for f in fields(kind)}


def settable(config: Any, prefix: str = "") -> dict[str, tuple[Any, Any, Any]]:
    """Return every key of a config, dotted, with its value, its declared type, and the class that has it."""
    keys: dict[str, tuple[Any, Any, Any]] = {}
    hints = type_hints(config.__class__)
    for f in fields(config):
        value = getattr(config, f.name)
        keys[prefix + f.name] = (value, hints[f.name], type(config))
        if is_dataclass(value):
            keys |= settable(value, f"{prefix}{f.name}.")
    return keys


def describe_keys(config: Any, hidden: Iterable[str] = (), prefix: str = "") -> str:
    """Return every key of a config with its value and the comment beside it in the code, for --help."""
    lines = []
    for key, (value, _, kind) in settable(config, prefix).items():
        if not is_dataclass(value) and key not in hidden:
            comment = _field_comments(kind).get(key.rpartition(".")[2], "")
            lines.append(f"  {f'{key}={show(value)}':44} {comment}".rstrip())
    return "\n".join(lines)


@functools.cache
def _field_comments(kind: type[Any]) -> dict[str, str]:
    """Return the comment in the first line of each field of a dataclass and of what it inherits."""
    comments: dict[str, str] = {}
    for base in reversed([base for base in kind.__mro__ if is_dataclass(base)]):
        with suppress(OSError):  # a class of an interactive session
            source = textwrap.dedent(inspect.getsource(base))
            comments |= dict(re.findall(r"^    (\w+): .*  # (.+)$", source, re.MULTILINE))
    return comments


def read(given: Any, hint: Any, ranges: bool = False) -> Any:
    """Return what a word's text, or data out of a file, means for a key of type `hint`. Text for a text key is taken as
    it is.

    Args:
        ranges: `301-332` stands for the numbers from 301 to 332.

    Raises:
        ValueError: It cannot be a value of that type. The message is what it must be, such as "a whole number".
    """
    if isinstance(given, str):
        if hint in (str, str | None):
            return None if given == "null" and hint is not str else given
        given = parse_value(given)
    return convert(_expand_ranges(given) if ranges else given, hint)


def convert(value: Any, hint: Any) -> Any:
    """Return plain data as the type `hint`. Raise ValueError if it cannot be."""
    kind, args = get_origin(hint) or hint, get_args(hint)
    if kind in (Union, types.UnionType):
        return _convert_union(value, args)
    if kind is Literal:
        if value not in args:
            *others, last = map(str, args)
            raise ValueError(f"{', '.join(others)} or {last}" if others else last)
        return value
    if kind in (list, tuple):
        return _convert_sequence(value, kind, args)
    if kind is dict:
        if not isinstance(value, dict):
            raise ValueError("a mapping, written as {name: value}")
        return {convert(key, args[0]): convert(item, args[1]) for key, item in value.items()} if args else value
    if kind is bool:
        text = str(value).lower()
        if text not in BOOLEANS:
            raise ValueError("true or false")
        return BOOLEANS[text]
    if kind in (int, float):
        return _convert_number(value, kind)
    if kind is str:
        if value is None or isinstance(value, list | tuple | dict):
            raise ValueError("text")
        return str(value).lower() if isinstance(value, bool) else str(value)
    return value


def _convert_union(value: Any, options: tuple[Any, ...]) -> Any:
    if value is None and type(None) in options:
        return None
    expected = []
    for option in sorted(options, key=lambda option: option is not type(value)):  # its own type first
        try:
            if option is not type(None):
                return convert(value, option)
        except ValueError as error:
            expected.append(str(error))
    raise ValueError(" or ".join(expected))


def _convert_sequence(value: Any, kind: type[Any], args: tuple[Any, ...]) -> Any:
    if not isinstance(value, list | tuple):
        raise ValueError("a list, written as [1,2,3]")
    hints = [args[0] if args else Any] * len(value)
    if kind is tuple and args and args[-1] is not Ellipsis:
        if len(value) != len(args):
            raise ValueError(f"a list of {len(args)}")
        hints = list(args)
    return kind(convert(item, hint) for item, hint in zip(value, hints, strict=True))


def _expand_ranges(value: Any) -> Any:
    """Return a list, or one range, with each `301-332` in it as the numbers from 301 to 332."""
    numbers: list[Any] = []
    for item in value if isinstance(value, list | tuple) else [value]:
        match = re.fullmatch(r"(\d{1,18})-(\d{1,18})", item) if isinstance(item, str) else None
        if match is None:
            numbers.append(item)
            continue
        first, last = map(int, match.groups())
        if not first <= last < first + MAX_RANGE:
            raise ValueError(f"a range such as 101-116, the smaller number first, of up to {MAX_RANGE:,}")
        numbers += range(first, last + 1)
    return value if numbers == [value] else numbers


def _convert_number(value: Any, kind: type[Any]) -> Any:
    expected = "a whole number" if kind is int else "a number"
    try:
        number: Any = value if type(value) is int else float(value)
        if not isinstance(value, bool) and (kind is float or type(number) is int or number.is_integer()):
            number = kind(number)  # 12e8 is a whole number too
            if abs(number) <= (MAX_INTEGER if kind is int else MAX_FLOAT):  # false for NaN
                return number
            expected = "a whole number below 2^63" if kind is int else "a finite number of at most 3.4e38"
    except (ValueError, TypeError, OverflowError):
        pass
    raise ValueError(expected)
