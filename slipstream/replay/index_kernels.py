"""The native loops of the index. They read the tables of `StepIndex` and hold no lock."""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

from slipstream.storage.jit import native

BUCKET = 64  # steps per bucket: a search starts two reads away from its piece, whatever the size of the buffer

FINAL = 1  # the piece's last row is a final observation, not a step
STARTS = 2  # an episode begins with this piece
WITH_PREVIOUS = 4  # leaves together with the piece before it

_DONE = 1  # in the ring of end flags
_TERMINATED = 2


@native
def locate(steps, base, head, tail, step0, buckets, bucket_base, bucket_tail, pieces, offsets):  # pragma: no cover
    """Find the last piece that starts at or before each step, and the offset of the step in it."""
    # Three passes, each of reads that do not wait for one another: the first finds where to look, the last where it
    # begins.
    number = steps.shape[0]
    for i in range(number):
        bucket = steps[i] // BUCKET
        low, high = head, tail - 1
        if bucket >= bucket_base and bucket < bucket_tail:
            low = max(low, buckets[bucket - bucket_base])
        if bucket + 1 >= bucket_base and bucket + 1 < bucket_tail:
            high = min(high, buckets[bucket + 1 - bucket_base])
        pieces[i], offsets[i] = low, high
    for i in range(number):
        low, high, step = pieces[i], offsets[i], steps[i]
        while low < high:  # pieces without a step share their start with the next: the last one holds it
            middle = (low + high + 1) // 2
            if step0[middle - base] <= step:
                low = middle
            else:
                high = middle - 1
        pieces[i] = low
    for i in range(number):
        offsets[i] = steps[i] - step0[pieces[i] - base]


@native
def follow(
    pieces,
    offsets,
    limits,
    columns,
    ends,
    through,
    base,
    head,
    tail,
    step0,
    row0,
    link,
    back,
    flags,
    numbers,
    rows,
    following,
):  # pragma: no cover
    """Follow each episode for up to limits[i] steps and write them from column columns[i] on; limits[i] becomes their
    number.

    An episode reaches as far as its pieces do; without `through`, an end flag in them ends it too.
    """
    size = ends.shape[0]
    for i in range(pieces.shape[0]):
        at, offset = pieces[i] - base, offsets[i]
        n = 0
        goes_on = limits[i] > 0
        while goes_on:
            row = row0[at] + offset
            column = columns[i] + n
            numbers[i, column] = step0[at] + offset
            rows[i, column] = row
            n += 1
            if offset + 1 < step0[at + 1] - step0[at]:
                offset += 1
                after = row + 1
            else:
                beyond = link[at]
                goes_on = beyond >= 0
                if flags[at] & FINAL:
                    after = row + 1
                elif goes_on:
                    after = row0[beyond - base]
                elif beyond < -1:
                    after = beyond + 1  # -1 - stream
                else:
                    after = row  # an episode without observations: there is nothing to follow
                if goes_on:
                    at, offset = beyond - base, 0
                    goes_on = step0[at + 1] > step0[at]
            following[i, column] = after
            if n == limits[i] or (not through and ends[row % size] & _DONE):
                break
        limits[i] = n


@native
def single(
    pieces, offsets, ends, gamma, base, head, tail, step0, row0, link, back, flags, both, waiting, streams, discount
):  # pragma: no cover
    """For single steps, write both[:B], their rows, both[B:], the rows after them, and discounts; return how many have
    no row after them yet.

    Those are the steps `waiting`, whose next observation is the pending one of `streams`; both[B:] repeats their own
    row.
    """
    number, size, missing = pieces.shape[0], ends.shape[0], 0
    for i in range(number):
        at, offset = pieces[i] - base, offsets[i]
        row = row0[at] + offset
        if offset + 1 < step0[at + 1] - step0[at] or flags[at] & FINAL:
            after = row + 1
        elif link[at] >= 0:
            after = row0[link[at] - base]
        else:
            after = row
            if link[at] < -1:
                waiting[missing], streams[missing] = i, -2 - link[at]
                missing += 1
        both[i], both[number + i] = row, after
        discount[i] = 0.0 if ends[row % size] & _TERMINATED else gamma
    return missing


@native
def behind(pieces, offsets, ends, base, head, tail, step0, row0, link, back, flags, starts, counts):  # pragma: no cover
    """Go back in each episode for up to counts[i] steps; write where that leads and how many steps it was."""
    size = ends.shape[0]
    for i in range(pieces.shape[0]):
        piece, offset = pieces[i], offsets[i]
        starts[i] = step0[piece - base] + offset
        n = 0
        while n < counts[i]:
            if offset == 0:
                piece = back[piece - base]
                if piece < head:  # also -1: the episode began here
                    break
                offset = step0[piece + 1 - base] - step0[piece - base]
                if offset == 0:
                    break
            offset -= 1
            if ends[(row0[piece - base] + offset) % size] & _DONE:
                break
            n += 1
            starts[i] = step0[piece - base] + offset
        counts[i] = n


@native
def remaining(pieces, offsets, base, head, tail, step0, row0, link, back, flags, counts):  # pragma: no cover
    """Count the steps of each episode from this one on, including it."""
    for i in range(pieces.shape[0]):
        at = pieces[i] - base
        n = step0[at + 1] - step0[at] - offsets[i]
        while link[at] >= 0:
            at = link[at] - base
            n += step0[at + 1] - step0[at]
        counts[i] = n


@native
def ahead(pieces, offsets, distances, base, head, tail, step0, row0, link, back, flags, following):  # pragma: no cover
    """Find the row of the next observation of the step distances[i] later, which must exist."""
    for i in range(pieces.shape[0]):
        at, offset = pieces[i] - base, offsets[i] + distances[i]
        while offset >= step0[at + 1] - step0[at]:
            offset -= step0[at + 1] - step0[at]
            at = link[at] - base
        row = row0[at] + offset
        if offset + 1 < step0[at + 1] - step0[at] or flags[at] & FINAL:
            following[i] = row + 1
        elif link[at] >= 0:
            following[i] = row0[link[at] - base]
        elif link[at] < -1:
            following[i] = link[at] + 1
        else:
            following[i] = row
