"""Rollouts that other code pickled: dicts of NumPy arrays, plain or in an LZ4 frame. No code from the file is run.

The pickle is followed by a small machine of our own, not by Python's. It knows containers, plain values and the calls
by which NumPy stores an array; everything else is refused.
"""

from __future__ import annotations

import io
import pickletools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tensordict import TensorDict

from slipstream.storage.reader import Reader

_LZ4_MAGIC = b"\x04\x22\x4d\x18"
_MAX_DEPTH = 100
_MAX_VALUES = 1_000_000  # of the result, where every reference to a list counts as a copy of it
_VALUE_BYTES = 100
_MARK = object()
_VALUES = frozenset(
    ("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT", "UNICODE", "BINUNICODE")
    + ("SHORT_BINUNICODE", "BINUNICODE8", "BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8")
)
_MAKERS: dict[str, Callable[[], Any]] = {"EMPTY_DICT": dict, "EMPTY_LIST": list, "EMPTY_TUPLE": tuple}
_MAKERS |= {"NONE": lambda: None, "NEWTRUE": lambda: True, "NEWFALSE": lambda: False}
_ARRAY, _DTYPE = "numpy.ndarray", "numpy.dtype"
_CALLS = {f"numpy.{core}.multiarray._reconstruct": "array" for core in ("core", "_core")}
_CALLS |= {f"numpy.{core}.multiarray.scalar": "scalar" for core in ("core", "_core")}
_CALLS |= {f"numpy.{core}.numeric._frombuffer": "buffer" for core in ("core", "_core")}
_CALLS |= {_DTYPE: "dtype", _ARRAY: "type", "_codecs.encode": "encode"}
_CALLS |= {"__builtin__.bytes": "nothing", "builtins.bytes": "nothing"}


def load_rollout(path: str | Path, device: torch.device | str = "cpu", max_bytes: int | None = None) -> TensorDict:
    """Load a pickled rollout: a dict of NumPy arrays, as `pickle.dumps` wrote it, plain or compressed by LZ4.

    Keys "observation/lidar" and ("observation", "lidar") become nested. No code from the file is run.

    Args:
        path: the file.
        device: of the tensors.
        max_bytes: memory that loading may take; by default nine tenths of what is available.

    Raises:
        DamagedFileError: if the file is damaged, or holds more than dicts, lists, numbers, texts and arrays.
        TooLargeError: if it would take more than `max_bytes`.
    """
    reader = Reader(path, max_bytes=max_bytes)
    data = reader.read(path)
    content = read_pickle(reader.lz4(Path(path)).getvalue() if data[:4] == _LZ4_MAGIC else data, reader)
    if type(content) is not dict:
        reader.fail(f"it holds a {type(content).__name__}, not a dict of arrays")
    nested: dict[str, Any] = {}
    for key, value in content.items():
        node = nested
        *above, last = key if isinstance(key, tuple) else str(key).split("/")
        for name in above:
            node = node.setdefault(str(name), {})
            if type(node) is not dict:
                reader.fail(f"the key {key!r} is below an array")
        node[str(last)] = value
    with reader.parsing("the rollout"):
        return TensorDict(_tensors(nested), batch_size=[], device=torch.device(device))


def _tensors(node: dict[Any, Any]) -> dict[str, Any]:
    """Return nested dicts with arrays of numbers as tensors."""
    found: dict[str, Any] = {}
    for name, value in node.items():
        if isinstance(value, dict):
            found[str(name)] = _tensors(value)
        else:
            numbers = isinstance(value, np.ndarray) and value.dtype.kind in "biufc"
            found[str(name)] = torch.from_numpy(value) if numbers else value
    return found


def read_pickle(data: bytes, reader: Reader) -> Any:
    """Return what a pickle of containers, plain values and NumPy arrays holds."""
    machine = _Machine(reader)
    try:
        with reader.parsing("the pickle"):
            result = machine.run(data)
            machine.count(result, 0)
            return machine.resolve(result)
    except RecursionError:
        reader.fail(f"it is nested deeper than {_MAX_DEPTH} levels")


class _Call:
    """An array, a dtype or a number that the pickle makes step by step; `value` once it is complete."""

    def __init__(self, kind: str, arguments: tuple[Any, ...]) -> None:
        self.kind, self.arguments = kind, arguments
        self.state: Any = None
        self.value: Any = None


