"""A batch taken apart and put together: its tensors in order, and everything else as plain JSON."""

from __future__ import annotations

import difflib
import math
import struct
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from tensordict import NonTensorStack, TensorDict, is_non_tensor, is_tensor_collection
from torch import Tensor

from slipstream.storage.schema import Key, as_key, show
from slipstream.storage.serializer import Leaves

_LEFT_OUT = object()
_TELLING = ("reward", "done", "terminated")  # one number a step, so their shape is the batch's


def take_apart(data: Any) -> tuple[dict[str, Any], Leaves, list[Key]]:
    """(tree, tensors and arrays, their keys) of a TensorDict or a nested dict; nothing is copied."""
    leaves = Leaves([], [], [])
    keys: list[Key] = []

    def walk(value: Any, key: Key) -> dict[str, Any]:
        if is_tensor_collection(value):
            if is_non_tensor(value):
                stacked = isinstance(value, NonTensorStack)
                return {"stack" if stacked else "value": _plain(value.tolist() if stacked else value.data, key)}
            value = value if hasattr(value, "keys") else value.to_tensordict()
            items = [[name, walk(value.get(name), (*key, name))] for name in value.keys()]  # noqa: SIM118
            return {"tensordict": items, "batch_size": list(value.batch_size)}
        if isinstance(value, Mapping):
            for name in value:
                if type(name) not in (str, int):
                    raise TypeError(f"{show(key) if key else 'the batch'} has the key {name!r}: use names or numbers")
            return {"dict": [[name, walk(child, (*key, name))] for name, child in value.items()]}
        if isinstance(value, Tensor | np.ndarray):
            if isinstance(value, np.ndarray):
                leaves.arrays.append(len(keys))
            if isinstance(value, Tensor):  # whatever kind: its numbers are kept
                value = value.detach()
                value = value if type(value) is Tensor else value.as_subclass(Tensor)
            leaves.data.append(value)
            leaves.names.append(".".join(map(str, key)))
            keys.append(key)
            return {"tensor": len(keys) - 1}
        return {"value": _plain(value, key)}

    if not (is_tensor_collection(data) or isinstance(data, Mapping)):
        raise TypeError(f"a rollout is a TensorDict or a dict of tensors, not a {type(data).__name__}")
    return walk(data, ()), leaves, keys


def lead_of(data: Any, keys: list[Key], shapes: list[tuple[int, ...]], batch_dims: int | None) -> tuple[int, ...]:
    """The dimensions [envs, steps], or [steps], or none, that the batch's tensors share."""
    given = tuple(getattr(data, "batch_size", ()))
    if batch_dims is not None:
        if not 0 <= batch_dims <= 2:
            raise ValueError(
                f"batch_dims is {batch_dims}: use 2 for [envs, steps, ...], 1 for [steps, ...], 0 for neither"
            )
        sizes = {shape[:batch_dims] for shape in shapes if len(shape) >= batch_dims}
        if len(given) < batch_dims and len(sizes) != 1:
            raise ValueError(
                f"batch_dims is {batch_dims}, but the tensors begin with {sorted(sizes)}: these must be the same"
            )
        return given[:batch_dims] if len(given) >= batch_dims else sizes.pop()
    if given:
        return given[:2]
    telling = next((shape for key, shape in zip(keys, shapes, strict=True) if key[-1] in _TELLING and shape), None)
    if telling is not None:
        flat = (
            len(telling) > 1 and telling[1] == 1 and any(s[0] == telling[0] and s[1] != 1 for s in shapes if len(s) > 1)
        )
        return telling[:1] if flat else telling[:2]
    common: tuple[int, ...] | None = None
    for shape in (s[:2] for s in shapes if s):
        same = 0
        while common is not None and same < min(len(common), len(shape)) and common[same] == shape[same]:
            same += 1
        common = shape if common is None else common[:same]
    return common or ()


def put_together(
    tree: dict[str, Any],
    tensors: Mapping[int, Any],
    every: bool,
    lead: tuple[int, ...] = (),
    take: tuple[Any, ...] | None = None,
) -> Any:
    """What `take_apart` took apart; unless `every`, tensors alone, those that are given. `take` are the indices taken of the lead."""

    def walk(node: Any) -> Any:
        if "tensor" in node:
            return tensors.get(node["tensor"], _LEFT_OUT)
        if not every and ("value" in node or "stack" in node):
            return _LEFT_OUT
        if "value" in node:
            return _value(node["value"])
        if "stack" in node:
            return NonTensorStack.from_list(_taken(_value(node["stack"]), take or ()))
        items = node.get("dict", node.get("tensordict"))
        built = {name: made for name, child in items if (made := walk(child)) is not _LEFT_OUT}
        if not every and not built and node is not tree:
            return _LEFT_OUT
        if "dict" in node:
            return built
        size = list(node["batch_size"])
        if take is not None and tuple(size[: len(lead)]) == lead:
            size = [*(len(index) for index in take), *size[len(lead) :]]
        out = TensorDict({}, batch_size=size)
        for name, value in built.items():
            if isinstance(value, Tensor) or is_tensor_collection(value):
                out.set(name, value)
            else:
                out.set_non_tensor(name, value)
        return out

    return walk(tree)


