"""States to save, and whether what was loaded is the same in every bit."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

FLOATS = "float32 float64 float16 bfloat16 float8_e4m3fn float8_e5m2 complex64 complex128"
INTEGERS = "bool uint8 int8 int16 int32 int64 uint16 uint32 uint64"
DTYPES = [getattr(torch, name) for name in f"{FLOATS} {INTEGERS}".split()]


def random_tensor(shape: tuple[int, ...], dtype: torch.dtype, seed: int) -> torch.Tensor:
    """Random bits of any dtype, half the elements zero in every other tensor."""
    generator = torch.Generator().manual_seed(seed)
    count = math.prod(shape) * dtype.itemsize
    raw = torch.randint(0, 256, (count,), generator=generator, dtype=torch.uint8)
    if dtype is torch.bool:
        return (raw % 2).bool().reshape(shape)
    if seed % 2:
        raw[: count // 2 // max(dtype.itemsize, 1) * dtype.itemsize] = 0
    return raw.view(dtype).reshape(shape)


def _bytes(tensor: torch.Tensor) -> torch.Tensor:
    return torch.empty(tensor.numel(), dtype=tensor.dtype).copy_(tensor.detach().reshape(-1)).view(torch.uint8)


def same(a: Any, b: Any) -> bool:
    """Equal in every bit: types, order of keys, strides of shape, NaNs by their pattern."""
    if type(a) is not type(b):
        return False
    if isinstance(a, torch.Tensor):
        return (
            a.dtype == b.dtype
            and a.shape == b.shape
            and a.requires_grad == b.requires_grad
            and torch.equal(_bytes(a), _bytes(b))
        )
    if isinstance(a, np.ndarray | np.generic):
        return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    if type(a).__name__ == "TensorDict":
        return a.batch_size == b.batch_size and same({k: a.get(k) for k in a.keys()}, {k: b.get(k) for k in b.keys()})  # noqa: SIM118
    if isinstance(a, dict):
        return (
            len(a) == len(b)
            and all(same(x, y) for x, y in zip(a, b, strict=True))
            and all(same(x, y) for x, y in zip(a.values(), b.values(), strict=True))
            and getattr(a, "_metadata", None) == getattr(b, "_metadata", None)
        )
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, float):
        return a == b and math.copysign(1, a) == math.copysign(1, b) or (a != a and b != b)
    if isinstance(a, complex):
        return same(a.real, b.real) and same(a.imag, b.imag)
    return bool(a.tolist() == b.tolist() if hasattr(a, "tolist") else a == b)  # a TensorDict's wrappers have it


def training_state(width: int = 64, steps: int = 3, seed: int = 0) -> dict[str, Any]:
    """What a training loop saves: a model, Adam, the random states, counters."""
    import random

    torch.manual_seed(seed)
    model = torch.nn.Sequential(
        torch.nn.Linear(width, width), torch.nn.BatchNorm1d(width), torch.nn.ELU(), torch.nn.Linear(width, 1)
    )
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.randn(16, width)).square().mean().backward()
        optimizer.step()
    return {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "torch_rng": torch.get_rng_state(),
        "rng": {"python": random.Random(seed).getstate(), "numpy": np.random.default_rng(seed).bit_generator.state},
        "iteration": steps,
        "best": float("-inf"),
    }
