"""How a policy is to choose its actions: drawn at random, or the same each time, and from which stream of random numbers.

Models read it, collectors set it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Generator, Tensor


class ExplorationType(Enum):
    """Which action of its distribution a policy gives."""

    RANDOM = "random"  # a sample: training
    MEAN = "mean"
    MODE = "mode"


_current = threading.local()


def exploration_type() -> ExplorationType:
    """The choice of the innermost `set_exploration_type` of this thread; RANDOM outside of any."""
    return chosen_exploration_type() or ExplorationType.RANDOM


def chosen_exploration_type() -> ExplorationType | None:
    """As `exploration_type`, but None outside of any `set_exploration_type`: nobody chose."""
    return getattr(_current, "type", None)


@contextmanager
def set_exploration_type(type: ExplorationType) -> Iterator[None]:
    """Policies called within the block, by this thread, explore so. Blocks nest; an exception restores the outer one too."""
    if not isinstance(type, ExplorationType):
        raise TypeError(f"exploration type must be one of {', '.join(map(str, ExplorationType))}, not {type!r}")
    outer = chosen_exploration_type()
    _current.type = type
    try:
        yield
    finally:
        _current.type = outer


# -- random numbers: torch's global generator serves the whole process, so that two threads which draw from it disturb one another ----


def sampling_generator() -> Generator | None:
    """What policies of this thread draw from: the innermost `sample_from`'s; None, torch's global generator, outside of any."""
    return getattr(_current, "generator", None)


@contextmanager
def sample_from(generator: Generator | None) -> Iterator[None]:
    """Policies called within the block, by this thread, draw from `generator`, whatever other threads draw meanwhile."""
    outer = sampling_generator()
    _current.generator = generator
    try:
        yield
    finally:
        _current.generator = outer


def uniform_like(x: Tensor) -> Tensor:
    """Numbers in [0, 1) of the shape of `x`, drawn from `sampling_generator()`."""
    import torch

    generator = (
        sampling_generator()
    )  # both ways give the same numbers from the same state; a compiler knows the first one better
    return torch.rand_like(x) if generator is None else torch.empty_like(x).uniform_(generator=generator)


def normal_like(x: Tensor) -> Tensor:
    """Standard normal numbers of the shape of `x`, drawn from `sampling_generator()`."""
    import torch

    generator = sampling_generator()
    return torch.randn_like(x) if generator is None else torch.empty_like(x).normal_(generator=generator)
