"""Random nested states of everything a checkpoint may hold."""

from __future__ import annotations

import math
from collections import OrderedDict
from typing import Any

import numpy as np
import torch
from helpers.states import DTYPES, random_tensor
from hypothesis import strategies as st

shapes = st.lists(st.integers(0, 7), max_size=3).map(tuple)


@st.composite
def tensors(draw: Any) -> torch.Tensor:
    """A tensor of any dtype: contiguous, transposed, strided, expanded or 0-d."""
    tensor = random_tensor(draw(shapes), draw(st.sampled_from(DTYPES)), draw(st.integers(0, 1000)))
    how = draw(st.sampled_from(["plain", "transposed", "strided", "expanded"]))
    if how == "transposed" and tensor.dim() > 1:
        return tensor.transpose(0, 1)
    if how == "strided" and tensor.dim() and tensor.shape[0] > 2:
        return tensor[1::2]
    if how == "expanded":
        return tensor.unsqueeze(0).expand(3, *tensor.shape)
    return tensor


@st.composite
def arrays(draw: Any) -> np.ndarray:
    """A NumPy array of plain numbers."""
    dtype = draw(st.sampled_from(["f4", "f8", "i8", "u1", "?", "c16", "f2", "u2", "u8"]))
    shape = draw(shapes)
    raw = np.random.default_rng(draw(st.integers(0, 1000))).integers(
        0, 2, math.prod(shape) * np.dtype(dtype).itemsize, dtype=np.uint8
    )
    return np.frombuffer(raw.tobytes(), dtype).reshape(shape)


scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(-(2**130), 2**130),
    st.floats(),
    st.text(max_size=8),
    st.complex_numbers(),
    st.sampled_from([torch.Size([2, 3]), torch.float32, torch.device("cpu")]),
)
keys = st.one_of(st.text(max_size=6), st.integers(-5, 5), st.booleans(), st.none())


def states(torch_kinds: bool = False) -> Any:
    """Nested states of everything a checkpoint may hold, or of what a torch file may hold."""
    numpy = (
        st.nothing()
        if torch_kinds
        else st.one_of(arrays(), st.binary(max_size=8), st.sampled_from([np.float32(1.5), np.int64(-7)]))
    )
    nested = st.recursive(
        st.one_of(scalars, tensors(), numpy),
        lambda children: st.one_of(
            st.lists(children, max_size=4),
            st.lists(children, max_size=4).map(tuple),
            st.dictionaries(keys, children, max_size=4),
            st.dictionaries(keys, children, max_size=4).map(OrderedDict),
        ),
        max_leaves=12,
    )
    return st.dictionaries(st.text(max_size=6), nested, max_size=5)
