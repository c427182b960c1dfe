"""Nested state as data: containers and plain values as JSON, tensors and arrays taken out of them. Never pickle.

`flatten` copies the containers and takes the tensors out, in order; `to_json` and `from_json` write and read the tree
that remains; `unflatten` puts tensors back in. A tree holds plain values, and a `Node` for everything else.
"""

from __future__ import annotations

import math
import pathlib
import struct
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import torch

from slipstream.storage.container import Container, ContainerWriter, MemoryFile
from slipstream.storage.errors import SaveError, printable
from slipstream.storage.reader import Reader, shorten

KIND = "stat"  # of a container with one state
MAX_DEPTH = 100
MISSING = object()  # given to `unflatten` in the place of a tensor: its key is left out
_PLAIN = frozenset((type(None), bool, int, float, str))
_SAFE_INTEGER = 1 << 53  # beyond it other JSON readers lose digits
_TEXTS = frozenset((str,))
_SEQUENCES: dict[str, Any] = {"list": list, "tuple": tuple, "set": set, "frozenset": frozenset}
# Of these the value of a node is [pairs or items, what else there is to say]
_MAPPINGS: dict[type, str] = {OrderedDict: "odict", Counter: "counter", defaultdict: "defaultdict"}
_PAIRED = frozenset(("dict", "tensordict", *_MAPPINGS.values()))
_FACTORIES: dict[str | None, Any] = {None: None} | {
    kind.__name__: kind for kind in (list, dict, set, tuple, int, float, bool, str, Counter, OrderedDict, deque)
}
_PATHS = {kind.__name__: kind for kind in (pathlib.Path, pathlib.PurePosixPath, pathlib.PureWindowsPath)}
_NAMED_TUPLES: dict[str, type] = {}  # see `register_named_tuple`
_LISTED = frozenset(("deque", "namedtuple"))
_TORCH_FILES_LACK = (defaultdict, deque, pathlib.PurePath, np.ndarray, np.generic, bytes, bytearray)
_LEAF_TAGS = frozenset(("tensor", "learning", "ndarray", "parameter"))
# Keys whose hash a writer can choose make a dict slow (all in one slot), so only so many are allowed in one dict.
_MAX_CHOSEN_KEYS = 4096
_SMALL_KEY = 1 << 24
MAX_INTEGER_BITS = 8192  # Python refuses to print much larger ones


class Leaves(NamedTuple):
    """The tensors and arrays of a state, in order, and for each the last key on the way to it."""

    data: list[Any]
    names: list[Any]
    arrays: list[int]  # which of them are NumPy arrays


class Node(NamedTuple):
    """A tagged part of a tree. The meaning of `value` depends on the tag."""

    tag: str
    value: Any


_FIRST_TENSORS = tuple(Node("tensor", i) for i in range(1024))  # made once: they hold nothing of a state


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


class _Refused(Exception):
    def __init__(self, node: Any, reason: str) -> None:
        super().__init__(reason)
        self.node, self.reason = node, reason


