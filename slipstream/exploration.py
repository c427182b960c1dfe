"""How a policy is to choose its actions: drawn at random, or the same each time. Models read it, collectors set it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum


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
