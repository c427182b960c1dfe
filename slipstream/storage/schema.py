"""What a step consists of: keys, shapes and dtypes, fixed by the first data and checked against all that follow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

Key = tuple[str, ...]

_BITS = {torch.bfloat16: torch.int16}  # dtypes NumPy does not know, and what carries their bits
_SIZES = "_sizes"  # beside a ragged key: how large each step's array was


@dataclass(frozen=True)
class KeySpec:
    """One key of a step."""

    key: Key
    shape: tuple[int, ...]
    dtype: np.dtype[Any]  # as stored
    torch_dtype: torch.dtype  # as handed out
    next_key: Key | None = None  # where the following row is handed out: an observation; None: no observation

    @property
    def row_bytes(self) -> int:
        """Bytes of one row, uncompressed."""
        return int(np.prod(self.shape, dtype=np.int64)) * self.dtype.itemsize


@dataclass
class Schema:
    """The keys of a buffer. `ragged` gives the largest sizes of arrays that vary from step to step, None where an axis does not."""

    specs: dict[Key, KeySpec] = field(default_factory=dict)
    ragged: dict[Key, tuple[int | None, ...]] = field(default_factory=dict)

    def fix(
        self, arrays: Mapping[Key, np.ndarray], torch_dtypes: Mapping[Key, torch.dtype], nexts: Mapping[Key, Key]
    ) -> None:
        """The first data decides; `nexts` gives the observations and the keys of their successors."""
        for key, array in arrays.items():
            self.specs[key] = KeySpec(key, array.shape[1:], array.dtype, torch_dtypes[key], nexts.get(key))

    def check(self, arrays: Mapping[Key, np.ndarray], torch_dtypes: Mapping[Key, torch.dtype]) -> None:
        """Raises where `arrays` [n, ...] are not what the first data were."""
        for key in self.specs:
            if key not in arrays:
                raise KeyError(f"{show(key)} is missing: every add must give the keys of the first ({self.names()})")
        for key, array in arrays.items():
            spec = self.specs.get(key)
            if spec is None:
                raise KeyError(f"{show(key)} is new: every add must give the keys of the first ({self.names()})")
            if array.shape[1:] != spec.shape:
                raise ValueError(
                    f"{show(key)} has the shape {list(array.shape[1:])} a step, at the first add it had {list(spec.shape)}"
                )
            if torch_dtypes[key] != spec.torch_dtype or array.dtype != spec.dtype:
                raise TypeError(
                    f"{show(key)} is {torch_dtypes[key]}, at the first add it was {spec.torch_dtype}: convert it"
                )

    def names(self) -> str:
        """The keys, for a message."""
        return ", ".join(show(key) for key in self.specs if not key[-1].endswith(_SIZES))

    def describe(self) -> list[dict[str, Any]]:
        """Plain data for a file."""
        return [
            {
                "key": list(s.key),
                "shape": list(s.shape),
                "dtype": s.dtype.str,
                "torch_dtype": str(s.torch_dtype).removeprefix("torch."),
                "next_key": None if s.next_key is None else list(s.next_key),
            }
            for s in self.specs.values()
        ]

    def restore(self, described: Sequence[Mapping[str, Any]]) -> None:
        """Takes what `describe` gave; where keys are known already, they must be the same."""
        specs = {}
        for d in described:
            key, next_key = tuple(d["key"]), None if d["next_key"] is None else tuple(d["next_key"])
            torch_dtype = getattr(torch, d["torch_dtype"])
            dtype = np.dtype(d["dtype"])
            if dtype.hasobject or not isinstance(torch_dtype, torch.dtype):
                raise ValueError(f"{show(key)} has no plain dtype in the file")
            specs[key] = KeySpec(key, tuple(int(n) for n in d["shape"]), dtype, torch_dtype, next_key)
        if self.specs and specs != self.specs:
            raise ValueError(f"the file holds other keys, shapes or dtypes than this buffer ({self.names()})")
        self.specs = specs


def as_key(key: Any) -> Key:
    """A user's key: a name, or a tuple of names."""
    return tuple(key) if isinstance(key, tuple) else (str(key),)


def show(key: Key) -> str:
    """A key as the user wrote it."""
    return repr(key[0]) if len(key) == 1 else repr(key)


def flatten(tree: Mapping[Any, Any], prefix: Key = ()) -> dict[Key, Any]:
    """Nested mappings (also TensorDicts) as one dict of tuple keys."""
    flat: dict[Key, Any] = {}
    for name, value in tree.items():
        key = (*prefix, *(name if isinstance(name, tuple) else (str(name),)))
        if isinstance(value, Mapping) or (hasattr(value, "batch_size") and hasattr(value, "items")):
            flat.update(flatten(value, key))
        else:
            flat[key] = value
    return flat


def as_array(key: Key, value: Any) -> tuple[np.ndarray, torch.dtype]:
    """`value` as NumPy, sharing its memory where it can, and the dtype to hand out."""
    if isinstance(value, Tensor):
        torch_dtype = value.dtype
        value = value.detach().cpu()
        return (value.view(_BITS[torch_dtype]) if torch_dtype in _BITS else value).numpy(), torch_dtype
    if isinstance(value, (bytes, bytearray)) or (
        isinstance(value, list) and value and isinstance(value[0], (bytes, bytearray))
    ):
        raise TypeError(f"{show(key)} holds compressed bytes: give the arrays themselves, the buffer compresses them")
    array = np.asarray(value)
    if array.ndim < 1:
        raise ValueError(f"{show(key)} is a single number: give one row a step")
    if array.dtype.hasobject:
        raise TypeError(
            f"{show(key)} has arrays of varying sizes: give ragged={{{show(key)}: (largest size, ...)}} to the buffer"
        )
    try:
        return array, torch.from_numpy(array[:0]).dtype
    except TypeError as error:
        raise TypeError(f"{show(key)} has the dtype {array.dtype}, which torch does not know: convert it") from error


def as_tensor(array: np.ndarray, spec: KeySpec) -> Tensor:
    """The tensor of `array`'s memory."""
    tensor = torch.from_numpy(array)
    return tensor.view(spec.torch_dtype) if spec.torch_dtype in _BITS else tensor


def sizes_key(key: Key) -> Key:
    """Where the sizes of a ragged key are kept."""
    return (*key[:-1], key[-1] + _SIZES)


def mask_key(key: Key) -> Key:
    """The mask handed out in place of a key of sizes."""
    return (*key[:-1], key[-1].removesuffix(_SIZES) + "_mask")


def pad(key: Key, values: Sequence[Any], largest: tuple[int | None, ...]) -> tuple[np.ndarray, np.ndarray]:
    """(padded [L, ...], sizes [L, varying axes]) of one array a step."""
    arrays = [np.asarray(v.detach().cpu() if isinstance(v, Tensor) else v) for v in values]
    first = arrays[0]
    if first.ndim != len(largest):
        raise ValueError(f"{show(key)} has {first.ndim} axes a step, ragged gives {len(largest)}")
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
    """bool [..., *varying axes]: where there is data. `sizes` is [..., number of varying axes]."""
    limits = [limit for limit in largest if limit is not None]
    mask = torch.ones(1, dtype=torch.bool)
    for axis, limit in enumerate(limits):
        inside = torch.arange(limit, device=sizes.device) < sizes[..., axis : axis + 1]
        shape = (*inside.shape[:-1], *(limit if a == axis else 1 for a in range(len(limits))))
        mask = mask.to(sizes.device) & inside.view(shape)
    return mask