def flatten(
    state: Any, *, detach: bool = False, share: bool = True, error: type[SaveError] = SaveError, for_torch: bool = False
) -> tuple[Any, Leaves]:
    """Return the tree of `state` and its tensors, which are not copied. Types are kept: what cannot be is refused.

    Args:
        detach: keep the numbers only: no gradients, no parameters, and tensors of any subclass as plain ones.
        share: the same tensor object twice is one leaf; False makes it two.
        error: raised instead of SaveError.
        for_torch: refuse what torch does not load with `weights_only=True`.

    Raises:
        TypeError: if something cannot be kept as data; the message names its place.
        SaveError: (or `error`) if the state is nested too deep, or holds itself.
    """
    data: list[Any] = []
    names: list[Any] = []
    arrays: list[int] = []
    seen: dict[int, int] = {}
    plain, tensor, new = _PLAIN, torch.Tensor, tuple.__new__
    known = seen.setdefault if share else lambda _, index: index

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
        if kind is tensor and not (detach and node.requires_grad):
            return Node("learning" if node.requires_grad else "tensor", leaf(node, name))
        if detach and isinstance(node, tensor):
            return Node("tensor", leaf(node.detach().as_subclass(tensor), name))
        if depth > MAX_DEPTH:
            raise error(f"a state nested deeper than {MAX_DEPTH} levels, or one that holds itself, cannot be saved")
        if kind is dict or kind in _MAPPINGS:
            pairs = []
            for key, value in node.items():  # training waits for this loop: the common case is handled without a call
                child = type(value)
                if child is tensor and not value.requires_grad:
                    count = len(data)
                    index = known(id(value), count)
                    if index == count:
                        data.append(value)
                        names.append(key)
                    value = _FIRST_TENSORS[index] if index < 1024 else new(Node, ("tensor", index))
                elif child not in plain:
                    value = walk(value, key, depth + 1)
                pairs.append((key if type(key) in plain else _flat_key(key), value))
            if kind is dict:
                return new(Node, ("dict", pairs))  # a named tuple's own constructor takes twice as long
            # state_dict() keeps the versions of modules in _metadata
            more = walk(getattr(node, "_metadata", None), None, depth + 1) if kind is OrderedDict else None
            if kind is defaultdict:
                more = _factory_name(node)
                if for_torch:
                    raise _not_in_torch_files(node)
            return new(Node, (_MAPPINGS[kind], [pairs, more]))
        if kind is list or kind is tuple:
            if plain.issuperset(map(type, node)):  # the 625 numbers of a random state, at once
                return Node(kind.__name__, list(node))
            return Node(kind.__name__, [walk(v, name, depth + 1) for v in node])
        if kind is torch.nn.Parameter:
            return Node("parameter", [leaf(node, name), node.requires_grad])
        if for_torch and (isinstance(node, _TORCH_FILES_LACK) or isinstance(node, tuple) and kind not in _ENCODERS):
            raise _not_in_torch_files(node)
        if kind is np.ndarray or detach and kind is np.memmap:
            count = len(data)
            index = leaf(node, name)
            arrays.extend(range(count, len(data)))  # it, unless it was there before
            return Node("ndarray", index)
        return _flatten_rare(node, walk, name, depth)

    try:
        return walk(state, None, 0), Leaves(data, names, arrays)
    except (
        _Refused
    ) as refused:  # its place is searched only now: carrying it along would double the time of a good walk
        raise TypeError(f"state{_place(state, refused.node)} {refused.reason}") from None


def _flatten_rare(node: Any, walk: Callable[..., Any], name: Any, depth: int) -> Any:
    if type(node) in _ENCODERS or isinstance(node, np.generic) and node.dtype.kind in "biufc":
        return bytearray(node) if type(node) is bytearray else node
    if type(node) in (set, frozenset):
        return Node(type(node).__name__, [_flat_key(v) for v in node])
    if type(node) is deque:
        return Node("deque", [[walk(v, name, depth + 1) for v in node], node.maxlen])
    if isinstance(node, tuple):
        registered = next((known for known, kind in _NAMED_TUPLES.items() if kind is type(node)), None)
        if registered is not None:
            return Node("namedtuple", [[walk(v, name, depth + 1) for v in node], registered])
    if isinstance(node, torch.Tensor):
        raise _Refused(node, f"is a {type(node).__module__}.{type(node).__qualname__}: save a plain tensor instead")
    if hasattr(node, "batch_size"):
        from tensordict import NonTensorStack, is_non_tensor, is_tensor_collection

        if is_non_tensor(node):
            if isinstance(node, NonTensorStack):
                return Node("stack", walk(node.tolist(), name, depth + 1))
            return walk(node.data, name, depth + 1)
        if is_tensor_collection(node):
            items = node if hasattr(node, "keys") else node.to_tensordict()
            pairs = [(key, walk(items.get(key), key, depth + 1)) for key in items.keys()]  # noqa: SIM118
            return Node("tensordict", [pairs, list(items.batch_size)])
    raise _Refused(node, f"is a {_type_name(node)}: {_remedy(node)}")


def _remedy(node: Any) -> str:
    """Return what to do about a value that cannot be kept."""
    if isinstance(node, tuple) and hasattr(node, "_fields"):
        return "call slipstream.checkpoint.register_named_tuple with its class, before saving and before loading"
    if isinstance(node, np.ndarray):
        return "save its parts as plain arrays, such as np.asarray(x)"
    plain = next((kind for kind in (dict, list, tuple, set, bool, int, float, str) if isinstance(node, kind)), None)
    if plain is not None:
        return f"save {plain.__name__}(x), since it would come back as a {plain.__name__}"
    return "save its state_dict(), get_state() or a dict of its fields instead"


def _type_name(node: Any) -> str:
    return f"{type(node).__module__}.{type(node).__qualname__}"


