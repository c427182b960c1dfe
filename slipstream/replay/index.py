"""Which rows belong to which episode: steps are numbered in order of arrival, episodes are chains of pieces.

A *piece* is a run of consecutive rows of one episode; an episode is one piece or several linked ones (a collector's
batch gives one piece per environment). Rows and steps are counted by 64-bit numbers that never decrease. A piece holds
its steps and, if the final observation of an ended or cut episode is known, one more row, which is not a step. So the
first step and the first row of every piece, both sorted, say where every step is; the link says in which piece the
episode continues.

Environments 0 and 1 give two batches of 3 frames each. The episode of environment 1 ends with its third step; the frame
after it only resets:

              first batch           second batch
    rows      0 1 2 | 3 4 5 |       6 7 8 | 9 | 10 11      row 9: the final observation, which is not a step
    steps     0 1 2 | 3 4 5 |       6 7 8 |   |  9 10
    pieces      0   |   1   |         2   | 3 |   4
    env         0   |   1   |         0   | 1 |   1
    link        2   |   3   |        -2   |-1 |  -3        -1: NO_LINK; -2 - e: continues in the next batch of env e
    pending rows: env 0, the observation after row 8; env 1, the one after row 11

The next observation of a step is the row after it in its piece, the first row of the linked piece, or the pending row
of its environment, which is stored outside of the rows until the next batch arrives.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

from typing import Any

import numpy as np

from slipstream.storage.jit import native
from slipstream.storage.tensor_file import Reader

STEP, ROW, LINK, BACK, FLAGS = range(5)  # columns of the table of pieces
NO_LINK = -1  # the episode ends here; -2 - e: it continues in env e, whose next piece has not come yet
FINAL = 1  # flag: the piece's last row is a final observation, not a step
STARTS = 2  # flag: an episode begins with this piece
WITH_PREVIOUS = 4  # flag: leaves together with the piece before it
DONE, TERMINATED = 1, 2  # bits of a row's end flags
_LARGEST = 2**62  # numbers of steps, rows and pieces stay below it
NO_ENDS = np.zeros(1, np.uint8)


def make_pieces(steps: Any, rows: Any, link: Any = NO_LINK, back: Any = NO_LINK, flags: Any = 0) -> np.ndarray:
    """Return a table for `StepIndex.append`, int64 [n, 5]: how many steps and rows each piece has, and the rest."""
    table = np.empty((len(steps), 5), np.int64)
    for column, values in enumerate((steps, rows, link, back, flags)):
        table[:, column] = values
    return table


class StepIndex:
    """Pieces [head, tail): O(1) amortised to add and evict; a step is searched from where it would be if all pieces
    were as long.

    It has no lock: the replay buffer holds its own around every call.
    """

    def __init__(self) -> None:
        self.head = 0  # oldest piece
        self.tail = 0  # one past the newest
        self._base = 0  # piece p is at p - base
        # Per piece: the steps and rows before it, the piece in which its episode continues, the piece it came from,
        # flags. One entry past the newest piece holds the total steps and rows.
        self._pieces = np.zeros((17, 5), np.int64)
        self._complete: tuple[tuple[int, int], np.ndarray] = ((0, 0), np.empty(0, np.int64))

    # counts

    @property
    def head_step(self) -> int:
        """The number of the oldest step."""
        return int(self._pieces[self.head - self._base, STEP])

    @property
    def tail_step(self) -> int:
        """The number the next step will get."""
        return int(self._pieces[self.tail - self._base, STEP])

    @property
    def head_row(self) -> int:
        """The oldest row."""
        return int(self._pieces[self.head - self._base, ROW])

    @property
    def tail_row(self) -> int:
        """The number the next row will get."""
        return int(self._pieces[self.tail - self._base, ROW])

    def __len__(self) -> int:
        return self.tail_step - self.head_step

    @property
    def nbytes(self) -> int:
        """Memory of the arrays."""
        return self._pieces.nbytes

    # adding and removing

    def append(self, pieces: np.ndarray) -> int:
        """Add pieces, as `make_pieces` returns them; return the number of the first. BACK >= 0 links that piece to this
        one."""
        n, first = len(pieces), self.tail
        # O(1) per piece: what is live moves to arrays twice its size
        if self.tail - self._base + n >= len(self._pieces):
            live = self._pieces[self.head - self._base : self.tail - self._base + 1]
            self._pieces, self._base = np.empty((max(16, 2 * (len(live) + n)), 5), np.int64), self.head
            self._pieces[: len(live)] = live
        at, table = self.tail - self._base, self._pieces
        table[at + 1 : at + n + 1, :LINK] = table[at, :LINK] + np.cumsum(pieces[:, :LINK], 0)
        table[at : at + n, LINK:] = pieces[:, LINK:]
        back = pieces[:, BACK]
        joined = np.flatnonzero(back >= self.head)
        table[back[joined] - self._base, LINK] = first + joined
        self.tail += n
        return first

    def head_for(self, steps: int) -> int:
        """Return the head that would leave at most `steps`; complete units leave, all of them if there is no room for
        one."""
        wanted = self.tail_step - steps
        if wanted <= self.head_step:
            return self.head
        if wanted >= self.tail_step:
            return self.tail
        at, offsets = _locate(*self._table, np.array([wanted]))
        return self.next_unit(self._base + int(at[0]) + (offsets[0] > 0))

    def head_keeping(self, steps: int) -> int:
        """Return the latest head that keeps the newest `steps` steps."""
        wanted = self.tail_step - steps
        if wanted <= self.head_step:  # also if there is none
            return self.head
        piece = self._base + int(_locate(*self._table, np.array([min(wanted, self.tail_step - 1)]))[0][0])
        while piece > self.head and self._pieces[piece - self._base, FLAGS] & WITH_PREVIOUS:
            piece -= 1
        return piece

    def next_unit(self, piece: int) -> int:
        """Return the first piece from `piece` on that may leave without the one before it."""
        while piece < self.tail and self._pieces[piece - self._base, FLAGS] & WITH_PREVIOUS:
            piece += 1
        return piece

    def evict(self, piece: int) -> None:
        """Forget everything before `piece`."""
        self.head = max(self.head, min(int(piece), self.tail))  # a plain number, as JSON needs it

    # searching

    def transitions(
        self, steps: np.ndarray, n_step: int, gamma: float, ends: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the rows [B, n_step] of `n_step` steps from each step on, -1 after the end of its episode; the rows of
        the next observations of the last ones [B]; and discounts [B], 0 after a termination."""
        _, rows, following, discounts = self.windows(steps, n_step, ends, gamma=gamma)
        if n_step == 1:
            return rows, following[:, 0], discounts
        return rows, following[np.arange(len(steps)), (rows >= 0).sum(1) - 1], discounts

    def windows(
        self, steps: np.ndarray, width: int, ends: np.ndarray = NO_ENDS, burn_in: int = 0, gamma: float = 1.0
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Return (step numbers, rows, rows of next observations), each [B, width], and discounts [B], of the episode of
        each step.

        Column `burn_in` is the step; where the episode has none, they are -1. With the ring of end flags `ends`, a step
        with an end is the last one. A row of a next observation below 0 is the pending one of env -1 - row.
        """
        numbers, rows, following = np.empty((3, len(steps), width), np.int64)
        discounts = np.empty(len(steps), np.float32)
        _windows(*self._table, steps, burn_in, ends, gamma, numbers, rows, following, discounts)
        return numbers, rows, following, discounts

    def rest_of_episode(self, steps: np.ndarray, whole: bool = False) -> tuple[np.ndarray, np.ndarray]:
        """Return (steps, counts): how many steps the episode has from each step on, as far as is known; with `whole`
        from its first step that is held on."""
        starts, counts = steps.copy(), np.empty(len(steps), np.int64)
        _rest_of_episode(*self._table, whole, starts, counts)
        return starts, counts

    def next_rows(self, steps: np.ndarray, distances: np.ndarray) -> np.ndarray:
        """Return the rows of the next observations of the steps `distances` later, which must exist; below 0 as in
        `windows`."""
        rows = np.empty(len(steps), np.int64)
        _next_rows(*self._table, steps, distances, rows)
        return rows

    def complete_episodes(self, ends: np.ndarray) -> np.ndarray:
        """Return the first steps of the episodes that have their beginning and are known to be over."""
        held = (self.head, self.tail)
        if self._complete[0] != held:
            table = self._pieces[self.head - self._base : self.tail - self._base + 1]
            begins = np.empty(len(table) - 1, bool)
            _complete_episodes(table, self.head, ends, np.empty(len(begins), bool), begins)
            self._complete = held, table[:-1][begins, STEP]
        return self._complete[1]

    @property
    def _table(self) -> tuple[np.ndarray, int, int, int]:
        """What the native loops take first."""
        return self._pieces, self._base, self.head, self.tail

    # saving and loading

    def export(self, first: int) -> np.ndarray:
        """Return a copy of the table from piece `first` on, int64 [n + 1, 5]; the last entry has the totals."""
        table = self._pieces[first - self._base : self.tail - self._base + 1].copy()
        table[-1, LINK:] = 0
        return table

    def restore(self, first: int, table: np.ndarray, rows: int, reader: Reader) -> None:
        """Add what `export(first)` returned to an empty index, or after the newest piece.

        The native loops follow the table without any check, so everything is checked here.

        Args:
            rows: how many rows the file holds.
        """
        if table.dtype != np.int64 or table.ndim != 2 or table.shape[1] != 5 or len(table) < 2:
            reader.fail(f"the index is {table.dtype} {list(table.shape)}, which is not a table of pieces")
        starts, n = table[:, :LINK], len(table) - 1
        if not 0 <= first < _LARGEST or starts.min() < 0 or starts.max() >= _LARGEST:
            reader.fail(f"the index has {n} pieces from {first} on, which is not possible")
        pieces, own = table[:-1].copy(), first + np.arange(n)
        pieces[:, :LINK] = np.diff(starts, axis=0)
        steps, own_rows, link, back, flags = pieces.T
        if (steps < 0).any() or (own_rows < 1).any() or (own_rows - steps != (flags & FINAL != 0)).any():
            reader.fail("the steps and rows of a piece do not agree")
        if starts[-1, ROW] - starts[0, ROW] != rows or ((flags < 0) | (flags >= 8)).any():
            reader.fail(f"the index has {starts[-1, ROW] - starts[0, ROW]} rows, the file {rows}")
        if (back < NO_LINK).any() or (back >= own).any() or (link >= first + n).any():
            reader.fail("a piece is linked to one that is not before or after it")
        if self.head == self.tail:
            self.head = self.tail = self._base = first
            self._pieces[0, :LINK] = starts[0]
        if (first, *starts[0]) != (self.tail, self.tail_step, self.tail_row):
            reader.fail(f"the pieces from {first} on do not follow the ones before, up to {self.tail}")
        self.append(pieces)

    def check_links(self, last_pieces: np.ndarray, reader: Reader) -> None:
        """Check, after loading, that every link leads to a later piece that leads back, or to an env whose last piece
        this is."""
        count = self.tail - self._base
        link, back = self._pieces[:count, LINK], self._pieces[:count, BACK]
        joined = np.flatnonzero(link >= 0)
        later = link[joined] - self._base
        if (later <= joined).any() or (later >= count).any() or (back[later] - self._base != joined).any():
            reader.fail("the pieces of an episode are not linked in order")
        envs = np.flatnonzero(last_pieces >= self._base)
        if ((last_pieces < -1) | (last_pieces >= self.tail)).any():
            reader.fail("an environment continues a piece that does not exist")
        if (link[last_pieces[envs] - self._base] != -2 - envs).any() or (link < -1 - len(last_pieces)).any():
            reader.fail("a piece and the environment in which it continues do not agree")


# --- native loops. `at` is a place in the table of pieces: a piece less `base`.


@native
def _locate(pieces, base, head, tail, steps):  # pragma: no cover
    """Return the place of the last piece that starts at or before each step, and the offset of the step in it."""
    found, offsets = np.empty(steps.shape[0], np.int64), np.empty(steps.shape[0], np.int64)
    first, last = head - base, tail - base - 1
    begin, total = pieces[first, STEP], pieces[last + 1, STEP] - pieces[first, STEP]
    density = (last + 1 - first) / max(total, 1)
    for i in range(steps.shape[0]):
        step = steps[i]
        # begin where the piece is if all are as long, and again from there; double the distance until it is between
        # `low` and `high`
        at = min(max(first + np.int64((step - begin) * density), first), last)
        for _ in range(2):
            at = min(max(at + np.int64((step - pieces[at, STEP]) * density), first), last)
        low, high, width = at, at, 1
        while low > first and pieces[low, STEP] > step:
            low, high, width = max(first, low - width), low, 2 * width
        while high < last and pieces[high + 1, STEP] <= step:
            low, high, width = high, min(last, high + width), 2 * width
        while low < high:  # pieces without a step share their start with the next: the last one holds it
            middle = (low + high + 1) // 2
            if pieces[middle, STEP] <= step:
                low = middle
            else:
                high = middle - 1
        found[i], offsets[i] = low, step - pieces[low, STEP]
    return found, offsets


@native
def _next_row(pieces, base, at, offset):  # pragma: no cover
    """Return the row of the next observation of a step; -1 - env if it is pending."""
    row = pieces[at, ROW] + offset
    if offset + 1 < pieces[at + 1, STEP] - pieces[at, STEP] or pieces[at, FLAGS] & FINAL:
        return row + 1
    link = pieces[at, LINK]
    if link >= 0:
        return pieces[link - base, ROW]
    return link + 1 if link < NO_LINK else row  # in an episode without observations there is nothing to follow


@native
def _next_piece(pieces, base, at):  # pragma: no cover
    """Return the place in which the episode continues with a step; -1 if there is none."""
    link = pieces[at, LINK]
    return link - base if link >= 0 and pieces[link - base + 1, STEP] > pieces[link - base, STEP] else -1


@native
def _back(pieces, base, head, at, offset, most, ends):  # pragma: no cover
    """Go back up to `most` steps in the episode; return (place, offset, how many steps that was)."""
    for n in range(most):
        before, inside = at, offset - 1
        if offset == 0:
            before = pieces[at, BACK] - base
            if pieces[at, BACK] < head:  # also -1: the episode began here
                return at, offset, n
            inside = pieces[before + 1, STEP] - pieces[before, STEP] - 1
        if inside < 0 or ends[(pieces[before, ROW] + inside) % ends.shape[0]] & DONE:
            return at, offset, n
        at, offset = before, inside
    return at, offset, most


@native
# pragma: no cover
def _windows(pieces, base, head, tail, steps, burn_in, ends, gamma, numbers, rows, following, discounts):
    """See `StepIndex.windows`."""
    found, offsets = _locate(pieces, base, head, tail, steps)
    for i in range(steps.shape[0]):
        at, offset, before = _back(pieces, base, head, found[i], offsets[i], burn_in, ends)
        numbers[i], rows[i], following[i], discount = -1, -1, -1, 1.0
        for column in range(burn_in - before, rows.shape[1]):
            row = pieces[at, ROW] + offset
            numbers[i, column] = pieces[at, STEP] + offset
            rows[i, column] = row
            following[i, column] = _next_row(pieces, base, at, offset)
            end = ends[row % ends.shape[0]]
            discount *= gamma
            offset += 1
            if offset == pieces[at + 1, STEP] - pieces[at, STEP]:
                at, offset = _next_piece(pieces, base, at), 0
            if at < 0 or end & DONE:
                break
        discounts[i] = 0.0 if end & TERMINATED else discount


@native
def _rest_of_episode(pieces, base, head, tail, whole, steps, counts):  # pragma: no cover
    """See `StepIndex.rest_of_episode`; overwrites `steps`."""
    found, offsets = _locate(pieces, base, head, tail, steps)
    for i in range(steps.shape[0]):
        at, offset, _ = _back(pieces, base, head, found[i], offsets[i], _LARGEST if whole else 0, NO_ENDS)
        steps[i] = pieces[at, STEP] + offset
        n = pieces[at + 1, STEP] - pieces[at, STEP] - offset
        while pieces[at, LINK] >= 0:
            at = pieces[at, LINK] - base
            n += pieces[at + 1, STEP] - pieces[at, STEP]
        counts[i] = n


@native
def _next_rows(pieces, base, head, tail, steps, distances, rows):  # pragma: no cover
    """Find the row of the next observation of the step distances[i] later, which must exist."""
    found, offsets = _locate(pieces, base, head, tail, steps)
    for i in range(steps.shape[0]):
        at, offset = found[i], offsets[i] + distances[i]
        while offset >= pieces[at + 1, STEP] - pieces[at, STEP]:
            offset -= pieces[at + 1, STEP] - pieces[at, STEP]
            at = pieces[at, LINK] - base
        rows[i] = _next_row(pieces, base, at, offset)


@native
def _complete_episodes(pieces, base, ends, over, begins):  # pragma: no cover
    """Write which pieces begin complete episodes: their last step is an end, or has a final row, or nothing follows."""
    for at in range(over.shape[0] - 1, -1, -1):  # links lead to later pieces
        link, steps = pieces[at, LINK], pieces[at + 1, STEP] - pieces[at, STEP]
        if link >= 0:
            over[at] = over[link - base]
        else:
            done = ends[(pieces[at, ROW] + steps - 1) % ends.shape[0]] & DONE  # without steps it is a final row
            over[at] = link == NO_LINK or pieces[at, FLAGS] & FINAL != 0 or done != 0
        begins[at] = over[at] and steps > 0 and pieces[at, FLAGS] & STARTS != 0
