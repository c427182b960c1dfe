"""Which rows belong to which episode: steps numbered in order of arrival, pieces of episodes that link to one another.

A *piece* is a run of consecutive rows of one episode; an episode is one piece or a chain of them (a collector's batch gives
one piece an environment). Rows and steps are counted by 64-bit numbers that never go back. A piece holds its steps and, where
the final observation of an ended or cut episode is known, one row more, which is no step. So `row0` and `step0`, sorted, say
everything about where a step lies; `link` says where the episode goes on.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from slipstream.replay.index import kernels as index_kernels
from slipstream.replay.index.kernels import BUCKET, FINAL, STARTS, WITH_PREVIOUS

__all__ = ["FINAL", "NO_LINK", "STARTS", "WITH_PREVIOUS", "PrefixSum", "StepIndex"]

kernels: Any = index_kernels  # a type checker cannot see through numba

NO_LINK = -1  # an episode that ends here; -2 - s: it goes on in stream s, whose next piece has not come yet


class StepIndex:
    """Pieces between `head` and `tail`: O(1) amortised to add and evict, O(log) of a bucket's pieces to look a step up.

    It is not locked: the replay buffer holds its lock around every call.
    """

    def __init__(self) -> None:
        self.head = 0  # oldest piece
        self.tail = 0  # one past the newest
        self._base = 0  # piece p lies at p - base
        # Steps and rows before the piece, side by side, so that a look-up finds both with one miss of the cache. One entry past
        # the newest piece holds the totals.
        self._starts = np.zeros((17, 2), np.int64)
        self._step0, self._row0 = self._starts[:, 0], self._starts[:, 1]
        self._link = np.empty(16, np.int64)  # the piece in which the episode goes on
        self._back = np.empty(16, np.int64)  # the piece it came from
        self._flags = np.empty(16, np.uint8)
        self._buckets = np.empty(16, np.int64)  # the piece that holds step BUCKET * k
        self._bucket_base = 0
        self._bucket_tail = 0

    # counts

    @property
    def head_step(self) -> int:
        """The number of the oldest step."""
        return int(self._step0[self.head - self._base])

    @property
    def tail_step(self) -> int:
        """The number the next step will get."""
        return int(self._step0[self.tail - self._base])

    @property
    def head_row(self) -> int:
        """The oldest row."""
        return int(self._row0[self.head - self._base])

    @property
    def tail_row(self) -> int:
        """The number the next row will get."""
        return int(self._row0[self.tail - self._base])

    def __len__(self) -> int:
        return self.tail_step - self.head_step

    @property
    def nbytes(self) -> int:
        """Memory of the arrays."""
        return sum(a.nbytes for a in (self._starts, self._link, self._back, self._flags, self._buckets))

    # adding and removing

    def append(self, steps: np.ndarray, rows: np.ndarray, back: np.ndarray, link: np.ndarray, flags: np.ndarray) -> int:
        """Adds pieces, given how many steps and rows each holds; the number of the first. `back` >= 0 links that piece to this one."""
        n, first = len(steps), self.tail
        self._make_room(n)
        at = self.tail - self._base
        self._step0[at + 1 : at + n + 1] = self._step0[at] + np.cumsum(steps)
        self._row0[at + 1 : at + n + 1] = self._row0[at] + np.cumsum(rows)
        self._link[at : at + n], self._back[at : at + n], self._flags[at : at + n] = link, back, flags
        joined = np.flatnonzero(back >= self.head)
        self._link[back[joined] - self._base] = first + joined
        self.tail += n
        self._fill_buckets(first)
        return first

    def lengthen(self, steps: int, rows: int, flags: int) -> None:
        """The newest piece goes on: its stream is the only one writing."""
        at = self.tail - self._base
        self._step0[at] += steps
        self._row0[at] += rows
        self._flags[at - 1] |= flags
        self._fill_buckets(self.tail - 1)

    def set_link(self, piece: int, link: int) -> None:
        """Says where the episode of `piece` goes on; a piece that is gone needs no link."""
        if piece >= self.head:
            self._link[piece - self._base] = link

    def piece_for(self, steps: int) -> int:
        """The head that would leave at most `steps`; whole units leave, and with no room for any, all."""
        wanted = self.tail_step - steps
        if wanted <= self.head_step:
            return self.head
        if wanted >= self.tail_step:
            return self.tail
        pieces, offsets = self.locate(np.array([wanted]))
        return self.unit_from(int(pieces[0]) + (offsets[0] > 0))

    def piece_keeping(self, steps: int) -> int:
        """The latest head that leaves the newest `steps` steps where they are."""
        wanted = self.tail_step - steps
        if wanted <= self.head_step:  # also when there is none
            return self.head
        piece = int(self.locate(np.array([min(wanted, self.tail_step - 1)]))[0][0])
        while piece > self.head and self._flags[piece - self._base] & WITH_PREVIOUS:
            piece -= 1
        return piece

    def unit_from(self, piece: int) -> int:
        """The first piece from `piece` on at which an episode or a batch's share of one begins."""
        while piece < self.tail and self._flags[piece - self._base] & WITH_PREVIOUS:
            piece += 1
        return piece

    def piece_steps(self, piece: int) -> int:
        """How many steps a piece holds."""
        return int(self._step0[piece + 1 - self._base] - self._step0[piece - self._base])

    def evict(self, piece: int) -> None:
        """Everything before `piece` is gone."""
        self.head = max(self.head, min(int(piece), self.tail))  # a plain number: it is written down as JSON

    # looking up

    def tables(self) -> tuple[Any, ...]:
        """What the native loops read."""
        return self._base, self.head, self.tail, self._step0, self._row0, self._link, self._back, self._flags

    def locate(self, steps: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(pieces, offsets within them) of `steps`, int64 [B], which must lie in [head_step, tail_step)."""
        pieces, offsets = np.empty(len(steps), np.int64), np.empty(len(steps), np.int64)
        kernels.locate(
            steps,
            self._base,
            self.head,
            self.tail,
            self._step0,
            self._buckets,
            self._bucket_base,
            self._bucket_tail,
            pieces,
            offsets,
        )
        return pieces, offsets

    def rows_of(self, steps: np.ndarray) -> np.ndarray:
        """The row of each step."""
        pieces, offsets = self.locate(steps)
        return self._row0[pieces - self._base] + offsets

    def follow(
        self,
        steps: np.ndarray,
        limits: np.ndarray,
        columns: np.ndarray,
        width: int,
        ends: np.ndarray,
        through: bool = False,
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(step numbers, rows, following rows), each [B, width]: `limits` steps of each episode from `steps` on, from `columns` on.

        Where there is no step they are -1. `limits` becomes the number of steps there were. `ends` is the ring of end flags by
        row. A following row below 0 is the pending observation of stream -1 - row.
        """
        pieces, offsets = self.locate(steps)
        numbers, rows, following = (np.full((len(steps), width), -1, np.int64) for _ in range(3))
        kernels.follow(pieces, offsets, limits, columns, ends, through, *self.tables(), numbers, rows, following)
        return numbers, rows, following

    def single(
        self, steps: np.ndarray, ends: np.ndarray, gamma: float
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """(rows of the steps and then of what follows them [2 B], discounts [B], waiting, streams) of single steps.

        Steps `waiting` are followed by the pending observations of `streams`; their own row stands in for it.
        """
        pieces, offsets = self.locate(steps)
        number = len(steps)
        both, discount = np.empty(2 * number, np.int64), np.empty(number, np.float32)
        waiting, streams = np.empty(number, np.int64), np.empty(number, np.int64)
        missing = kernels.single(pieces, offsets, ends, gamma, *self.tables(), both, waiting, streams, discount)
        return both, discount, waiting[:missing], streams[:missing]

    def behind(self, steps: np.ndarray, length: int, ends: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(steps, counts): at most `length` steps back in the same episode, and how far that was."""
        pieces, offsets = self.locate(steps)
        starts, counts = np.empty(len(steps), np.int64), np.full(len(steps), length)
        kernels.behind(pieces, offsets, ends, *self.tables(), starts, counts)
        return starts, counts

    def remaining(self, steps: np.ndarray) -> np.ndarray:
        """How many steps the episode has from each step on, itself included, as far as is known."""
        pieces, offsets = self.locate(steps)
        counts = np.empty(len(steps), np.int64)
        kernels.remaining(pieces, offsets, *self.tables(), counts)
        return counts

    def before(self, steps: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(first step of the same episode that is still there, how many lie between)."""
        pieces, offsets = self.locate(steps)
        starts, counts = np.empty(len(steps), np.int64), np.full(len(steps), 2**62)
        kernels.behind(pieces, offsets, np.zeros(1, np.uint8), *self.tables(), starts, counts)
        return starts, counts

    def ahead(self, steps: np.ndarray, distances: np.ndarray) -> np.ndarray:
        """The rows of the observations that follow the steps `distances` on, which must exist; below 0 as in `follow`."""
        pieces, offsets = self.locate(steps)
        following = np.empty(len(steps), np.int64)
        kernels.ahead(pieces, offsets, distances, *self.tables(), following)
        return following

    def first_steps(self, pieces: np.ndarray) -> np.ndarray:
        """The number of each piece's first step."""
        return self._step0[pieces - self._base]

    # keeping

    def export(self, first: int) -> dict[str, np.ndarray]:
        """The pieces from `first` on, as arrays for a file; links follow from `back`."""
        lo, hi = first - self._base, self.tail - self._base
        arrays: dict[str, np.ndarray] = {"step0": self._step0[lo : hi + 1], "row0": self._row0[lo : hi + 1]}
        arrays |= {"link": self._link[lo:hi], "back": self._back[lo:hi], "flags": self._flags[lo:hi]}
        return {name: array.copy() for name, array in arrays.items()}

    def restore(self, first: int, pieces: dict[str, np.ndarray]) -> None:
        """Takes what `export(first)` gave: on an empty index, or right after its newest piece."""
        if self.head == self.tail:
            self.head = self.tail = self._base = first
            self._step0[0], self._row0[0] = pieces["step0"][0], pieces["row0"][0]
            self._bucket_base = self._bucket_tail = -(-int(pieces["step0"][0]) // BUCKET)
        if first != self.tail:
            raise ValueError(f"pieces from {first} on were given where {self.tail} comes next")
        if (pieces["step0"][0], pieces["row0"][0]) != (self.tail_step, self.tail_row):
            raise ValueError(f"the steps or rows of pieces from {first} on do not continue the ones before")
        self.append(np.diff(pieces["step0"]), np.diff(pieces["row0"]), pieces["back"], pieces["link"], pieces["flags"])

    def check_links(self, streams: int) -> None:
        """Raises ValueError where a link leads anywhere but to a later piece that leads back, or to one of `streams` streams."""
        count = self.tail - self._base
        link, back = self._link[:count], self._back[:count]
        own = np.arange(count)
        joined = np.flatnonzero(link >= 0)
        later = link[joined] - self._base
        if (later <= joined).any() or (later >= count).any() or (back[later] - self._base != joined).any():
            raise ValueError("an episode's pieces do not link to one another in order")
        if (back >= self._base + own).any() or (link < -1 - streams).any():
            raise ValueError("a piece links to a piece or stream that does not exist")

    # memory

    def _make_room(self, n: int) -> None:
        live, size = self.tail - self.head, len(self._flags)
        if self.tail - self._base + n <= size:
            return
        # What is live moves to the front of arrays at least twice its size: each piece pays O(1) for it.
        size = max(16, 2 * (live + n))
        lo, hi, self._base = self.head - self._base, self.tail - self._base, self.head
        for name in ("_starts", "_link", "_back", "_flags"):
            old, extra = getattr(self, name), name == "_starts"
            new = np.empty((size + extra, *old.shape[1:]), old.dtype)
            new[: live + extra] = old[lo : hi + extra]
            setattr(self, name, new)
        self._step0, self._row0 = self._starts[:, 0], self._starts[:, 1]

    def _fill_buckets(self, first: int) -> None:
        """Notes the piece of every BUCKET-th step that has come since."""
        end = -(-self.tail_step // BUCKET)  # buckets whose first step exists
        if end <= self._bucket_tail:
            return
        oldest = max(self._bucket_base, self.head_step // BUCKET)
        live = self._bucket_tail - oldest
        if end - self._bucket_base > len(self._buckets):
            new = np.empty(max(16, 2 * (end - oldest)), np.int64)
            new[:live] = self._buckets[oldest - self._bucket_base : self._bucket_tail - self._bucket_base]
            self._buckets, self._bucket_base = new, oldest
        wanted = np.arange(self._bucket_tail, end) * BUCKET
        lo, hi = first - self._base, self.tail - self._base
        found = np.searchsorted(self._step0[lo:hi], wanted, side="right") - 1 + first
        self._buckets[self._bucket_tail - self._bucket_base : end - self._bucket_base] = found
        self._bucket_tail = end


def check_pieces(first: int, pieces: dict[str, np.ndarray], rows: int) -> None:
    """Raises ValueError unless `pieces`, read from a file, are what `export(first)` can give for `rows` rows.

    The native loops follow these arrays without looking, so nothing else may reach them.
    """
    n = pieces["flags"].size
    for name, array in pieces.items():
        expected = (np.uint8 if name == "flags" else np.int64, (n + 1 if name in ("step0", "row0") else n,))
        if (array.dtype, array.shape) != expected:
            raise ValueError(
                f"{name} is {array.dtype} {list(array.shape)}, not {np.dtype(expected[0])} {list(expected[1])}"
            )
    if not 0 <= first < 2**62 or n < 1:
        raise ValueError(f"{n} pieces from {first} on are not possible")
    step0, row0, link, back, flags = (pieces[name] for name in ("step0", "row0", "link", "back", "flags"))
    if min(step0[0], row0[0]) < 0 or max(step0[-1], row0[-1]) >= 2**62 or row0[-1] - row0[0] != rows:
        raise ValueError(f"pieces of rows {row0[0]} to {row0[-1]} do not fit the {rows} rows that are there")
    steps, own_rows = np.diff(step0), np.diff(row0)
    final = (flags & FINAL) != 0
    if (steps < 0).any() or (own_rows < 1).any() or (own_rows - steps != final).any() or (flags >= 8).any():
        raise ValueError("the steps and rows of a piece do not fit each other")
    if (back < NO_LINK).any() or (back >= first + np.arange(n)).any() or (link >= first + n).any():
        raise ValueError("a piece links to one that does not come before or after it")


class PrefixSum:
    """Lengths of episodes and their running sum, as in the documents: 64-bit, and exact after any eviction.

    `max_len` is the number of frames kept: whole episodes leave first-in-first-out when more are added. Episode numbers and
    frame numbers count from the oldest one kept.
    """

    def __init__(self, max_len: int) -> None:
        if max_len < 1:
            raise ValueError(f"max_len is {max_len}: keep at least one frame")
        self.max_len = max_len
        self._index = StepIndex()

    def add(self, val: int) -> None:
        """Adds an episode of `val` frames; the oldest leave until it fits."""
        if not 0 < val <= self.max_len:
            raise ValueError(
                f"an episode of {val} frames does not fit into max_len = {self.max_len}: give 1 to {self.max_len}"
            )
        index = self._index
        index.evict(index.piece_for(self.max_len - int(val)))
        length, nothing = np.array([val], np.int64), np.array([NO_LINK])
        index.append(length, length, nothing, nothing, np.array([STARTS], np.uint8))

    @property
    def prefix_sum(self) -> np.ndarray:
        """int64 [episodes + 1], beginning with 0: the first frame of each episode, and the number of frames."""
        index = self._index
        return index._step0[index.head - index._base : index.tail - index._base + 1] - index.head_step

    @property
    def ar(self) -> np.ndarray:
        """int64 [episodes]: their lengths."""
        return np.diff(self.prefix_sum)

    def get_range_idx(self, idx: Any) -> Any:
        """The episode of frame `idx`, a number or an array."""
        frames = np.atleast_1d(np.asarray(idx, np.int64))
        if len(frames) and (frames.min() < 0 or frames.max() >= len(self._index)):
            raise IndexError(f"frame {idx} of {len(self._index)}")
        pieces, _ = self._index.locate(frames + self._index.head_step)
        return pieces - self._index.head if np.ndim(idx) else int(pieces[0]) - self._index.head

    def get_range_relative_idx(self, idx: Any, range_idx: Any) -> Any:
        """Frame `idx` counted from the start of episode `range_idx`."""
        index = self._index
        starts = index._step0[np.asarray(range_idx) + index.head - index._base] - index.head_step
        relative = np.asarray(idx) - starts
        return relative if np.ndim(idx) else int(relative)

    def __len__(self) -> int:
        return self._index.tail - self._index.head