def _not_in_torch_files(node: Any) -> _Refused:
    why = "which a plain torch file cannot give back without running code"
    return _Refused(node, f"is a {_type_name(node)}, {why}: save with compress=True, or as a dict, list or text")


def _factory_name(node: defaultdict[Any, Any]) -> str | None:
    """Return the name of a defaultdict's factory in a file."""
    for name, factory in _FACTORIES.items():
        if node.default_factory is factory:
            return name
    known = ", ".join(str(name) for name in _FACTORIES)
    raise _Refused(node, f"is a defaultdict of {node.default_factory!r}: use one of {known}, or save dict(x)")


def _flat_key(key: Any) -> Any:
    flat, leaves = flatten(key)
    if leaves.data:
        raise _Refused(key, "has a tensor as a key or in a set: use its number or name instead")
    return flat


def _place(state: Any, wanted: Any) -> str:
    """Where in a nested state an object is, written as in Python."""
    if state is wanted:
        return ""
    inner = (dict, list, tuple, deque)
    pairs = state.items() if isinstance(state, dict) else enumerate(state) if isinstance(state, inner) else []
    for key, child in pairs:
        if child is wanted:
            return f"[{key!r}]"
        if isinstance(child, inner) and (below := _place(child, wanted)):
            return f"[{key!r}]{below}"
    return ""


_ENCODERS: dict[type, Callable[[Any], list[Any]]] = {
    complex: lambda value: ["complex", struct.pack(">2d", value.real, value.imag).hex()],
    bytes: lambda value: ["bytes", value.hex()],
    bytearray: lambda value: ["bytearray", value.hex()],
    torch.Size: lambda value: ["size", list(value)],
    torch.dtype: lambda value: ["dtype", str(value).removeprefix("torch.")],
    torch.device: lambda value: ["device", str(value)],
    type(pathlib.Path()): lambda value: ["path", ["Path", str(value)]],
    pathlib.PurePosixPath: lambda value: ["path", ["PurePosixPath", str(value)]],
    pathlib.PureWindowsPath: lambda value: ["path", ["PureWindowsPath", str(value)]],
}


def to_json(node: Any) -> Any:
    """Return a tree as JSON values: plain ones as they are, everything else as [tag, value]."""
    kind = type(node)
    if kind is not Node:
        if kind is int and not -_SAFE_INTEGER < node < _SAFE_INTEGER:
            if node.bit_length() > MAX_INTEGER_BITS:
                raise SaveError(
                    f"an integer of {node.bit_length()} bits cannot be saved, the limit is {MAX_INTEGER_BITS}"
                )
            return ["int", hex(node)]
        if kind is float and not math.isfinite(node):
            return ["float", struct.pack(">d", node).hex()]
        if kind in _PLAIN:
            return node
        return _ENCODERS[kind](node) if kind in _ENCODERS else ["numpy", [node.dtype.str, node.tobytes().hex()]]
    tag, value = node
    if tag == "dict":
        return [tag, _pairs_to_json(value)]
    if tag == "odict":
        return [tag, [_pairs_to_json(value[0]), to_json(value[1])]]
    if tag in _PAIRED:
        return [tag, [_pairs_to_json(value[0]), value[1]]]
    if tag == "stack":
        return [tag, to_json(value)]
    if tag in _LISTED:
        return [tag, [[to_json(v) for v in value[0]], value[1]]]
    return [tag, [to_json(v) for v in value]] if tag in _SEQUENCES else [tag, value]


def _pairs_to_json(pairs: list[tuple[Any, Any]]) -> list[Any]:
    chosen = sum(1 for key, _ in pairs if _hash_can_be_chosen(key))
    if chosen > _MAX_CHOSEN_KEYS:
        raise SaveError(
            f"a dict with {chosen} keys that are large numbers or tuples cannot be saved: use texts as keys"
        )
    return [[to_json(k), to_json(v)] for k, v in pairs]


def _hash_can_be_chosen(key: Any) -> bool:
    return type(key) is not str and not (type(key) is int and -_SMALL_KEY < key < _SMALL_KEY)


def from_json(data: Any, leaves: int, reader: Reader) -> Any:
    """Return the tree that `to_json` wrote; refuse anything else.

    Args:
        leaves: how many tensors and arrays there are.
    """
    with reader.parsing("the structure"):
        return _from_json(data, leaves, reader, 0)


