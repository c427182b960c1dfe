"""States and comparisons that the checkpoint tests share."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2]
DTYPES += [
    torch.complex64,
    torch.complex128,
    torch.bool,
    torch.uint8,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
]
DTYPES += [torch.uint16, torch.uint32, torch.uint64]


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
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    if isinstance(a, np.generic):
        return a.dtype == b.dtype and a.tobytes() == b.tobytes()
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
    return bool(a == b)


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
