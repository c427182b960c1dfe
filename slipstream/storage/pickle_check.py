"""Checks a pickle before torch reads it with `weights_only=True`, which runs no code but bounds no size.

The opcodes are followed with small stand-ins for the values, so nothing in the pickle is built here.
"""

from __future__ import annotations

import io
import pickletools
from typing import Any, NamedTuple

import numpy as np

from slipstream.storage.reader import Reader

_MAX_CHOSEN = 16_384  # values whose hash a writer can choose: as keys of one dict, more of them take hours
_LARGE = 1 << 31
_INTEGERS = ("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4")
_WORDS = (b"bytearray", b"_codecs", b"numpy")  # functions that can take very much memory or time, or harm memory
_ENCODINGS = ("latin1", "latin-1", "utf-8", "ascii")
_CHOSEN, _OTHER, _MARK = object(), object(), object()


def check_pickle(data: bytes, reader: Reader) -> None:
    """Check the pickle of a torch file if it could be expensive; most pickles are passed after a search for a few
    bytes."""
    many = max(data.count(b"\x8a"), data.count(b"G")) > _MAX_CHOSEN  # LONG1 and BINFLOAT
    if many or any(word in data for word in _WORDS):
        _follow(io.BytesIO(data), reader)


def _follow(file: Any, reader: Reader) -> None:
    """Follow one pickle to its end."""
    stack: list[Any] = []
    memo: dict[int, Any] = {}
    with reader.parsing("the pickle"):
        opcodes: Any = pickletools.genops(file)
        for opcode, argument, _ in opcodes:
            name = opcode.name
            if name in _INTEGERS:
                large = not -_LARGE <= argument < _LARGE
                reader.count(large, _MAX_CHOSEN, "integers of more than 32 bits")
                stack.append(argument)
            elif name in ("BINPUT", "LONG_BINPUT"):
                memo[argument] = stack[-1]
            elif name in ("BINGET", "LONG_BINGET"):
                stack.append(memo[argument])
            elif name == "GLOBAL" or name in ("BINUNICODE", "SHORT_BINSTRING"):
                stack.append(argument)
            elif name == "NONE":
                stack.append(None)
            elif name == "BINFLOAT":
                stack.append(_CHOSEN)
            elif name in ("TUPLE", "TUPLE1", "TUPLE2", "TUPLE3"):
                items = _pop_to_mark(stack) if name == "TUPLE" else [stack.pop() for _ in range(int(name[-1]))][::-1]
                chosen = any(item is _CHOSEN or _is_large(item) for item in items)
                reader.count(chosen, _MAX_CHOSEN, "tuples of floats or large integers")
                stack.append(tuple(items))
            elif name in ("REDUCE", "NEWOBJ"):
                arguments, function = stack.pop(), stack.pop()
                stack.append(_check_call(function, arguments, reader))
            elif name == "BUILD":
                state = stack.pop()
                if isinstance(stack[-1], _Dtype):
                    _check_dtype_state(stack[-1], state, reader)
            else:
                _follow_other(opcode, stack)


def _follow_other(opcode: Any, stack: list[Any]) -> None:
    """Follow an opcode whose values do not matter, by the documented change of the stack."""
    before = list(opcode.stack_before)
    if pickletools.markobject in before:
        _pop_to_mark(stack)
        before = before[: before.index(pickletools.markobject)]
    del stack[len(stack) - len(before) :]
    stack += [_MARK if kind is pickletools.markobject else _OTHER for kind in opcode.stack_after]


def _pop_to_mark(stack: list[Any]) -> list[Any]:
    at = len(stack) - 1 - stack[::-1].index(_MARK)
    items = stack[at + 1 :]
    del stack[at:]
    return items


def _is_large(value: Any) -> bool:
    return type(value) is int and not -_LARGE <= value < _LARGE


class _Dtype(NamedTuple):
    code: str  # as in np.dtype(code)


def _check_call(function: Any, arguments: Any, reader: Reader) -> Any:
    """Check a call; return a stand-in for its result."""
    arguments = arguments if isinstance(arguments, tuple) else ()
    called = function if isinstance(function, str) else ""
    if called.endswith(" bytearray") and arguments and type(arguments[0]) is int:
        reader.claim(max(0, arguments[0]), "a bytearray")
    if called.startswith("_codecs ") and (len(arguments) < 2 or arguments[1] not in _ENCODINGS):
        reader.fail("it encodes a text in an unusual way")
    if called != "numpy dtype":
        return _OTHER
    reader.dtype(arguments[0] if arguments else None, "a dtype")
    return _Dtype(arguments[0])


def _check_dtype_state(dtype: _Dtype, state: Any, reader: Reader) -> None:
    """Check that the state of a dtype is its own, but for the byte order: NumPy believes it, and numbers that claim to
    be objects would be followed as addresses."""
    own = np.dtype(dtype.code).__reduce__()[2]
    if not isinstance(state, tuple) or len(state) != len(own) or (state[0], *state[2:8]) != (own[0], *own[2:8]):
        reader.fail("a dtype with a state that is not its own")