def _from_json(data: Any, leaves: int, reader: Reader, depth: int) -> Any:
    if type(data) in _PLAIN:
        return data
    if depth > MAX_DEPTH + 2 or type(data) is not list or len(data) != 2 or type(data[0]) is not str:
        reader.fail("the structure is malformed, or nested too deep")
    tag, value = data
    depth += 1
    if tag == "tensor" or tag == "learning" or tag == "ndarray":
        return Node(tag, reader.integer(value, "the number of a tensor", 0, leaves - 1))
    if tag == "dict":
        return Node(tag, _pairs_from_json(value, leaves, reader, depth))
    if tag == "odict":
        return Node(
            tag, [_pairs_from_json(value[0], leaves, reader, depth), _from_json(value[1], leaves, reader, depth)]
        )
    if tag == "tensordict":
        batch_size = list(reader.shape(value[1], "a batch size"))
        return Node(tag, [_pairs_from_json(value[0], leaves, reader, depth), batch_size])
    if tag == "counter" or tag == "defaultdict":
        if value[1] is not None and (tag == "counter" or value[1] not in _FACTORIES):
            reader.fail(f"a {tag} of {shorten(value[1])}")
        return Node(tag, [_pairs_from_json(value[0], leaves, reader, depth), value[1]])
    if tag in _LISTED:
        items = [_from_json(v, leaves, reader, depth) for v in value[0]]
        if tag == "namedtuple":
            reader.text(value[1], "the name of a named tuple")
        elif value[1] is not None:
            reader.integer(value[1], "the size of a deque", len(items))
        return Node(tag, [items, value[1]])
    if tag in ("set", "frozenset"):
        return Node(tag, _keys_from_json(value, reader, depth))
    if tag in _SEQUENCES:
        return Node(tag, [v if type(v) in _PLAIN else _from_json(v, leaves, reader, depth) for v in value])
    if tag == "stack":
        return Node(tag, _from_json(value, leaves, reader, depth))
    if tag == "parameter":
        return Node(tag, [reader.integer(value[0], "the number of a tensor", 0, leaves - 1), bool(value[1])])
    if tag not in _DECODERS:
        reader.fail("the structure holds an unknown kind of value")
    return _DECODERS[tag](value, reader)


def _numpy_scalar(value: Any, reader: Reader) -> Any:
    dtype, raw = reader.dtype(value[0], "the dtype of a number"), bytes.fromhex(value[1])
    if dtype.kind not in "biufc" or dtype.itemsize != len(raw):
        reader.fail(f"{len(raw)} bytes as a number of {dtype}")
    return np.frombuffer(raw, dtype)[0]


