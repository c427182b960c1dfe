"""Nested state as data: what a checkpoint holds besides the bytes of its tensors, written as JSON, never as pickle.

`freeze` copies the containers at the call and takes the tensors out; `to_json` and `from_json` write and read the frozen
tree; `thaw` puts tensors back in. A frozen tree holds plain values, and `Node` for everything else.
"""

from __future__ import annotations

import struct
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch

from slipstream.checkpoint.errors import CheckpointError, CorruptCheckpointError
from slipstream.storage.serializer import Leaves

MAX_DEPTH = 100
_PLAIN = frozenset((type(None), bool, int, float, str))
_NOTHING = object()
_SAFE_INT = 1 << 53  # beyond it other JSON readers lose digits


class Node(NamedTuple):
    """A tagged part of a frozen tree; what `value` is depends on the tag."""

    tag: str
    value: Any


_READY = tuple(Node("tensor", i) for i in range(1024))  # made once: they hold nothing of a state


def freeze(state: Any) -> tuple[Any, Leaves]:
    """The frozen tree of `state` and its tensors, not yet copied. The same tensor object twice becomes one leaf."""
    data: list[Any] = []
    names: list[Any] = []
    arrays: list[int] = []
    seen: dict[int, int] = {}
    plain, tensor, known, new = _PLAIN, torch.Tensor, seen.setdefault, tuple.__new__

    def leaf(value: Any, name: Any) -> int:
        index = known(id(value), len(data))
        if index == len(data):
            data.append(value)
            names.append(name)
        return index

    def walk(node: Any, name: Any, depth: int) -> Any:
        kind = type(node)
        if kind in plain:
            return node
        if kind is tensor:
            return Node("learning" if node.requires_grad else "tensor", leaf(node, name))
        if depth > MAX_DEPTH:
            raise CheckpointError(f"a state nested deeper than {MAX_DEPTH} levels, or one that holds itself")
        if kind is dict or kind is OrderedDict:
            pairs = []
            for (
                key,
                value,
            ) in node.items():  # the trainer waits for this loop: what is common is done in it, without a call
                child = type(value)
                if child is tensor:
                    count = len(data)
                    index = known(id(value), count)
                    if index == count:
                        data.append(value)
                        names.append(key)
                    value = _READY[index] if index < 1024 and not value.requires_grad else walk(value, key, depth)
                elif child not in plain:
                    value = walk(value, key, depth + 1)
                pairs.append((key if type(key) in plain else _frozen_key(key), value))
            if kind is dict:
                return new(Node, ("dict", pairs))  # a named tuple's own constructor takes twice as long
            metadata = getattr(node, "_metadata", None)  # state_dict() keeps the modules' versions there
            return new(Node, ("odict", [pairs, walk(metadata, None, depth + 1)]))
        if kind is list or kind is tuple:
            if plain.issuperset(map(type, node)):  # the 625 numbers of a random state, at once
                return Node(kind.__name__, list(node))
            return Node(kind.__name__, [walk(v, name, depth + 1) for v in node])
        if isinstance(node, torch.nn.Parameter):
            return Node("parameter", [leaf(node, name), node.requires_grad])
        if isinstance(node, np.ndarray):
            count = len(data)
            index = leaf(node, name)
            arrays.extend(range(count, len(data)))  # it, unless it was there before
            return Node("ndarray", index)
        return _rare(node, walk, leaf, name, depth)

    try:
        return walk(state, None, 0), Leaves(data, names, arrays)
    except (
        _Refused
    ) as refused:  # the place is looked for only now: carrying it along would double the time of a good walk
        raise TypeError(f"checkpoint{_place(state, refused.node)} {refused.reason}") from None


class _Refused(Exception):
    def __init__(self, node: Any, reason: str) -> None:
        super().__init__(reason)
        self.node, self.reason = node, reason


