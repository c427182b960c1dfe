"""A state as a tree of JSON and a list of tensors. Never pickle.

`flatten` copies the containers of a state and puts numbers in the place of its tensors; `unflatten` puts tensors in
again. In a tree None, booleans, texts, finite floats, integers below 2^53, lists, and dicts with names as keys are JSON
as they are; everything else is an object with one key, {"$tag": value}.
"""

from __future__ import annotations

import math
import operator
import pathlib
import struct
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch

from slipstream.storage.errors import DamagedFileError, SaveError, printable
from slipstream.storage.tensor_file import MemoryFile, Reader, TensorFile, TensorFileWriter

KIND = "stat"  # of a container with one state
MAX_DEPTH = 100
_PLAIN = frozenset((type(None), bool, str, int, float))
_SIMPLE = frozenset((type(None), bool, str))  # what JSON holds whatever its value
_SAFE_INTEGER = 1 << 53  # beyond it other JSON readers lose digits
_MAX_INTEGER_BITS = 8192  # Python refuses to print much larger ones
_TEXTS = frozenset((str,))
_LARGEST_KEY = 1 << 24  # keys whose hash the writer of a file can choose make a dict slow: larger ones are refused
_first_letter = operator.itemgetter(slice(1))
_MAPPINGS: dict[Any, str] = {dict: "$dict", OrderedDict: "$odict", Counter: "$counter", defaultdict: "$defaultdict"}
_PAIRED = frozenset((*_MAPPINGS.values(), "$tensordict"))  # of these but $dict the value is [pairs, what else there is]
_LEAF_TAGS = frozenset(("$tensor", "$array", "$learning", "$parameter"))
_TORCH_FILES_LACK = (np.ndarray, np.generic, bytes, defaultdict, deque, pathlib.Path)
_FACTORIES: dict[Any, Any] = {kind.__name__: kind for kind in (list, dict, set, tuple, int, float, str, bool)}
_FACTORIES["None"] = None
_NAMED_TUPLES: dict[str, Any] = {}  # see `register_named_tuple`


def register_named_tuple(kind: type, name: str | None = None) -> None:
    """Let named tuples of a class be saved, and be loaded again where the class is registered under the same name.

    Args:
        kind: a class made by `collections.namedtuple` or `typing.NamedTuple`.
        name: in the file; by default its module and name.
    """
    if not (isinstance(kind, type) and issubclass(kind, tuple) and hasattr(kind, "_fields")):
        raise TypeError(f"{kind!r} is not a class of named tuples")
    name = name or f"{kind.__module__}.{kind.__qualname__}"
    if _NAMED_TUPLES.get(name, kind) is not kind:
        raise ValueError(f"{name!r} is registered already, for {_NAMED_TUPLES[name]!r}: give another name")
    _NAMED_TUPLES[name] = kind


def _named_tuple(name: str) -> Any:
    if name not in _NAMED_TUPLES:
        remedy = f"slipstream.checkpoint.register_named_tuple(its class, {printable(name)!r})"
        raise SaveError(f"the state holds a named tuple {printable(name)!r}: first import its class and call {remedy}")
    return _NAMED_TUPLES[name]


class Leaves(NamedTuple):
    """The tensors of a state, and its arrays as tensors, in order; for each the last key on the way to it."""

    data: list[Any]
    names: list[Any]


class _Refused(Exception):
    def __init__(self, node: Any, reason: str) -> None:
        super().__init__(reason)
        self.node, self.reason = node, reason