def _integer(value: Any, reader: Reader) -> int:
    return int(reader.text(value, "an integer", MAX_INTEGER_BITS // 4 + 3), 16)  # with -0x


_DECODERS: dict[str, Callable[[Any, Reader], Any]] = {
    "int": _integer,
    "float": lambda value, reader: struct.unpack(">d", bytes.fromhex(value))[0],
    "complex": lambda value, reader: complex(*struct.unpack(">2d", bytes.fromhex(value))),
    "bytes": lambda value, reader: bytes.fromhex(value),
    "bytearray": lambda value, reader: bytearray.fromhex(value),
    "size": lambda value, reader: torch.Size(reader.shape(value, "a size")),
    "dtype": lambda value, reader: torch_dtype(value, reader),
    "device": lambda value, reader: torch.device(reader.text(value, "a device", 64)),
    "path": lambda value, reader: _PATHS[value[0]](value[1]),
    "numpy": _numpy_scalar,
}


def _pairs_from_json(data: Any, leaves: int, reader: Reader, depth: int) -> list[tuple[Any, Any]]:
    keys = _keys_from_json([key for key, _ in data], reader, depth)
    return [
        (key, value if type(value) in _PLAIN else _from_json(value, leaves, reader, depth))
        for key, (_, value) in zip(keys, data, strict=True)
    ]


def _keys_from_json(data: Any, reader: Reader, depth: int) -> list[Any]:
    """Keys of a dict, or members of a set: hashable, and few of those whose hash the writer could choose."""
    if _TEXTS.issuperset(map(type, data)):
        return list(data)
    keys = [_from_json(key, 0, reader, depth) for key in data]
    chosen = [key for key in keys if _hash_can_be_chosen(key)]
    if len(chosen) > _MAX_CHOSEN_KEYS:
        reader.fail(f"a dict has {len(chosen)} keys that are large numbers or tuples, the limit is {_MAX_CHOSEN_KEYS}")
    reader.count(len(chosen), 8 * _MAX_CHOSEN_KEYS, "keys that are large numbers or tuples")
    for key in chosen:
        hash(unflatten(key, _no_leaf))  # a TypeError for what cannot be a key
    return keys


def _no_leaf(number: int) -> Any:
    raise TypeError("a tensor as a key")


def torch_dtype(name: Any, reader: Reader) -> torch.dtype:
    """Check the name of a torch dtype from a file."""
    dtype = getattr(torch, reader.text(name, "a dtype", 32), None)
    if not isinstance(dtype, torch.dtype):
        reader.fail(f"{name!r} is not a dtype of tensors")
    return dtype


def unflatten(
    tree: Any,
    leaf: Callable[[int], Any],
    *,
    values: bool = True,
    batch_size: Callable[[list[int]], list[int]] | None = None,
    stack: Callable[[Any], Any] | None = None,
) -> Any:
    """Return the state of a tree, with `leaf(i)` in the place of tensor i.

    Args:
        leaf: may return MISSING: the key is left out then, and None stands for it in a list.
        values: False leaves out everything that is not a tensor, and the containers that are empty then.
        batch_size: gives the batch size of a TensorDict, if it is not the saved one.
        stack: gives the list of a NonTensorStack, if it is not the saved one.
    """

    def pairs(items: Any) -> Iterator[tuple[Any, Any]]:
        for key, child in items:
            made = build(child)
            if made is not MISSING:
                yield (key if type(key) is not Node else unflatten(key, _no_leaf)), made

    def items(nodes: Any) -> Iterator[Any]:
        return (None if (made := build(node)) is MISSING else made for node in nodes)

    def build(node: Any) -> Any:
        if type(node) is not Node:
            return node if values else MISSING
        tag, value = node
        if tag in _LEAF_TAGS:
            made = leaf(value[0] if tag == "parameter" else value)
            if made is MISSING or tag in ("tensor", "ndarray"):
                return made
            return torch.nn.Parameter(made, requires_grad=value[1]) if tag == "parameter" else made.requires_grad_()
        if tag in _PAIRED:
            found = pairs(value if tag == "dict" else value[0])
            out: Any = OrderedDict(found) if tag == "odict" else dict(found)
            if not values and not out and node is not tree:
                return MISSING
            if tag == "odict" and value[1] is not None:
                out._metadata = unflatten(value[1], _no_leaf)
            if tag == "tensordict":
                return _make_tensordict(out, batch_size(value[1]) if batch_size else value[1])
            if tag == "defaultdict":
                return defaultdict(_FACTORIES[value[1]], out)
            return Counter(out) if tag == "counter" else out
        if not values:
            return MISSING
        if tag in _SEQUENCES:
            return _SEQUENCES[tag](items(value))
        if tag == "deque":
            return deque(items(value[0]), value[1])
        if tag == "namedtuple":
            return _named_tuple(value[1])(*items(value[0]))
        from tensordict import NonTensorStack

        return NonTensorStack.from_list(stack(build(value)) if stack else build(value))

    try:
        return build(tree)
    finally:
        # `build` refers to itself, and would keep all tensors until the next garbage collection.
        leaf, batch_size, stack = _no_leaf, None, None


def _named_tuple(name: str) -> type:
    if name not in _NAMED_TUPLES:
        remedy = f"slipstream.checkpoint.register_named_tuple(its class, {printable(name)!r})"
        raise SaveError(f"the state holds a named tuple {printable(name)!r}: first import its class and call {remedy}")
    return _NAMED_TUPLES[name]


def pairs_of(node: Any) -> list[tuple[Any, Any]] | None:
    """Return (key, child) of a dict of any kind in a tree; None for another node."""
    if type(node) is not Node or node.tag not in _PAIRED:
        return None
    return node.value if node.tag == "dict" else node.value[0]


def _make_tensordict(items: dict[str, Any], batch_size: list[int]) -> Any:
    from tensordict import TensorDict, is_tensor_collection

    out = TensorDict({}, batch_size=batch_size)
    for name, value in items.items():
        if isinstance(value, torch.Tensor) or is_tensor_collection(value):
            out.set(name, value)
        else:
            out.set_non_tensor(name, value)
    return out


def walk_leaves(node: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], int]]:
    """Yield (path, number) of every tensor and array in a tree, in order."""
    if type(node) is not Node:
        return
    tag, value = node
    if tag in _LEAF_TAGS:
        yield path, value[0] if tag == "parameter" else value
    elif tag in _PAIRED:
        for key, child in pairs_of(node) or ():
            yield from walk_leaves(child, (*path, key))
    elif tag in ("list", "tuple") or tag in _LISTED:
        for i, child in enumerate(value[0] if tag in _LISTED else value):
            yield from walk_leaves(child, (*path, i))


