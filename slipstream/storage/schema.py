"""The keys of a step: names, shapes and dtypes, fixed by the first data and checked against all later data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from slipstream.storage.tensor_file import Reader

Key = tuple[str, ...]
Form = tuple[tuple[int, ...], torch.dtype]  # the shape of a step and its dtype

_BITS = {torch.bfloat16: torch.int16}  # dtypes that NumPy does not have, and the dtype that holds their bits
_SIZES = "_sizes"  # suffix of the key that holds the sizes of a ragged key
_MAX_KEYS = 10_000


@dataclass(frozen=True)
class KeySpec:
    """One key of a step."""

    key: Key
    shape: tuple[int, ...]
    dtype: np.dtype[Any]  # as stored
    torch_dtype: torch.dtype  # as returned
    next_key: Key | None = None  # key under which the next observation is returned; None: the key is not an observation

    @property
    def row_bytes(self) -> int:
        """Bytes of one row, uncompressed."""
        return int(np.prod(self.shape, dtype=np.int64)) * self.dtype.itemsize


@dataclass
class Schema:
    """The keys of a buffer. `ragged` gives the largest sizes of arrays that vary from step to step, None for a fixed
    axis."""

    specs: dict[Key, KeySpec] = field(default_factory=dict)
    ragged: dict[Key, tuple[int | None, ...]] = field(default_factory=dict)

    def accept(self, forms: Mapping[Key, Form], nexts: Mapping[Key, Key]) -> None:
        """Fix the keys by the first data; check later data against them.

        Args:
            forms: shape and dtype of every key.
            nexts: the observations that came with their next observations, and the keys under which those are returned.

        Raises:
            KeyError: if a key is missing or new.
            ValueError: if a shape differs.
            TypeError: if a dtype differs.
        """
        if not self.specs:
            self.specs = {key: _spec(key, *form, nexts.get(key)) for key, form in forms.items()}
        followed = {key for key, spec in self.specs.items() if spec.next_key is not None}
        wrong = sorted(forms.keys() ^ self.specs.keys()) or [
            self.specs[key].next_key or nexts[key] for key in sorted(nexts.keys() ^ followed)
        ]
        for key in wrong:
            how = "new" if key in forms or key in nexts.values() else "missing"
            raise KeyError(f"{show(key)} is {how}: every add must have the keys of the first ({self.names()})")
        for key, (shape, dtype) in forms.items():
            spec = self.specs[key]
            if shape != spec.shape:
                raise ValueError(
                    f"{show(key)} has the shape {list(shape)} per step, at the first add it had {list(spec.shape)}"
                )
            if dtype != spec.torch_dtype:
                raise TypeError(f"{show(key)} is {dtype}, at the first add it was {spec.torch_dtype}: convert it")

    def names(self) -> str:
        """Return the keys, for a message."""
        return ", ".join(show(key) for key in self.specs if not key[-1].endswith(_SIZES))

    def describe(self) -> list[list[Any]]:
        """Return JSON for a file."""
        return [
            [list(s.key), list(s.shape), str(s.torch_dtype).removeprefix("torch."), s.next_key and list(s.next_key)]
            for s in self.specs.values()
        ]

    def restore(self, described: Any, reader: Reader) -> None:
        """Read what `describe` returned. If the keys are already known, they must be the same."""
        specs: dict[Key, KeySpec] = {}
        names: list[Key] = []
        with reader.parsing("the list of keys"):
            reader.count(len(described), _MAX_KEYS, "keys")
            for key, shape, dtype, next_key in described:
                own, following = _key(key, reader), None if next_key is None else _key(next_key, reader)
                names += [own] if following is None else [own, following]
                specs[own] = _spec(own, reader.shape(shape, "a shape"), reader.torch_dtype(dtype, "a dtype"), following)
        taken = set(names)
        if len(taken) < len(names) or any(key[:n] in taken for key in names for n in range(1, len(key))):
            reader.fail("a key is there twice, or is the beginning of another key")
        if self.specs and specs != self.specs:
            reader.fail(f"it holds other keys, shapes or dtypes than this buffer ({self.names()})")
        self.specs = specs


def _spec(key: Key, shape: tuple[int, ...], dtype: torch.dtype, next_key: Key | None) -> KeySpec:
    stored = torch.empty(0, dtype=_BITS.get(dtype, dtype)).numpy().dtype
    return KeySpec(key, tuple(shape), stored, dtype, next_key)


def _key(names: Any, reader: Reader) -> Key:
    key = tuple(reader.text(name, "a key") for name in names)
    return key if 0 < len(key) < 100 else reader.fail("a key has no names, or too many")


def as_key(key: Any) -> Key:
    """Return a user's key, a name or a tuple of names, as a tuple."""
    return tuple(key) if isinstance(key, tuple) else (str(key),)


def show(key: Key) -> str:
    """Return a key as the user wrote it."""
    return repr(key[0]) if len(key) == 1 else repr(key)