def flatten(state: Any, *, detach: bool = False, for_torch: bool = False) -> tuple[Any, Leaves]:
    """Return the tree of `state` and its tensors, which are not copied. Types are kept: what cannot be is refused.

    The same tensor object twice is one leaf.

    Args:
        detach: keep the numbers only: no gradients, no parameters, tensors of any subclass as plain ones, each one a
            leaf of its own.
        for_torch: refuse what torch does not load with `weights_only=True`.

    Raises:
        TypeError: if something cannot be kept as data; the message names its place.
    """
    data: list[Any] = []
    names: list[Any] = []
    seen: dict[int, int] = {}
    tensor = torch.Tensor

    def leaf(value: Any, name: Any) -> int:
        index = len(data) if detach else seen.setdefault(id(value), len(data))
        if index == len(data):
            data.append(_array_as_tensor(value) if isinstance(value, np.ndarray) else value)
            names.append(name)
        return index

    def walk(node: Any, name: Any, depth: int) -> Any:
        kind = type(node)  # training waits for this function: the common kinds come first
        if kind is tensor and not (detach and node.requires_grad):
            return {"$learning" if node.requires_grad else "$tensor": leaf(node, name)}
        if kind in _PLAIN:
            return _number_to_json(node) if kind is int or kind is float else node
        if detach and isinstance(node, tensor):
            return {"$tensor": leaf(node.detach().as_subclass(tensor), name)}
        if depth > MAX_DEPTH:
            raise TypeError(f"a state nested deeper than {MAX_DEPTH} levels, or one that holds itself, cannot be saved")
        registered = next((known for known in _NAMED_TUPLES if kind is _NAMED_TUPLES[known]), None)
        if for_torch and (registered or isinstance(node, _TORCH_FILES_LACK)):
            why = "which a plain torch file cannot give back without running code"
            raise _Refused(node, f"is a {_type_name(node)}, {why}: save with compress=True, or as tensors and numbers")
        if kind in _MAPPINGS:
            children = [walk(value, key, depth + 1) for key, value in node.items()]
            is_named = _TEXTS.issuperset(map(type, node))
            if kind is dict and is_named and "$" not in map(_first_letter, node):
                return dict(zip(node, children, strict=True))
            if not is_named and not all(map(_is_key, node)):
                raise _Refused(node, f"has keys that are neither texts nor numbers below {_LARGEST_KEY}: use texts")
            pairs = [[key, child] for key, child in zip(node, children, strict=True)]
            # state_dict() keeps the versions of modules in _metadata
            more = walk(getattr(node, "_metadata", None), None, depth + 1) if kind is OrderedDict else None
            if kind is defaultdict:
                more = next((known for known in _FACTORIES if node.default_factory is _FACTORIES[known]), None)
                if more is None:
                    raise _Refused(node, f"is a defaultdict of {node.default_factory!r}: save dict(x)")
            return {_MAPPINGS[kind]: pairs if kind is dict else [pairs, more]}
        if kind is list or kind is tuple:
            kinds = set(map(type, node))
            # the 625 numbers of a random state, at once
            if kinds <= _SIMPLE or (kinds == {int} and min(node) > -_SAFE_INTEGER and max(node) < _SAFE_INTEGER):
                items = list(node)
            else:
                items = [walk(v, name, depth + 1) for v in node]
            return items if kind is list else {"$tuple": items}
        if kind is deque or registered:
            items = [walk(v, name, depth + 1) for v in node]
            return {"$deque": [items, node.maxlen]} if kind is deque else {"$namedtuple": [items, registered]}
        if kind is torch.nn.Parameter:
            return {"$parameter": [leaf(node, name), node.requires_grad]}
        if kind is np.ndarray or (detach and kind is np.memmap):
            return {"$array": leaf(node, name)}
        if kind in _SCALARS:
            tag, encode, _ = _SCALARS[kind]
            return {tag: encode(node)}
        if isinstance(node, np.generic) and node.dtype.kind in "biufc":
            return {"$numpy": [node.dtype.str, node.tobytes().hex()]}
        if hasattr(node, "batch_size"):
            from tensordict import NonTensorStack, is_non_tensor, is_tensor_collection

            if is_non_tensor(node) and not isinstance(node, NonTensorStack):
                return walk(node.data, name, depth + 1)
            if is_tensor_collection(node) and not is_non_tensor(node):
                items = node if hasattr(node, "keys") else node.to_tensordict()
                pairs = [[key, walk(items.get(key), key, depth + 1)] for key in items.keys()]  # noqa: SIM118
                return {"$tensordict": [pairs, list(items.batch_size)]}
        if isinstance(node, tuple) and hasattr(node, "_fields"):
            remedy = "call slipstream.checkpoint.register_named_tuple with its class, before saving and before loading"
            raise _Refused(node, f"is a {_type_name(node)}: {remedy}")
        remedy = "save its state_dict(), or a plain dict, list, number, text, array or tensor of what it holds"
        raise _Refused(node, f"is a {_type_name(node)}: {remedy}")

    try:
        return walk(state, None, 0), Leaves(data, names)
    except _Refused as refused:
        # its place is searched only now: carrying it along would double the time of a good walk
        raise TypeError(f"state{_place(state, refused.node)} {refused.reason}") from None


