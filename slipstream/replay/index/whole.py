"""The episodes that are in the buffer from their first step to their last."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


class WholeEpisodes:
    """First pieces of ended episodes, in the order in which they ended. One whose first piece was evicted is dropped when it is met."""

    def __init__(self) -> None:
        self._first = np.empty(16, np.int64)
        self._size = 0

    def add(self, pieces: Sequence[int] | np.ndarray, head: int) -> None:
        """Episodes that have ended, by their first pieces; pieces before `head` are gone."""
        if self._size + len(pieces) > len(self._first):
            self._sweep(head)
        if 2 * (self._size + len(pieces)) > len(self._first):
            larger = np.empty(2 * (self._size + len(pieces)), np.int64)
            larger[: self._size] = self._first[: self._size]
            self._first = larger
        self._first[self._size : self._size + len(pieces)] = pieces
        self._size += len(pieces)

    def draw(self, number: int, head: int, rng: np.random.Generator) -> np.ndarray:
        """`number` of them with equal probability, pieces before `head` being gone."""
        chosen = np.empty(number, np.int64)
        filled = 0
        while filled < number:
            if self._size == 0:
                raise ValueError("there is no whole episode in the buffer yet")
            drawn = self._first[rng.integers(0, self._size, number - filled)]
            there = drawn[drawn >= head]
            chosen[filled : filled + len(there)] = there
            filled += len(there)
            if 2 * len(there) < len(drawn):  # many are gone: forget them
                self._sweep(head)
        return chosen

    def count(self, head: int) -> int:
        """How many there are."""
        self._sweep(head)
        return self._size

    def export(self, head: int) -> np.ndarray:
        """The first pieces, for a file."""
        self._sweep(head)
        return self._first[: self._size].copy()

    def restore(self, first: np.ndarray) -> None:
        """Takes what `export` gave."""
        self._first, self._size = np.array(first, np.int64), len(first)

    def _sweep(self, head: int) -> None:
        kept = self._first[: self._size]
        kept = kept[kept >= head]
        self._first[: len(kept)] = kept
        self._size = len(kept)