def flatten(tree: Mapping[Any, Any], prefix: Key = ()) -> dict[Key, Any]:
    """Return nested mappings (also TensorDicts) as one dict with tuple keys."""
    flat: dict[Key, Any] = {}
    for name, value in tree.items():
        key = (*prefix, *(name if isinstance(name, tuple) else (str(name),)))
        if isinstance(value, Mapping) or (hasattr(value, "batch_size") and hasattr(value, "items")):
            flat.update(flatten(value, key))
        else:
            flat[key] = value
    return flat


def as_array(key: Key, value: Any) -> tuple[np.ndarray, torch.dtype]:
    """Return `value` as a NumPy array, sharing its memory if possible, and its torch dtype."""
    if isinstance(value, Tensor):
        dtype = value.dtype
        value = value.detach().cpu()
        try:
            return (value.view(_BITS[dtype]) if dtype in _BITS else value).numpy(), dtype
        except TypeError as error:
            raise TypeError(f"{show(key)} is {dtype}, which NumPy does not have: convert it") from error
    if isinstance(value, (bytes, bytearray)) or (
        isinstance(value, list) and value and isinstance(value[0], (bytes, bytearray))
    ):
        raise TypeError(f"{show(key)} holds compressed bytes: give the arrays themselves, the buffer compresses them")
    array = np.asarray(value)
    if array.ndim < 1:
        raise ValueError(f"{show(key)} is a single number: give one row per step")
    if array.dtype.hasobject:
        raise TypeError(
            f"{show(key)} has arrays of varying sizes: give ragged={{{show(key)}: (largest size, ...)}} to the buffer"
        )
    if array.dtype.kind == "U":
        raise TypeError(
            f"{show(key)} holds text: give numbers, such as the bytes of each text: "
            "[np.frombuffer(text.encode(), np.uint8) for text in texts] with ragged={" + show(key) + ": (200,)}"
        )
    try:
        return array, torch.from_numpy(array[:0]).dtype
    except TypeError as error:
        raise TypeError(f"{show(key)} has the dtype {array.dtype}, which torch does not have: convert it") from error


def as_tensor(array: np.ndarray, spec: KeySpec) -> Tensor:
    """Return the tensor of `array`'s memory."""
    tensor = torch.from_numpy(array)
    return tensor.view(spec.torch_dtype) if spec.torch_dtype in _BITS else tensor


def as_bits(tensor: Tensor) -> np.ndarray:
    """Return the array of a CPU tensor's memory: of dtypes that NumPy does not have, their bits."""
    return (tensor.view(_BITS[tensor.dtype]) if tensor.dtype in _BITS else tensor).numpy()


def sizes_key(key: Key) -> Key:
    """Return the key that holds the sizes of a ragged key."""
    return (*key[:-1], key[-1] + _SIZES)


def mask_key(key: Key) -> Key:
    """Return the key of the mask that is returned instead of the sizes `key`."""
    return (*key[:-1], key[-1].removesuffix(_SIZES) + "_mask")


def pad(key: Key, values: Sequence[Any], largest: tuple[int | None, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Return (padded [L, ...], sizes [L, varying axes]) of one array per step."""
    arrays = [np.asarray(v.detach().cpu() if isinstance(v, Tensor) else v) for v in values]
    first = arrays[0]
    if first.ndim != len(largest):
        raise ValueError(f"{show(key)} has {first.ndim} axes per step, ragged gives {len(largest)}")
    shape = tuple(n if limit is None else limit for n, limit in zip(first.shape, largest, strict=True))
    varying = [axis for axis, limit in enumerate(largest) if limit is not None]
    padded = np.zeros((len(arrays), *shape), first.dtype)
    sizes = np.empty((len(arrays), len(varying)), np.int32)
    for t, array in enumerate(arrays):
        if array.ndim != first.ndim or any(n > m for n, m in zip(array.shape, shape, strict=True)):
            raise ValueError(
                f"{show(key)} is {list(array.shape)} at step {t}, larger than the {list(shape)} that ragged allows"
            )
        if any(array.shape[a] != shape[a] for a in range(first.ndim) if a not in varying) or array.dtype != first.dtype:
            raise ValueError(
                f"{show(key)} is {list(array.shape)} {array.dtype} at step {t}, {list(first.shape)} {first.dtype} at step 0"
            )
        where: tuple[Any, ...] = (t, *(slice(n) for n in array.shape))
        padded[where] = array
        sizes[t] = [array.shape[axis] for axis in varying]
    return padded, sizes


def mask_of(sizes: Tensor, largest: tuple[int | None, ...]) -> Tensor:
    """Return bool [..., *varying axes]: True where there is data. `sizes` is [..., number of varying axes]."""
    limits = [limit for limit in largest if limit is not None]
    mask = torch.ones(1, dtype=torch.bool)
    for axis, limit in enumerate(limits):
        inside = torch.arange(limit, device=sizes.device) < sizes[..., axis : axis + 1]
        shape = (*inside.shape[:-1], *(limit if a == axis else 1 for a in range(len(limits))))
        mask = mask.to(sizes.device) & inside.view(shape)
    return mask