def _array_as_tensor(array: np.ndarray) -> torch.Tensor:
    try:
        return torch.from_numpy(np.require(array, requirements=["C", "W"]))
    except (TypeError, ValueError):  # objects, texts, dates; another byte order
        raise _Refused(
            array, f"is an array of {array.dtype}: save its tolist(), or convert it to plain numbers"
        ) from None


def _number_to_json(value: Any) -> Any:
    if type(value) is float:
        return value if math.isfinite(value) else {"$float": struct.pack(">d", value).hex()}
    if -_SAFE_INTEGER < value < _SAFE_INTEGER:
        return value
    if value.bit_length() > _MAX_INTEGER_BITS:
        raise TypeError(f"an integer of {value.bit_length()} bits cannot be saved, the limit is {_MAX_INTEGER_BITS}")
    return {"$int": hex(value)}


def _type_name(node: Any) -> str:
    return f"{type(node).__module__}.{type(node).__qualname__}"


def _is_key(key: Any) -> bool:
    return type(key) in _SIMPLE or (type(key) is int and -_LARGEST_KEY < key < _LARGEST_KEY)


def _place(state: Any, wanted: Any) -> str:
    """Where in a nested state an object is, written as in Python."""
    inner = (dict, list, tuple, deque)
    pairs = state.items() if isinstance(state, dict) else enumerate(state) if isinstance(state, inner) else []
    for key, child in pairs:
        if child is wanted:
            return f"[{key!r}]"
        if isinstance(child, inner) and (below := _place(child, wanted)):
            return f"[{key!r}]{below}"
    return ""


def _numpy_scalar(value: Any, reader: Reader) -> Any:
    dtype, raw = reader.dtype(value[0], "the dtype of a number"), bytes.fromhex(value[1])
    if dtype.kind not in "biufc" or dtype.itemsize != len(raw):
        reader.fail(f"{len(raw)} bytes as a number of {dtype}")
    return np.frombuffer(raw, dtype)[0]