def _rare(node: Any, walk: Callable[..., Any], leaf: Callable[..., int], name: Any, depth: int) -> Any:
    if isinstance(node, (bytes, bytearray)):
        return Node("bytes" if isinstance(node, bytes) else "bytearray", bytes(node))
    if type(node) is complex:
        return Node("complex", node)
    if isinstance(node, torch.Size):
        return Node("size", list(node))
    if isinstance(node, torch.dtype):
        return Node("dtype", str(node).removeprefix("torch."))
    if isinstance(node, torch.device):
        return Node("device", str(node))
    if isinstance(node, np.generic) and node.dtype.kind in "biufc":
        return Node("numpy", [node.dtype.str, node.tobytes()])
    if isinstance(node, dict):  # defaultdict and other kinds: their items are kept, the kind is not
        return walk(dict(node), name, depth)
    if type(node) in (set, frozenset):
        return Node(type(node).__name__, [_frozen_key(v) for v in node])
    if type(node).__module__ == "torch.nn.parameter" and isinstance(node, torch.Tensor):
        return Node("tensor", leaf(node.detach(), name))
    advice = (
        "its state_dict(), get_state() or a dict of its fields"
        if not isinstance(node, torch.Tensor)
        else "a plain tensor"
    )
    raise _Refused(node, f"is a {type(node).__module__}.{type(node).__qualname__}: save {advice} instead")


def _frozen_key(key: Any) -> Any:
    frozen, leaves = freeze(key)
    if leaves.data:
        raise _Refused(key, "has a tensor as a key or in a set: use its number or name instead")
    return frozen


def _place(state: Any, wanted: Any) -> str:
    """Where in a nested state an object lies, as one would write it."""
    if state is wanted:
        return ""
    pairs = state.items() if isinstance(state, dict) else enumerate(state) if isinstance(state, (list, tuple)) else []
    for key, child in pairs:
        if child is wanted:
            return f"[{key!r}]"
        if isinstance(child, (dict, list, tuple)) and (below := _place(child, wanted)):
            return f"[{key!r}]{below}"
    return ""


def to_json(node: Any) -> Any:
    """A frozen tree as JSON values: plain ones as they are, everything else as [tag, value]."""
    if type(node) is not Node:
        if type(node) is int and not -_SAFE_INT < node < _SAFE_INT:
            return ["int", hex(node)]
        if type(node) is float and (node != node or node in (float("inf"), float("-inf"))):
            return ["float", struct.pack(">d", node).hex()]
        return node
    tag, value = node
    if tag == "dict":
        return [tag, [[to_json(k), to_json(v)] for k, v in value]]
    if tag == "odict":
        return [tag, [[[to_json(k), to_json(v)] for k, v in value[0]], to_json(value[1])]]
    if tag in ("list", "tuple", "set", "frozenset"):
        return [tag, [to_json(v) for v in value]]
    if tag in ("bytes", "bytearray"):
        return [tag, value.hex()]
    if tag == "complex":
        return [tag, struct.pack(">2d", value.real, value.imag).hex()]
    if tag == "numpy":
        return [tag, [value[0], value[1].hex()]]
    return [tag, value]


def from_json(data: Any, leaves: int, depth: int = 0) -> Any:
    """The frozen tree that `to_json` wrote; refuses anything else. `leaves` is how many tensors there are."""
    if type(data) in _PLAIN:
        return data
    if depth > 2 * MAX_DEPTH or type(data) is not list or len(data) != 2 or type(data[0]) is not str:
        raise CorruptCheckpointError("the structure of the checkpoint is malformed")
    tag, value = data
    try:
        if tag == "dict":
            return Node(tag, [(_key(k, depth), from_json(v, leaves, depth + 1)) for k, v in value])
        if tag == "odict":
            items, metadata = value
            pairs = [(_key(k, depth), from_json(v, leaves, depth + 1)) for k, v in items]
            return Node(tag, [pairs, from_json(metadata, leaves, depth + 1)])
        if tag in ("set", "frozenset"):
            return Node(tag, [_key(v, depth) for v in value])
        if tag in ("list", "tuple"):
            return Node(tag, [from_json(v, leaves, depth + 1) for v in value])
        if tag in ("tensor", "learning", "ndarray"):
            return Node(tag, _leaf_index(value, leaves))
        if tag == "parameter":
            return Node(tag, [_leaf_index(value[0], leaves), bool(value[1])])
        if tag == "int":
            return int(value, 16)
        if tag == "float":
            return struct.unpack(">d", bytes.fromhex(value))[0]
        if tag in ("bytes", "bytearray"):
            return Node(tag, bytes.fromhex(value))
        if tag == "complex":
            return Node(tag, complex(*struct.unpack(">2d", bytes.fromhex(value))))
        if tag == "size":
            return Node(tag, [int(v) for v in value])
        if tag == "dtype" and isinstance(getattr(torch, value), torch.dtype):
            return Node(tag, value)
        if tag == "device":
            return Node(tag, str(torch.device(value)))
        if tag == "numpy":
            dtype = np.dtype(value[0])
            if dtype.kind in "biufc" and dtype.itemsize == len(bytes.fromhex(value[1])):
                return Node(tag, [value[0], bytes.fromhex(value[1])])
    except CorruptCheckpointError:
        raise
    except (TypeError, ValueError, AttributeError, IndexError, struct.error, RuntimeError) as error:
        raise CorruptCheckpointError(f"the structure of the checkpoint is malformed at a {tag!r}") from error
    raise CorruptCheckpointError(f"the structure of the checkpoint holds an unknown {tag!r}")