def select(tree: Any, keys: list[str]) -> Any:
    """Return the part of a tree below the dotted `keys`; dicts on the way are kept, other branches left out."""
    missing = set(keys)

    def walk(child: Any, path: str) -> Any:
        for key in keys:
            if path == key or path.startswith(key + "."):
                missing.discard(key)
                return child
        on_the_way = not path or any(key.startswith(path + ".") for key in keys)
        pairs = pairs_of(child)
        if pairs is None or not on_the_way:
            return MISSING
        kept = [(k, got) for k, v in pairs if (got := walk(v, f"{path}.{k}" if path else str(k))) is not MISSING]
        return Node("dict", kept) if child.tag == "dict" else Node(child.tag, [kept, child.value[1]])

    found = walk(tree, "")
    if missing:
        top = ", ".join(printable(k) for k, _ in (pairs_of(tree) or [])[:12])
        raise KeyError(f"no {', '.join(sorted(missing))} in this checkpoint; its first keys are: {top}")
    return found


def store_state(writer: ContainerWriter, state: Any) -> Any:
    """Write every tensor and array of `state` as an entry; return JSON for the head, from which `load_state` reads
    it."""
    tree, leaves = flatten(state)
    names = {number: ".".join(map(str, path)) for path, number in walk_leaves(tree)}
    arrays = []
    for number, data in enumerate(leaves.data):
        name = names.get(number, "tensor")
        if isinstance(data, np.ndarray):
            if data.dtype.hasobject or data.dtype.names:
                raise TypeError(f"an array of dtype {data.dtype} is not plain numbers: save its columns as arrays")
            arrays.append(writer.add_array(data, name))
        else:
            flat = np.empty(0, np.uint8)  # an empty tensor may have a stride of 0, which `view` refuses
            if data.numel():
                flat = data.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
            dtype = str(data.dtype).removeprefix("torch.")
            arrays.append([writer.add_numbers(flat, dtype, data.shape, name), f"torch.{dtype}", list(data.shape)])
    return {"tree": to_json(tree), "arrays": arrays}


def load_state(container: Container, data: Any) -> Any:
    """Return the state that `store_state` wrote. Its arrays and tensors are copies, counted against the reader's
    budget."""
    reader = container.reader
    with reader.parsing("a stored state"):
        references = list(data["arrays"])
        tree = from_json(data["tree"], len(references), reader)

    def load(number: int) -> Any:
        with reader.parsing("a stored array"):
            section, name, shape = references[number]
        if not str(name).startswith("torch."):
            return container.owned(container.array(references[number]))
        dtype = torch_dtype(str(name).removeprefix("torch."), reader)
        sizes, raw = reader.shape(shape, "a shape"), container.section(section)
        if reader.product([*sizes, dtype.itemsize], "a shape") != raw.nbytes:
            reader.fail(f"a tensor of {name} {list(sizes)} does not fit its {raw.nbytes} bytes")
        if not raw.nbytes:
            return torch.empty(sizes, dtype=dtype)
        return torch.from_numpy(container.owned(raw)).view(dtype).reshape(sizes)

    loaded: dict[int, Any] = {}
    with reader.parsing("a stored state"):
        return unflatten(tree, lambda i: loaded[i] if i in loaded else loaded.setdefault(i, load(i)))


def pack_state(state: Any) -> bytes:
    """Return a state as bytes: JSON and tensors, no pickle."""
    file = MemoryFile()
    writer = ContainerWriter(file, KIND)
    writer.finish(store_state(writer, state))
    return file.join().tobytes()


def unpack_state(data: Any, name: str) -> Any:
    """Return what `pack_state` was given, from a process that is trusted: of any size. Errors name it `name`."""
    with Container.from_bytes(data, KIND, name, reader=Reader(name, max_bytes=1 << 62)) as container:
        return load_state(container, container.head)