class _Name:
    """The name of something that may be called."""

    def __init__(self, name: str) -> None:
        self.name = name


class _Machine:
    def __init__(self, reader: Reader) -> None:
        self.reader = reader
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}
        self.sizes: dict[int, int] = {}

    def run(self, data: bytes) -> Any:
        """Follow the opcodes; return the value on the stack, with `_Call`s in the place of arrays."""
        stack, memo, operations = self.stack, self.memo, 0
        opcodes: Any = pickletools.genops(io.BytesIO(data))
        for opcode, argument, _ in opcodes:
            name, operations = opcode.name, operations + 1
            if operations % 1024 == 0:
                self.reader.claim(1024 * _VALUE_BYTES, "the values of the pickle")
            if name in _VALUES:
                if isinstance(argument, str | bytes | bytearray):
                    self.reader.claim(len(argument), "the bytes of the pickle")
                stack.append(argument)
            elif name in _MAKERS:
                stack.append(_MAKERS[name]())
            elif name == "MARK":
                stack.append(_MARK)
            elif name in ("TUPLE", "LIST", "DICT"):
                items = self._to_mark()
                pairs = zip(items[::2], items[1::2], strict=True) if name == "DICT" else ()
                made: Any = {self._key(key): value for key, value in pairs}
                stack.append(tuple(items) if name == "TUPLE" else items if name == "LIST" else made)
            elif name in ("TUPLE1", "TUPLE2", "TUPLE3"):
                stack.append(tuple([stack.pop() for _ in range(int(name[-1]))][::-1]))
            elif name in ("APPEND", "APPENDS"):
                items = [stack.pop()] if name == "APPEND" else self._to_mark()
                self._top(list).extend(items)
            elif name in ("SETITEM", "SETITEMS"):
                items = [stack.pop(), stack.pop()][::-1] if name == "SETITEM" else self._to_mark()
                for key, value in zip(items[::2], items[1::2], strict=True):
                    self._top(dict)[self._key(key)] = value
            elif name == "MEMOIZE":
                memo[len(memo)] = stack[-1]
            elif name in ("PUT", "BINPUT", "LONG_BINPUT"):
                memo[argument] = stack[-1]
            elif name in ("GET", "BINGET", "LONG_BINGET"):
                stack.append(memo[argument])
            elif name in ("GLOBAL", "STACK_GLOBAL"):
                text = argument.replace(" ", ".") if name == "GLOBAL" else ".".join([stack.pop(), stack.pop()][::-1])
                if text not in _CALLS:
                    shown = "".join(c if c.isprintable() else "?" for c in text[:80])
                    self.reader.fail(
                        f"it names {shown}, which could run code: only dicts, lists, numbers, texts and NumPy arrays are read"
                    )
                stack.append(_Name(text))
            elif name in ("REDUCE", "BUILD"):
                argument = stack.pop()
                self._call(stack.pop(), argument) if name == "REDUCE" else self._build(stack[-1], argument)
            elif name == "STOP":
                return stack.pop()
            elif name not in ("PROTO", "FRAME"):
                self.reader.fail(
                    f"it has the instruction {name}: only dicts, lists, numbers, texts and NumPy arrays are read"
                )
        self.reader.fail("the pickle is cut short")

    def count(self, node: Any, depth: int) -> int:
        """Return the number of values below a node, each as often as it is named. Refuse too many, or too deep ones."""
        if type(node) not in (dict, list, tuple):
            return 1
        if depth > _MAX_DEPTH:
            self.reader.fail(f"it is nested deeper than {_MAX_DEPTH} levels, or contains itself")
        if id(node) not in self.sizes:
            children = node.values() if type(node) is dict else node
            self.sizes[id(node)] = 1 + sum(self.count(child, depth + 1) for child in children)
        if self.sizes[id(node)] > _MAX_VALUES:
            self.reader.fail(f"it has more than {_MAX_VALUES} values")
        return self.sizes[id(node)]

    def resolve(self, node: Any) -> Any:
        """Return a value with its arrays made; lists and dicts are copied, so that nothing contains itself."""
        kind = type(node)
        if kind is dict:
            return {self.resolve(key): self.resolve(value) for key, value in node.items()}
        if kind is list or kind is tuple:
            return kind(self.resolve(value) for value in node)
        if kind is _Call:
            return self._made(node)
        if kind in (_Name, object):
            self.reader.fail("it holds a function: only dicts, lists, numbers, texts and NumPy arrays are read")
        return node

    def _to_mark(self) -> list[Any]:
        items: list[Any] = []
        while (item := self.stack.pop()) is not _MARK:
            items.append(item)
        return items[::-1]

    def _top(self, kind: type[Any]) -> Any:
        if type(self.stack[-1]) is not kind:
            self.reader.fail(f"it changes a {type(self.stack[-1]).__name__} as if it were a {kind.__name__}")
        return self.stack[-1]

    def _key(self, key: Any) -> Any:
        parts = key if type(key) is tuple else (key,)
        small = type(key) is int and -(1 << 31) <= key < 1 << 31
        if not small and not all(type(part) is str for part in parts):  # a writer cannot choose the hashes of these
            self.reader.fail("a key of a dict is neither a text, a tuple of texts nor a small number")
        return key

    def _call(self, function: Any, arguments: Any) -> None:
        if type(function) is not _Name or type(arguments) is not tuple or _CALLS[function.name] == "type":
            self.reader.fail("it calls something that is not a function of NumPy's arrays")
        kind = _CALLS[function.name]
        if kind == "nothing" and not arguments:
            self.stack.append(b"")
        elif kind == "nothing":
            self.reader.fail("it makes bytes of a size that the file chooses")
        elif kind == "encode":  # bytes in pickles of protocol 2
            text, encoding = arguments
            self.stack.append(self.reader.text(text, "bytes", len(text)).encode({"latin1": "latin1"}[encoding]))
        else:
            self.stack.append(_Call(kind, arguments))

    def _build(self, made: Any, state: Any) -> None:
        if type(made) is not _Call or made.kind not in ("array", "dtype") or made.state is not None:
            self.reader.fail("it sets the state of something that is not an array")
        made.state = state

    def _made(self, call: _Call) -> Any:
        """Return the array, dtype or number that was made, after a check of every size."""
        if call.value is None:
            make: Any = {"dtype": self._make_dtype, "array": self._make_array, "buffer": self._from_bytes}
            make |= {"scalar": lambda state, dtype, content: self._from_bytes(None, content, dtype, (), "C")[()]}
            call.value = make[call.kind](call.state, *call.arguments)
        return call.value

    def _make_dtype(self, state: Any, name: Any, *_: Any) -> np.dtype[Any]:
        """The dtype of its name and byte order; never of objects or fields."""
        order = "="
        if state is not None:
            if type(state) is not tuple or len(state) != 8 or state[2:5] != (None, None, None):
                self.reader.fail("an array is of structures or dates: only plain numbers and texts are read")
            order = state[1]
        dtype = self.reader.dtype(name, "the dtype of an array")
        orders: dict[str, Any] = {"<": "<", ">": ">", "|": "|", "=": "="}
        return dtype.newbyteorder(orders[order])

    def _make_array(self, state: Any, kind: Any, *_: Any) -> np.ndarray:
        if type(kind) is not _Name or kind.name != _ARRAY or type(state) is not tuple or len(state) != 5:
            self.reader.fail("an array is not made as NumPy makes it")
        _, shape, dtype, fortran, content = state
        return self._from_bytes(None, content, dtype, shape, "F" if fortran else "C")

    def _from_bytes(self, state: Any, content: Any, dtype: Any, shape: Any, order: Any, axes: Any = None) -> np.ndarray:
        plain = self._made(dtype) if type(dtype) is _Call and dtype.kind == "dtype" else None
        if plain is None or not isinstance(content, bytes | bytearray):
            self.reader.fail("an array holds objects: only plain numbers and texts are read")
        sizes = self.reader.shape(shape, "the shape of an array")
        if self.reader.product([*sizes, plain.itemsize], "the shape of an array") != len(content):
            self.reader.fail(f"an array of {plain} {list(sizes)} does not fit its {len(content)} bytes")
        self.reader.claim(len(content), "an array")
        orders: dict[str, Any] = {"C": "C", "F": "F", "K": "C"}
        array = np.frombuffer(content, plain).reshape(sizes, order=orders[order])
        if order == "K":  # NumPy's form of a transposed array
            array = array.transpose(self.reader.integers(axes, "the axes of an array", 0, array.ndim - 1))
        return np.array(array, plain.newbyteorder("="), order="K")  # torch needs the machine's byte order
