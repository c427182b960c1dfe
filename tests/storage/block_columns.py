"""Columns of blocks, frames for them, and how two arrays are the same."""

import numpy as np

from slipstream.storage.blocks import BlockColumn


def column(shape=(5, 3), dtype="float32", **settings_) -> BlockColumn:
    return BlockColumn(shape, dtype, **settings_)


def frames_of(rng: np.random.Generator, n: int, shape=(5, 3), dtype="float32") -> np.ndarray:
    values = np.where(
        rng.random((n, *shape)) < 0.3, rng.normal(size=(n, *shape)), rng.choice([0.0, -0.0, np.nan, 1.0], (n, *shape))
    )
    return values.astype(dtype)


def read(held: BlockColumn, rows) -> np.ndarray:
    rows = np.asarray(rows, np.int64)
    out = np.empty((rows.size, *held.shape), held.dtype)
    held.gather(rows, out)
    return out
