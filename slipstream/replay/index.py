"""Which rows belong to which episode: steps are numbered in order of arrival, episodes are chains of pieces.

A *piece* is a run of consecutive rows of one episode; an episode is one piece or several linked ones (a collector's
batch gives one piece per environment). Rows and steps are counted by 64-bit numbers that never decrease. A piece holds
its steps and, if the final observation of an ended or cut episode is known, one more row, which is not a step. So
`row0` and `step0`, both sorted, say where every step is; `link` says in which piece the episode continues.

Two environments, streams 0 and 1, give two batches of 3 frames each. The episode of stream 1 ends with its third step;
the frame after it only resets:

              first batch           second batch
    rows      0 1 2 | 3 4 5 |       6 7 8 | 9 | 10 11      row 9: the final observation, which is not a step
    steps     0 1 2 | 3 4 5 |       6 7 8 |   |  9 10
    pieces      0   |   1   |         2   | 3 |   4
    stream      0   |   1   |         0   | 1 |   1
    link        2   |   3   |        -2   |-1 |  -3        -1: NO_LINK; -2 - s: continues in the next batch of stream s
    pending rows: stream 0, the observation after row 8; stream 1, the one after row 11

The next observation of a step is the row after it in its piece, the first row of the linked piece, or the pending row
of its stream, which is stored outside of the rows until the next batch arrives.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from slipstream.replay import index_kernels
from slipstream.replay.index_kernels import BUCKET, FINAL, STARTS, WITH_PREVIOUS
from slipstream.storage.reader import Reader

__all__ = ["FINAL", "NO_LINK", "STARTS", "WITH_PREVIOUS", "CompleteEpisodes", "PrefixSum", "StepIndex"]

kernels: Any = index_kernels  # a type checker cannot see through numba

NO_LINK = -1  # the episode ends here; -2 - s: it continues in stream s, whose next piece has not come yet
_MOST = 2**62  # numbers of steps, rows and pieces stay below it


class StepIndex:
    """Pieces [head, tail): O(1) amortised to add and evict, O(log) of the pieces of a bucket to find a step.

    It has no lock: the replay buffer holds its own around every call.
    """

    def __init__(self) -> None:
        self.head = 0  # oldest piece
        self.tail = 0  # one past the newest
        self._base = 0  # piece p is at p - base
        # Steps and rows before the piece, side by side, so that a search finds both with one cache miss. One entry past
        # the newest piece holds the totals.
        self._starts = np.zeros((17, 2), np.int64)
        self._step0, self._row0 = self._starts[:, 0], self._starts[:, 1]
        self._link = np.empty(16, np.int64)  # the piece in which the episode continues
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
        """Add pieces with so many steps and rows; return the number of the first. `back` >= 0 links that piece to this
        one."""
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

    def lengthen(self, steps: int, rows: int, flags: int, link: int) -> None:
        """Extend the newest piece, whose stream is the only one that writes."""
        at = self.tail - self._base
        self._step0[at] += steps
        self._row0[at] += rows
        self._flags[at - 1] |= flags
        self._link[at - 1] = link
        self._fill_buckets(self.tail - 1)

    def piece_for(self, steps: int) -> int:
        """Return the head that would leave at most `steps`; complete units leave, all of them if there is no room for
        one."""
        wanted = self.tail_step - steps
        if wanted <= self.head_step:
            return self.head
        if wanted >= self.tail_step:
            return self.tail
        pieces, offsets = self.locate(np.array([wanted]))
        return self.unit_from(int(pieces[0]) + (offsets[0] > 0))

    def piece_keeping(self, steps: int) -> int:
        """Return the latest head that keeps the newest `steps` steps."""
        wanted = self.tail_step - steps
        if wanted <= self.head_step:  # also if there is none
            return self.head
        piece = int(self.locate(np.array([min(wanted, self.tail_step - 1)]))[0][0])
        while piece > self.head and self._flags[piece - self._base] & WITH_PREVIOUS:
            piece -= 1
        return piece

    def unit_from(self, piece: int) -> int:
        """Return the first piece from `piece` on that may leave without the one before it."""
        while piece < self.tail and self._flags[piece - self._base] & WITH_PREVIOUS:
            piece += 1
        return piece

    def piece_steps(self, piece: int) -> int:
        """Return how many steps a piece holds."""
        return int(self._step0[piece + 1 - self._base] - self._step0[piece - self._base])

    def evict(self, piece: int) -> None:
        """Forget everything before `piece`."""
        self.head = max(self.head, min(int(piece), self.tail))  # a plain number, as JSON needs it

    # searching

    def tables(self) -> tuple[Any, ...]:
        """Return the arrays that the native loops read."""
        return self._base, self.head, self.tail, self._step0, self._row0, self._link, self._back, self._flags

    def locate(self, steps: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return (pieces, offsets within them) of `steps`, int64 [B], which must be in [head_step, tail_step)."""
        pieces, offsets = np.empty(len(steps), np.int64), np.empty(len(steps), np.int64)
        buckets = (self._buckets, self._bucket_base, self._bucket_tail)
        kernels.locate(steps, self._base, self.head, self.tail, self._step0, *buckets, pieces, offsets)
        return pieces, offsets

    def rows_of(self, steps: np.ndarray) -> np.ndarray:
        """Return the row of each step."""
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
        """Return (step numbers, rows, following rows), each [B, width]: up to `limits` steps of the episode of each
        step.

        They are written from column `columns` on and are -1 where there is no step. `limits` becomes the number of
        steps. `ends` is the ring of end flags. A following row below 0 is the pending observation of stream -1 - row.
        """
        pieces, offsets = self.locate(steps)
        numbers, rows, following = (np.full((len(steps), width), -1, np.int64) for _ in range(3))
        kernels.follow(pieces, offsets, limits, columns, ends, through, *self.tables(), numbers, rows, following)
        return numbers, rows, following

    def single(
        self, steps: np.ndarray, ends: np.ndarray, gamma: float
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Return (rows of the steps and then of their next observations [2 B], discounts [B], waiting, streams).

        The next observations of the steps `waiting` are the pending ones of `streams`; their own row stands in for it.
        """
        pieces, offsets = self.locate(steps)
        number = len(steps)
        both, discount = np.empty(2 * number, np.int64), np.empty(number, np.float32)
        waiting, streams = np.empty(number, np.int64), np.empty(number, np.int64)
        missing = kernels.single(pieces, offsets, ends, gamma, *self.tables(), both, waiting, streams, discount)
        return both, discount, waiting[:missing], streams[:missing]

    def behind(self, steps: np.ndarray, length: int, ends: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return (steps, counts): up to `length` steps back in the same episode, and how many that were."""
        pieces, offsets = self.locate(steps)
        starts, counts = np.empty(len(steps), np.int64), np.full(len(steps), length)
        kernels.behind(pieces, offsets, ends, *self.tables(), starts, counts)
        return starts, counts

    def before(self, steps: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return (the first step of the same episode that is held, how many are between)."""
        return self.behind(steps, _MOST, np.zeros(1, np.uint8))

    def remaining(self, steps: np.ndarray) -> np.ndarray:
        """Return how many steps the episode has from each step on, including it, as far as is known."""
        pieces, offsets = self.locate(steps)
        counts = np.empty(len(steps), np.int64)
        kernels.remaining(pieces, offsets, *self.tables(), counts)
        return counts

    def ahead(self, steps: np.ndarray, distances: np.ndarray) -> np.ndarray:
        """Return the rows of the next observations of the steps `distances` later, which must exist; below 0 as in
        `follow`."""
        pieces, offsets = self.locate(steps)
        following = np.empty(len(steps), np.int64)
        kernels.ahead(pieces, offsets, distances, *self.tables(), following)
        return following

    def first_steps(self, pieces: np.ndarray) -> np.ndarray:
        """Return the number of each piece's first step."""
        return self._step0[pieces - self._base]

    # saving and loading

    def export(self, first: int) -> dict[str, np.ndarray]:
        """Return copies of the arrays of the pieces from `first` on."""
        lo, hi = first - self._base, self.tail - self._base
        arrays: dict[str, np.ndarray] = {"step0": self._step0[lo : hi + 1], "row0": self._row0[lo : hi + 1]}
        arrays |= {"link": self._link[lo:hi], "back": self._back[lo:hi], "flags": self._flags[lo:hi]}
        return {name: array.copy() for name, array in arrays.items()}

    def restore(self, first: int, pieces: dict[str, np.ndarray], rows: int, reader: Reader) -> None:
        """Add what `export(first)` returned to an empty index, or after the newest piece.

        The native loops follow these arrays without any check, so everything is checked here.

        Args:
            rows: how many rows the file holds.
        """
        step0, row0, link, back, flags = (pieces[name] for name in ("step0", "row0", "link", "back", "flags"))
        n = flags.size
        for name, array in pieces.items():
            expected = (np.uint8 if name == "flags" else np.int64, (n + (name in ("step0", "row0")),))
            if (array.dtype, array.shape) != expected:
                reader.fail(f"the array {name!r} of the index is {array.dtype} {list(array.shape)}")
        if n < 1 or not 0 <= first < _MOST or min(step0[0], row0[0]) < 0 or max(step0[-1], row0[-1]) >= _MOST:
            reader.fail(f"the index has {n} pieces from {first} on, which is not possible")
        steps, own_rows, own = np.diff(step0), np.diff(row0), first + np.arange(n)
        if (steps < 0).any() or (own_rows < 1).any() or (own_rows - steps != (flags & FINAL != 0)).any():
            reader.fail("the steps and rows of a piece do not agree")
        if row0[-1] - row0[0] != rows or (flags >= 8).any():
            reader.fail(f"the index has {row0[-1] - row0[0]} rows, the file {rows}")
        if (back < NO_LINK).any() or (back >= own).any() or (link >= first + n).any():
            reader.fail("a piece is linked to one that is not before or after it")
        if self.head == self.tail:
            self.head = self.tail = self._base = first
            self._step0[0], self._row0[0] = step0[0], row0[0]
            self._bucket_base = self._bucket_tail = -(-int(step0[0]) // BUCKET)
        if (first, step0[0], row0[0]) != (self.tail, self.tail_step, self.tail_row):
            reader.fail(f"the pieces from {first} on do not follow the ones before, up to {self.tail}")
        self.append(steps, own_rows, back, link, flags)

    def check_links(self, streams: int, reader: Reader) -> None:
        """Check, after loading, that every link leads to a later piece that leads back, or to one of `streams`
        streams."""
        count = self.tail - self._base
        link, back = self._link[:count], self._back[:count]
        joined = np.flatnonzero(link >= 0)
        later = link[joined] - self._base
        if (later <= joined).any() or (later >= count).any() or (back[later] - self._base != joined).any():
            reader.fail("the pieces of an episode are not linked in order")
        if (link < -1 - streams).any():
            reader.fail("a piece continues in a stream that does not exist")

    def have_steps(self, pieces: np.ndarray) -> np.ndarray:
        """Return bool [n]: which of these pieces, all in [head, tail), have any step."""
        return self._step0[pieces + 1 - self._base] > self._step0[pieces - self._base]

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
        """Write down the piece of every BUCKET-th step that has come since."""
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


class CompleteEpisodes:
    """First pieces of the episodes that ended, in the order in which they ended. Evicted ones are dropped when they are
    met."""

    def __init__(self) -> None:
        self._first = np.empty(16, np.int64)
        self._size = 0

    def add(self, pieces: Sequence[int] | np.ndarray, head: int) -> None:
        """Add episodes by their first pieces; pieces before `head` are evicted."""
        if self._size + len(pieces) > len(self._first):
            self._sweep(head)
        if 2 * (self._size + len(pieces)) > len(self._first):
            larger = np.empty(2 * (self._size + len(pieces)), np.int64)
            larger[: self._size] = self._first[: self._size]
            self._first = larger
        self._first[self._size : self._size + len(pieces)] = pieces
        self._size += len(pieces)

    def draw(self, number: int, head: int, rng: np.random.Generator) -> np.ndarray:
        """Return the first pieces of `number` episodes, each drawn with the same probability."""
        chosen = np.empty(number, np.int64)
        filled = 0
        while filled < number:
            if self._size == 0:
                raise ValueError("there is no complete episode in the buffer yet")
            drawn = self._first[rng.integers(0, self._size, number - filled)]
            there = drawn[drawn >= head]
            chosen[filled : filled + len(there)] = there
            filled += len(there)
            if 2 * len(there) < len(drawn):  # many are evicted: drop them
                self._sweep(head)
        return chosen

    def export(self, head: int) -> np.ndarray:
        """Return the first pieces."""
        self._sweep(head)
        return self._first[: self._size].copy()

    def restore(self, first: np.ndarray, index: StepIndex, reader: Reader) -> None:
        """Take what `export` returned: pieces of `index` that have steps."""
        if first.dtype != np.int64 or first.ndim != 1 or ((first < index.head) | (first >= index.tail)).any():
            reader.fail("the list of complete episodes names a piece that does not exist")
        if not index.have_steps(first).all():
            reader.fail("the list of complete episodes names a piece without steps")
        self._first, self._size = np.array(first, np.int64), len(first)

    def _sweep(self, head: int) -> None:
        kept = self._first[: self._size]
        kept = kept[kept >= head]
        self._first[: len(kept)] = kept
        self._size = len(kept)


class PrefixSum:
    """The lengths of episodes and their running sum: 64-bit, and exact after any eviction.

    Episode numbers and frame numbers count from the oldest episode kept.

    Args:
        max_len: frames that are kept; the oldest episodes leave when more are added.
    """

    def __init__(self, max_len: int) -> None:
        if max_len < 1:
            raise ValueError(f"max_len={max_len}: keep at least one frame")
        self.max_len = max_len
        self._index = StepIndex()

    def add(self, val: int) -> None:
        """Add an episode of `val` frames; the oldest leave until it fits."""
        if not 0 < val <= self.max_len:
            raise ValueError(
                f"an episode of {val} frames does not fit into max_len={self.max_len}: give 1 to {self.max_len}"
            )
        index = self._index
        index.evict(index.piece_for(self.max_len - int(val)))
        length, nothing = np.array([val], np.int64), np.array([NO_LINK])
        index.append(length, length, nothing, nothing, np.array([STARTS], np.uint8))

    @property
    def prefix_sum(self) -> np.ndarray:
        """int64 [episodes + 1], from 0: the first frame of each episode, and the number of frames."""
        index = self._index
        return index.first_steps(np.arange(index.head, index.tail + 1)) - index.head_step

    @property
    def ar(self) -> np.ndarray:
        """int64 [episodes]: their lengths."""
        return np.diff(self.prefix_sum)

    def get_range_idx(self, idx: Any) -> Any:
        """Return the episode of frame `idx`, a number or an array."""
        frames = np.atleast_1d(np.asarray(idx, np.int64))
        if len(frames) and (frames.min() < 0 or frames.max() >= len(self._index)):
            raise IndexError(f"frame {idx} of {len(self._index)}")
        pieces, _ = self._index.locate(frames + self._index.head_step)
        return pieces - self._index.head if np.ndim(idx) else int(pieces[0]) - self._index.head

    def get_range_relative_idx(self, idx: Any, range_idx: Any) -> Any:
        """Return frame `idx` counted from the start of episode `range_idx`."""
        index = self._index
        relative = np.asarray(idx) - (index.first_steps(np.asarray(range_idx) + index.head) - index.head_step)
        return relative if np.ndim(idx) else int(relative)

    def __len__(self) -> int:
        return self._index.tail - self._index.head