def wanted(keys: list[Key], asked: Iterable[Any] | None) -> set[int]:
    """Which of `keys` are asked for: each by its own key, or by one that it lies below. A name with dots is a nested key."""
    if asked is None:
        return set(range(len(keys)))
    found: set[int] = set()
    for one in [asked] if isinstance(asked, str | tuple) else asked:
        names = {as_key(one), tuple(one.split("."))} if isinstance(one, str) else {as_key(one)}
        hits = {i for i, key in enumerate(keys) if any(key[: len(name)] == name for name in names)}
        if not hits:
            raise KeyError(_not_there(".".join(map(str, as_key(one))), [".".join(map(str, key)) for key in keys]))
        found |= hits
    return found


def _not_there(name: str, there: list[str]) -> str:
    """That a key is missing, with the nearest one; keys as the command line takes them."""
    branches = {key[:at] for key in there for at, letter in enumerate(key) if letter == "."}
    leaves = {key.rpartition(".")[2]: key for key in reversed(there)}  # `stat` is near `observation.state`
    near = difflib.get_close_matches(name, [*there, *sorted(branches)], 1)
    near = near or [leaves[leaf] for leaf in difflib.get_close_matches(name, leaves, 1)]
    return f"no '{name}' here; there are {', '.join(there)}{f'; did you mean {near[0]}?' if near else ''}"


def _taken(nested: list[Any], take: tuple[Any, ...]) -> list[Any]:
    """Those members of nested lists, one index a level."""
    return [_taken(nested[int(i)], take[1:]) for i in take[0]] if take and isinstance(nested, list) else nested


# -- plain values ----------------------------------------------------------------------------------------------------


def _plain(value: Any, key: Key) -> Any:
    """A value as JSON: numbers, strings and None as they are, everything else as [tag, ...]."""
    if value is None or type(value) in (bool, str):
        return value
    if type(value) is int:
        return value if abs(value) < 1 << 53 else ["int", hex(value)]
    if type(value) is float:
        return value if math.isfinite(value) else ["float", struct.pack(">d", value).hex()]
    if type(value) is complex:
        return ["complex", struct.pack(">2d", value.real, value.imag).hex()]
    if isinstance(value, bytes):
        return ["bytes", value.hex()]
    if isinstance(value, np.generic) and value.dtype.kind in "biufc":
        return ["numpy", value.dtype.str, value.tobytes().hex()]
    if type(value) in (list, tuple):
        return [type(value).__name__, [_plain(child, key) for child in value]]
    if type(value) is dict:
        return ["dict", [[_plain(name, key), _plain(child, key)] for name, child in value.items()]]
    advice = (
        "stack its tensors"
        if isinstance(value, Tensor | np.ndarray)
        else "save numbers, strings, lists and dicts of them, or tensors"
    )
    raise TypeError(
        f"{show(key) if key else 'the batch'} holds a {type(value).__name__}, which a rollout file cannot hold: {advice}"
    )


def _value(data: Any) -> Any:
    """What `_plain` was given; refuses anything else."""
    if not isinstance(data, list):
        return data
    tag, *rest = data
    if tag == "int":
        return int(rest[0], 16)
    if tag == "float":
        return struct.unpack(">d", bytes.fromhex(rest[0]))[0]
    if tag == "complex":
        return complex(*struct.unpack(">2d", bytes.fromhex(rest[0])))
    if tag == "bytes":
        return bytes.fromhex(rest[0])
    if tag == "numpy" and np.dtype(rest[0]).kind in "biufc":
        return np.frombuffer(bytes.fromhex(rest[1]), np.dtype(rest[0]))[0]
    if tag in ("list", "tuple"):
        made = [_value(child) for child in rest[0]]
        return made if tag == "list" else tuple(made)
    if tag == "dict":
        return {_value(name): _value(child) for name, child in rest[0]}
    raise ValueError(f"unknown kind of value {tag!r}")
