"""What is done with rollout files that are not whole: raised with what can still be read, passed over, or told to a function."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from slipstream.storage.errors import DamagedFileError

OnBroken = str | Callable[[Path, DamagedFileError], None]


class BrokenFiles:
    """`on_broken` of a storage: "raise", "skip" (with a warning for each file), or a function (path, error) that is told."""

    def __init__(self, on_broken: OnBroken) -> None:
        if not callable(on_broken) and on_broken not in ("raise", "skip"):
            raise ValueError(f"on_broken is {on_broken!r}: use 'raise', 'skip' or a function (path, error)")
        self._on_broken = on_broken

    @property
    def skips(self) -> bool:
        """Whether reading goes on without them."""
        return self._on_broken != "raise"

    def met(self, path: Path, error: DamagedFileError, whole: Callable[[], Iterable[int]]) -> None:
        """A broken file was met: raises, naming the `whole` iterations and how to go on, or tells it and returns."""
        if callable(self._on_broken):
            self._on_broken(path, error)
        elif self.skips:
            warnings.warn(f"skipped a broken rollout: {error}", RuntimeWarning, stacklevel=3)
        else:
            good = as_ranges(whole())
            there = f"iterations {good} can be opened" if good else "no other iteration can be opened"
            raise DamagedFileError(
                f"{error}. Of this folder {there}; to go on without broken files: RolloutStorage(folder, on_broken='skip')"
            ) from error


def as_ranges(numbers: Iterable[int]) -> str:
    """0, 1, 2, 5 as `0-2,5`: what the command line takes."""
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in _runs(numbers))


def _runs(numbers: Iterable[int]) -> Iterator[tuple[int, int]]:
    """(first, last) of the runs of consecutive numbers."""
    first = last = None
    for number in sorted(numbers):
        if first is not None and last is not None and number != last + 1:
            yield first, last
            first = number
        first, last = number if first is None else first, number
    if first is not None and last is not None:
        yield first, last
