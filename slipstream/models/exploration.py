"""How a policy chooses its actions: sampled or deterministic, and from which random generator. Models read it,
collectors set it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from enum import Enum
from typing import Any

import torch
from torch import Generator, Tensor


class ExplorationType(Enum):
    """Which action of its distribution a policy returns."""

    RANDOM = "random"  # a sample: training
    MEAN = "mean"
    MODE = "mode"


_current = threading.local()


def exploration_type() -> ExplorationType:
    """Return the type of this thread's innermost `set_exploration_type`; RANDOM outside of any."""
    return chosen_exploration_type() or ExplorationType.RANDOM


def chosen_exploration_type() -> ExplorationType | None:
    """Return the type of this thread's innermost `set_exploration_type`; None outside of any."""
    return getattr(_current, "type", None)


@contextmanager
def _set(name: str, value: Any) -> Iterator[None]:
    """Set a value of this thread in the block."""
    outer = getattr(_current, name, None)
    setattr(_current, name, value)
    try:
        yield
    finally:
        setattr(_current, name, outer)


def set_exploration_type(type: ExplorationType) -> AbstractContextManager[None]:
    """Set how policies that this thread calls in the block explore. Blocks nest."""
    if not isinstance(type, ExplorationType):
        raise TypeError(f"exploration type must be one of {', '.join(map(str, ExplorationType))}, not {type!r}")
    return _set("type", type)


# -- random numbers: two threads that draw from torch's global generator would disturb each other ----------------------


def sampling_generator() -> Generator | None:
    """Return the generator of this thread's innermost `sample_from`; None, for torch's global one, outside of any."""
    return getattr(_current, "generator", None)


def sample_from(generator: Generator | None) -> AbstractContextManager[None]:
    """Let policies that this thread calls in the block draw from `generator`."""
    return _set("generator", generator)


def uniform_like(x: Tensor) -> Tensor:
    """Draw numbers in [0, 1) of the shape of `x` from `sampling_generator()`."""
    generator = sampling_generator()
    # Both calls draw the same numbers from the same state; torch.compile supports the first one better.
    return torch.rand_like(x) if generator is None else torch.empty_like(x).uniform_(generator=generator)


def normal_like(x: Tensor) -> Tensor:
    """Draw standard normal numbers of the shape of `x` from `sampling_generator()`."""
    generator = sampling_generator()
    return torch.randn_like(x) if generator is None else torch.empty_like(x).normal_(generator=generator)