def _key(data: Any, depth: int) -> Any:
    """A key of a dict, or a member of a set: something that stays the same."""
    node = from_json(data, 0, depth + 1)
    hash(thaw(node, lambda i: None))  # a TypeError, told as a malformed structure, where it cannot be one
    return node


def _leaf_index(value: Any, leaves: int) -> int:
    if type(value) is not int or not 0 <= value < leaves:
        raise CorruptCheckpointError(f"the structure names tensor {value!r} of {leaves}")
    return value


def thaw(node: Any, leaf: Callable[[int], Any]) -> Any:
    """The state of a frozen tree, with `leaf(i)` in the place of tensor i."""
    if type(node) is not Node:
        return node
    tag, value = node
    if tag in ("tensor", "ndarray"):
        return leaf(value)
    if tag == "learning":
        return leaf(value).requires_grad_()
    if tag == "dict":
        return {thaw(k, leaf): thaw(v, leaf) for k, v in value}
    if tag == "odict":
        out = OrderedDict((thaw(k, leaf), thaw(v, leaf)) for k, v in value[0])
        if value[1] is not None:
            out._metadata = thaw(value[1], leaf)  # type: ignore[attr-defined]
        return out
    if tag in ("list", "tuple", "set", "frozenset"):
        return {"list": list, "tuple": tuple, "set": set, "frozenset": frozenset}[tag](thaw(v, leaf) for v in value)
    if tag == "parameter":
        return torch.nn.Parameter(leaf(value[0]), requires_grad=value[1])
    if tag == "numpy":
        return np.frombuffer(value[1], np.dtype(value[0]))[0]
    if tag == "size":
        return torch.Size(value)
    if tag == "dtype":
        return getattr(torch, value)
    if tag == "device":
        return torch.device(value)
    return bytearray(value) if tag == "bytearray" else value


def walk_leaves(node: Any, path: tuple[Any, ...] = ()) -> Any:
    """(path, leaf index) of every tensor and array in a frozen tree, in order."""
    if type(node) is not Node:
        return
    tag, value = node
    if tag in ("tensor", "learning", "ndarray"):
        yield path, value
    elif tag == "parameter":
        yield path, value[0]
    elif tag in ("dict", "odict"):
        for key, child in value if tag == "dict" else value[0]:
            yield from walk_leaves(child, (*path, key))
    elif tag in ("list", "tuple", "set", "frozenset"):
        for i, child in enumerate(value):
            yield from walk_leaves(child, (*path, i))


def select(node: Any, keys: list[str]) -> Any:
    """The part of a frozen tree below the dotted `keys`; dicts on the way are kept, other branches left out."""
    missing = set(keys)

    def walk(child: Any, path: str) -> Any:
        for key in keys:
            if path == key or path.startswith(key + "."):
                missing.discard(key)
                return child
        if (
            type(child) is not Node
            or child.tag not in ("dict", "odict")
            or (path and not any(k.startswith(path + ".") for k in keys))
        ):
            return _NOTHING
        pairs = child.value if child.tag == "dict" else child.value[0]
        kept = [(k, got) for k, v in pairs if (got := walk(v, f"{path}.{k}" if path else str(k))) is not _NOTHING]
        return Node("dict", kept) if child.tag == "dict" else Node("odict", [kept, child.value[1]])

    found = walk(node, "")
    if missing:
        top = (
            ", ".join(str(k) for k, _ in (node.value if node.tag == "dict" else [])[:12]) if type(node) is Node else ""
        )
        raise KeyError(f"no {', '.join(sorted(missing))} in this checkpoint; its first keys are: {top}")
    return found