_SCALARS: dict[type, tuple[str, Callable[[Any], Any], Callable[[Any, Reader], Any]]] = {  # tag, to JSON, from JSON
    complex: (
        "$complex",
        lambda value: struct.pack(">2d", value.real, value.imag).hex(),
        lambda value, reader: complex(*struct.unpack(">2d", bytes.fromhex(value))),
    ),
    bytes: ("$bytes", bytes.hex, lambda value, reader: bytes.fromhex(value)),
    torch.Size: ("$size", list, lambda value, reader: torch.Size(reader.shape(value, "a size"))),
    torch.dtype: (
        "$dtype",
        lambda value: str(value).removeprefix("torch."),
        lambda value, reader: reader.torch_dtype(value, "a dtype"),
    ),
    type(pathlib.Path()): ("$path", str, lambda value, reader: pathlib.Path(reader.text(value, "a path", 4096))),
    torch.device: ("$device", str, lambda value, reader: torch.device(reader.text(value, "a device", 64))),
}
_DECODERS: dict[str, Callable[[Any, Reader], Any]] = {tag: decode for tag, _, decode in _SCALARS.values()} | {
    "$int": lambda value, reader: int(reader.text(value, "an integer", _MAX_INTEGER_BITS // 4 + 3), 16),  # with -0x
    "$float": lambda value, reader: struct.unpack(">d", bytes.fromhex(value))[0],
    "$numpy": _numpy_scalar,
}


def unflatten(
    tree: Any,
    leaf: Callable[[int], Any],
    reader: Reader | None = None,
    *,
    batch_size: Callable[[list[int]], list[int] | None] = list,
) -> Any:
    """Return the state of a tree, with `leaf(i)` in the place of tensor i.

    Args:
        reader: refuses what `flatten` does not write.
        batch_size: gives the batch size of a TensorDict, if it is not the saved one; None makes a dict of it.
    """
    reader = reader or Reader("the state")

    def items(nodes: Any, depth: int) -> list[Any]:
        if type(nodes) is not list:
            reader.fail("the structure is malformed")
        return [build(node, depth) for node in nodes]

    def build(node: Any, depth: int) -> Any:
        kind = type(node)
        if kind is not dict and kind is not list:
            return node
        if depth > MAX_DEPTH + 2:
            reader.fail(f"the structure is nested deeper than {MAX_DEPTH} levels")
        depth += 1
        if kind is list:
            return items(node, depth)
        tag = next(iter(node), "")
        if tag[:1] != "$":
            return {key: build(child, depth) for key, child in node.items()}
        (value,) = node.values()
        if tag in _LEAF_TAGS:
            number = value[0] if tag == "$parameter" else value
            made = leaf(reader.integer(number, "the number of a tensor"))
            if tag == "$array":
                return made.numpy(force=True)
            if tag == "$parameter":
                return torch.nn.Parameter(made, bool(value[1]))
            return made.requires_grad_() if tag == "$learning" else made
        if tag == "$tuple":
            return tuple(items(value, depth))
        if tag == "$deque":
            made, size = items(value[0], depth), value[1]
            return deque(made, None if size is None else reader.integer(size, "the size of a deque", len(made)))
        if tag == "$namedtuple":
            return _named_tuple(reader.text(value[1], "the name of a named tuple"))(*items(value[0], depth))
        if tag not in _PAIRED:
            return _DECODERS[tag](value, reader)
        pairs, more = (value, None) if tag == "$dict" else value
        if not all(_is_key(key) for key, _ in pairs):
            reader.fail("a dict has a key that is no text and no small number")
        children = [(key, build(child, depth)) for key, child in pairs]
        if tag == "$counter":
            return Counter(dict(children))
        if tag == "$tensordict":
            size = batch_size(list(reader.shape(more, "a batch size")))
            return dict(children) if size is None else _make_tensordict(children, size)
        if tag == "$dict":
            return dict(children)
        if tag == "$defaultdict":
            return defaultdict(_FACTORIES[more], children)
        out = OrderedDict(children)
        if more is not None:
            out._metadata = build(more, depth)  # type: ignore[attr-defined]
        return out

    try:
        with reader.parsing("the structure"):
            return build(tree, 0)
    finally:
        # `build` refers to itself, and would keep all tensors until the next garbage collection.
        leaf = _no_leaf


def check_tree(tree: Any, leaves: int, reader: Reader) -> None:
    """Raise the reader's error if `unflatten` cannot take a tree; named tuples need not be registered."""
    empty = [torch.empty(0)] * leaves
    try:
        unflatten(tree, empty.__getitem__, reader, batch_size=lambda size: None)
    except DamagedFileError:
        raise
    except SaveError:  # a named tuple that only its program knows
        pass


def _no_leaf(number: int) -> Any:
    raise TypeError("a tensor that is no longer there")


def _make_tensordict(items: list[tuple[str, Any]], batch_size: list[int]) -> Any:
    from tensordict import TensorDict, is_tensor_collection

    out = TensorDict({}, batch_size=batch_size)
    for name, value in items:
        if isinstance(value, torch.Tensor) or is_tensor_collection(value):
            out.set(name, value)
        else:
            out.set_non_tensor(name, value)
    return out


# --- parts of a tree


def pairs_of(node: Any) -> list[Any] | None:
    """Return the (key, child) of a dict of any kind in a tree; None for another node."""
    if type(node) is not dict:
        return None
    tag = next(iter(node), "")
    if tag[:1] != "$":
        return list(node.items())
    return None if tag not in _PAIRED else node[tag] if tag == "$dict" else node[tag][0]


def walk_leaves(tree: Any) -> list[tuple[tuple[Any, ...], int]]:
    """Return (path, number) of every tensor and array in a tree, in order; a malformed one may raise any error."""
    found = []

    def walk(node: Any, path: tuple[Any, ...]) -> None:
        pairs = pairs_of(node) if type(node) is dict else enumerate(node) if type(node) is list else ()
        if pairs is None:
            ((tag, value),) = node.items()
            if tag in _LEAF_TAGS:
                found.append((path, value[0] if tag == "$parameter" else value))
            pairs = enumerate(value if tag == "$tuple" else value[0] if tag in ("$deque", "$namedtuple") else ())
        for key, child in pairs:
            if not _is_key(key):
                raise TypeError(f"{key!r} is no key")
            if type(child) is dict or type(child) is list:
                walk(child, (*path, key))

    walk(tree, ())
    return found


def select(tree: Any, keys: list[str], *, missing_ok: bool = False) -> Any:
    """Return the part of a tree below the dotted `keys`; dicts on the way are kept, other branches left out."""
    missing = set(keys)

    def walk(pairs: list[Any], above: str) -> list[Any]:
        kept = []
        for key, child in pairs:
            path, below = f"{above}{key}", pairs_of(child)
            found = {asked for asked in keys if path == asked or path.startswith(asked + ".")}
            missing.difference_update(found)
            if found:
                kept.append([key, child])
            elif below is not None and any(asked.startswith(path + ".") for asked in keys):
                kept.append([key, with_pairs(child, walk(below, path + "."))])
        return kept

    def with_pairs(node: Any, pairs: list[Any]) -> Any:
        tag = next(iter(node), "")
        return {tag: [pairs, node[tag][1]]} if tag in _PAIRED and tag != "$dict" else {"$dict": pairs}

    top = pairs_of(tree)
    part = {"$dict": []} if top is None else with_pairs(tree, walk(top, ""))
    if missing and not missing_ok:
        first = ", ".join(printable(key) for key, _ in (top or [])[:12])
        raise KeyError(f"no {', '.join(sorted(missing))} in this checkpoint; its first keys are: {first}")
    return part


# --- a state in a file


def store_state(writer: TensorFileWriter, state: Any) -> Any:
    """Write every tensor and array of `state` as an entry; return JSON for the head, from which `load_state` reads
    it."""
    tree, leaves = flatten(state)
    names = {number: ".".join(map(str, path)) for path, number in walk_leaves(tree)}
    return {"tree": tree, "arrays": [writer.add_array(x, names.get(i, "tensor")) for i, x in enumerate(leaves.data)]}


def load_state(container: TensorFile, data: Any) -> Any:
    """Return the state that `store_state` wrote. Its arrays and tensors are copies, counted against the reader's
    budget."""
    reader = container.reader
    loaded: dict[int, Any] = {}

    def load(number: Any) -> Any:
        if number not in loaded:
            reader.integer(number, "the number of a tensor", 0, len(references) - 1)
            loaded[number] = container.array(references[number])
        return loaded[number]

    with reader.parsing("a stored state"):
        references = list(data["arrays"])
        return unflatten(data["tree"], load, reader)


def pack_state(state: Any) -> bytes:
    """Return a state as bytes: JSON and tensors, no pickle."""
    file = MemoryFile()
    writer = TensorFileWriter(file, KIND)
    writer.finish(store_state(writer, state))
    return file.getvalue()


def unpack_state(data: Any, name: str) -> Any:
    """Return what `pack_state` was given, from a process that is trusted: of any size. Errors name it `name`."""
    with TensorFile.from_bytes(data, KIND, name, reader=Reader(name, max_bytes=1 << 62)) as container:
        return load_state(container, container.head)
