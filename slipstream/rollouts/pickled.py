"""Rollouts that other code pickled: dicts of NumPy arrays, plain or in an LZ4 frame. No code from the file is run.

`pickle.Unpickler` gets constructors of ours for the few names by which NumPy stores an array, and none for others.
"""

from __future__ import annotations

import io
import pickle
import pickletools
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import torch
from tensordict import TensorDict

from slipstream.storage.errors import printable
from slipstream.storage.tensor_file import Reader

_MAX_VALUES = 50_000  # instructions of a pickle, and values of what it holds: few enough for keys that collide
_MAX_DEPTH = 100
_READ = "only dicts, lists, numbers, texts and NumPy arrays are read"


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
    content = read_pickle(reader.lz4(reader.read(path)).getvalue(), reader)
    if type(content) is not dict:
        reader.fail(f"it holds a {type(content).__name__}, not a dict of arrays")
    nested: dict[str, Any] = {}
    for key, value in content.items():
        node = nested
        *above, last = key if isinstance(key, tuple) else str(key).split("/")
        for name in above:
            node = node.setdefault(str(name), {})
            if type(node) is not dict:
                reader.fail(f"the key {printable(repr(key))} is below an array")
        node[str(last)] = value
    with reader.parsing("the rollout"):
        return TensorDict(_named(nested), batch_size=[], device=torch.device(device))


def _named(node: dict[Any, Any]) -> dict[str, Any]:
    """Return nested dicts with texts as keys."""
    return {str(name): _named(value) if isinstance(value, dict) else value for name, value in node.items()}


def read_pickle(data: bytes, reader: Reader) -> Any:
    """Return what a pickle of containers, plain values and NumPy arrays holds."""
    with reader.parsing("the pickle"):
        for opcode, argument, _ in pickletools.genops(data):  # raises for sizes beyond the end of the file
            reader.count(1, _MAX_VALUES, "instructions of a pickle: store numbers as arrays")
            if "PUT" in opcode.name and int(argument or 0) > _MAX_VALUES:  # Python's memo would take memory for as many
                reader.fail(f"it keeps value number {argument}")
        reader.claim(len(data), "the arrays of the pickle")
        try:
            content = _Unpickler(data, reader).load()
        except pickle.UnpicklingError as error:
            reader.fail(f"the pickle is malformed: {printable(str(error))[:80]}")
        return _plain(content, reader, 0)


class _Unpickler(pickle.Unpickler):
    def __init__(self, data: bytes, reader: Reader) -> None:
        super().__init__(io.BytesIO(data))
        self._names = {
            "numpy.dtype": _Maker(reader, lambda name, *_: _DType(reader, name)),
            "numpy.ndarray": _Maker(
                reader, lambda *_: reader.fail("it makes an array of a size that the file chooses")
            ),
        }
        for core in ("numpy.core", "numpy._core"):
            self._names[f"{core}.multiarray._reconstruct"] = _Maker(reader, lambda *_: _Array(reader))
            self._names[f"{core}.multiarray.scalar"] = _Maker(
                reader, lambda dtype, data: _array(reader, (), dtype, data)[()]
            )
            self._names[f"{core}.numeric._frombuffer"] = _Maker(reader, lambda *args: _from_buffer(reader, *args))
        self._reader = reader

    def find_class(self, module: str, name: str) -> Any:
        """Return a constructor of ours."""
        if f"{module}.{name}" not in self._names:
            self._reader.fail(f"it names {printable(f'{module}.{name}')[:80]}, which could run code: {_READ}")
        return self._names[f"{module}.{name}"]


class _Maker:
    """A function of ours that a pickle may call; it has no state that a pickle could set."""

    __slots__ = ("_make", "_reader")

    def __init__(self, reader: Reader, make: Any) -> None:
        self._reader, self._make = reader, make

    def __call__(self, *arguments: Any) -> Any:
        return self._make(*arguments)

    def __setstate__(self, state: Any) -> NoReturn:
        self._reader.fail("it sets the state of something that is not an array")


class _DType:
    """A dtype of plain numbers or texts: its name, then its byte order."""

    __slots__ = ("dtype", "reader")

    def __init__(self, reader: Reader, name: Any) -> None:
        self.reader, self.dtype = reader, reader.dtype(name, "the dtype of an array")

    def __setstate__(self, state: Any) -> None:
        if type(state) is not tuple or len(state) != 8 or state[2:5] != (None, None, None):
            self.reader.fail("an array is of structures or dates: only plain numbers and texts are read")
        self.dtype = self.dtype.newbyteorder({"<": "<", ">": ">", "|": "|", "=": "="}[state[1]])  # type: ignore[arg-type]


class _Array:
    """An array before and after the pickle sets its shape, dtype and bytes."""

    __slots__ = ("reader", "value")

    def __init__(self, reader: Reader) -> None:
        self.reader, self.value = reader, None

    def __setstate__(self, state: Any) -> None:
        _, shape, dtype, fortran, data = state
        self.value = _array(self.reader, shape, dtype, data, "F" if fortran else "C")


def _array(reader: Reader, shape: Any, dtype: Any, data: Any, order: Any = "C") -> Any:
    if type(dtype) is not _DType or not isinstance(data, bytes | bytearray):
        reader.fail("an array holds objects: only plain numbers and texts are read")
    sizes, plain = reader.shape(shape, "the shape of an array"), dtype.dtype
    if reader.product([*sizes, plain.itemsize], "the shape of an array") != len(data):
        reader.fail(f"an array of {plain} {list(sizes)} does not fit its {len(data)} bytes")
    array = np.frombuffer(data, plain).reshape(sizes, order={"C": "C", "F": "F"}[order])  # type: ignore[call-overload]
    return np.array(array, plain.newbyteorder("="), order="K")  # torch needs the machine's byte order


def _from_buffer(reader: Reader, data: Any, dtype: Any, shape: Any, order: Any, axes: Any = None) -> Any:
    if order != "K":
        return _array(reader, shape, dtype, data, order)
    array = _array(reader, shape, dtype, data)  # NumPy's form of a transposed array
    return array.transpose(reader.integers(axes, "the axes of an array", 0, array.ndim - 1))


def _plain(node: Any, reader: Reader, depth: int) -> Any:
    """Return a value with its arrays; containers are copied, so that nothing contains itself."""
    reader.count(1, _MAX_VALUES, "values")
    if depth > _MAX_DEPTH:
        reader.fail(f"it is nested deeper than {_MAX_DEPTH} levels, or contains itself")
    if type(node) is dict:
        return {key: _plain(value, reader, depth + 1) for key, value in node.items()}
    if type(node) in (list, tuple):
        return type(node)(_plain(value, reader, depth + 1) for value in node)
    node = node.value if type(node) is _Array else node
    if node is not None and not isinstance(node, bool | int | float | str | bytes | np.generic | np.ndarray):
        reader.fail(f"it holds a {type(node).__name__}: {_READ}")
    return node
