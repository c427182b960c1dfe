"""Native code for groups, blocks and batches, made of the steps in kernels.py.

A batch is decoded by numba's threads, which are torch's own with OpenMP; see `team_size`.
"""

# mypy: ignore-errors
from __future__ import annotations

import hashlib
import os
from functools import cache
from pathlib import Path

import numba as nb
import numpy as np
import torch

from slipstream.storage.codec import kernels, registry
from slipstream.storage.codec.kernels import inner, load8, load32, load64, memcpy, memset, store8, store32, store64
from slipstream.storage.codec.registry import DELTA, HEADER_BYTES, IN_FILE, LZ4, MASK, PALETTE, RAW_GROUP

OK, OUTSIDE, DAMAGED, UNREADABLE = range(4)  # status of a kernel

_PALETTE_SCRATCH = 8 * (2 * kernels.HASH_SLOTS + 256)  # larger than the table of bytes, 16 KiB
_PALETTE_MOST = 1 + 256 * 8


@inner
def plain_bytes(frames, frame_bytes, width):
    """Return the most bytes that a group's steps before LZ4 can write."""
    return _PALETTE_MOST + frames * (frame_bytes + frame_bytes // (8 * width) + 32)


@inner
def steps_bytes(frames, frame_bytes, width):
    """Return the scratch memory for the steps of encoding or decoding one group."""
    return _PALETTE_SCRATCH + 2 * plain_bytes(frames, frame_bytes, width) + frame_bytes + 64


def scratch_bytes(frames: int, frame_bytes: int, width: int) -> int:
    """Return the scratch memory for one group: for its steps, and for a group that is read from a file."""
    return (steps_bytes(frames, frame_bytes, width) + frames * frame_bytes + registry.SPARE + 63) // 64 * 64


@inner
def encode_group(source, frames, frame_bytes, width, codec, level, state, target, scratch):
    """Encode `frames` frames into `target`; return the bytes written, or -1 if that is not smaller."""
    raw = frames * frame_bytes
    plain = scratch + _PALETTE_SCRATCH
    other = plain + plain_bytes(frames, frame_bytes, width)
    count = frame_bytes // width
    head, size, word = 0, frame_bytes, width
    current = source
    if codec & PALETTE:
        values = kernels.palette_find(source, frames * count, width, 256, scratch)
        if values == 0:
            return -1
        store8(plain, values - 1)
        for i in range(values):
            memcpy(plain + 1 + i * width, scratch + 8 * (2 * kernels.HASH_SLOTS + i), width)
        head = 1 + values * width
        bits = kernels.palette_bits(values)
        size, word = kernels.packed_bytes(count, bits), 4
        for j in range(frames):
            kernels.palette_pack(other + j * size, source + j * frame_bytes, count, width, bits, scratch)
        current = other
    if codec & DELTA and frames > 1:
        if current == source:
            memcpy(other, source, raw)
            current = other
        for j in range(frames - 1, 0, -1):
            kernels.xor(current + j * size, current + (j - 1) * size, size)
    length = head
    if codec & MASK:
        for j in range(frames):
            length += kernels.mask_encode(plain + length, current + j * size, size // word, word)
    elif current == source:
        plain, length = source, raw
    else:
        memcpy(plain + head, current, frames * size)
        length += frames * size
    if codec & LZ4:
        if level < 0:
            coded = kernels.lz4_compress_fast(plain, target, length, raw - 1, 1)
        else:
            kernels.lz4_favor_opening(state, 1)  # matters from level 10 on; a failed group resets it
            coded = kernels.lz4_compress_hc(state, plain, target, length, raw - 1, level)
        return coded if coded > 0 else -1
    if length >= raw:
        return -1
    memcpy(target, plain, length)
    return length


@inner
def decode_requests(payload, length, codec, frames, frame_bytes, width, first, rows, targets, begin, end, out, scratch):
    """Decode a group for the requests [begin, end), sorted by row: row rows[i] to frame targets[i] of `out`.

    Frame j of the group is row `first` + j.
    """
    count = frame_bytes // width
    last = rows[end - 1] - first
    plain, available = payload, length
    room = plain_bytes(frames, frame_bytes, width)
    if codec & LZ4:
        if codec == LZ4 and frames == 1:
            target = out + targets[begin] * frame_bytes
            if kernels.lz4_decompress(payload, target, length, frame_bytes) != frame_bytes:
                return DAMAGED
            for i in range(begin + 1, end):
                memcpy(out + targets[i] * frame_bytes, target, frame_bytes)
            return OK
        plain = scratch + _PALETTE_SCRATCH
        if codec & (PALETTE | MASK) == 0 and last + 1 < frames:  # the size is known: stop behind the last one asked for
            want = (last + 1) * frame_bytes
            available = kernels.lz4_decompress_partial(payload, plain, length, want, room)
        else:
            available = kernels.lz4_decompress(payload, plain, length, room)
        if available < 0:
            return DAMAGED
    size, word, head, bits, values = frame_bytes, width, 0, 8, 0
    current = scratch + _PALETTE_SCRATCH + 2 * room
    has_table = False
    if codec & PALETTE:
        if available < 1:
            return DAMAGED
        values = load8(plain) + 1
        bits = kernels.palette_bits(values)
        head = 1 + values * width
        size, word = kernels.packed_bytes(count, bits), 4
        if head > available:
            return DAMAGED
        has_table = count * (end - begin) >= kernels.TABLE_FROM
        if has_table:
            kernels.palette_table(scratch, plain + 1, values, bits, width)
    at, limit = plain + head, plain + available
    words = size // word
    i = begin
    for j in range(last + 1):
        is_wanted = rows[i] - first == j
        following = at + size
        if codec & MASK:
            bitmap = (words + 7) >> 3
            if at + bitmap > limit:
                return DAMAGED
            following = at + bitmap + kernels.mask_count(at, words) * word
        if following > limit:
            return DAMAGED
        target = out + targets[i] * frame_bytes
        packed = at
        if codec & DELTA:
            packed = current
            if j == 0:
                memset(current, 0, size)
            if codec & MASK:
                kernels.mask_apply(current, at, words, word)
            else:
                kernels.xor(current, at, size)
        elif is_wanted and codec & MASK:
            packed = current if codec & PALETTE else target
            kernels.mask_decode(packed, at, words, word)
        at = following
        if not is_wanted:
            continue
        if codec & PALETTE:
            kernels.palette_unpack(target, packed, count, width, bits, plain + 1, values, scratch, has_table)
        elif packed != target:
            memcpy(target, packed, frame_bytes)
        i += 1
        while i < end and rows[i] - first == j:
            memcpy(out + targets[i] * frame_bytes, target, frame_bytes)
            i += 1
    return OK


@inner
def warm(table, first_block, block_rows, frame_bytes, rows, begin, stop, low, high, lines):
    """Prefetch all that the requests will read: their groups are far apart, and one miss takes as long as decoding a
    small one."""
    for step in range(2):  # the tables of groups, then the groups
        for i in range(begin, stop):
            row = rows[i]
            if row < low or row >= high:
                return
            number = row // block_rows
            inside = row - number * block_rows
            block = table[number - first_block]
            if load8(block + registry.AT_CODEC) == registry.OPEN:
                at = block + HEADER_BYTES + inside * frame_bytes
            else:
                group, held = load32(block + registry.AT_GROUP), load32(block + registry.AT_ROWS)
                entry = block + HEADER_BYTES + 8 * (inside // group)
                if step == 0:
                    kernels.prefetch(entry)
                    continue
                if load8(block + registry.AT_FLAGS) & IN_FILE:
                    continue
                groups = (held + group - 1) // group
                at = block + HEADER_BYTES + 8 * groups + (load32(entry) & (RAW_GROUP - 1))
            if step == 1:
                # a fixed number of lines: guessing how many each needs costs more; behind them the processor sees the
                # pattern
                for k in range(lines):
                    kernels.prefetch(at + 64 * k)


@nb.njit(nogil=True, forceinline=True, error_model="numpy")  # a call would cost 7 % of gathering small raw frames
def decode_group(block, row, inside, frame_bytes, verify, rows, targets, begin, stop, out, scratch):
    """Decode the group of request `begin` for all requests of it that follow; return the first request after them, or
    -DAMAGED or -UNREADABLE. Row `row` is row `inside` of the block."""
    group, held = load32(block + registry.AT_GROUP), load32(block + registry.AT_ROWS)
    coded = load32(block + registry.AT_CODED)
    g, groups = inside // group, (held + group - 1) // group
    frames = min(group, held - g * group)
    first = row - inside + g * group
    end = begin + 1
    while end < stop and row <= rows[end] < first + frames:
        end += 1
    entry = block + HEADER_BYTES + 8 * g
    place, expected = load32(entry) & (RAW_GROUP - 1), load32(entry + 4)
    until = coded if g + 1 == groups else load32(entry + 8) & (RAW_GROUP - 1)
    payload = block + HEADER_BYTES + 8 * groups + place
    length = until - place
    if length < 0 or until > coded or inside >= held:
        return -DAMAGED
    is_raw = load32(entry) & RAW_GROUP
    if is_raw and length != frames * frame_bytes:
        return -DAMAGED
    if load8(block + registry.AT_FLAGS) & IN_FILE:
        if length > frames * frame_bytes:
            return -DAMAGED
        source = block + HEADER_BYTES + 8 * groups
        payload = scratch + steps_bytes(group, frame_bytes, load8(block + registry.AT_WIDTH))
        if not kernels.read_at(load64(source), payload, length, load64(source + 8) + place):
            return -UNREADABLE
        store64(payload + length, 0)
    if verify and kernels.checksum(payload, length) != expected:
        return -DAMAGED
    if is_raw:
        for i in range(begin, end):
            memcpy(out + targets[i] * frame_bytes, payload + (rows[i] - first) * frame_bytes, frame_bytes)
        return end
    codec, width = load8(block + registry.AT_CODEC), load8(block + registry.AT_WIDTH)
    status = decode_requests(
        payload, length, codec, frames, frame_bytes, width, first, rows, targets, begin, end, out, scratch
    )
    return end if status == OK else -DAMAGED


@inner
def gather_part(
    table, first_block, block_rows, low, high, rows, targets, begin, stop, frame_bytes, verify, out, scratch
):
    """Decode the requests [begin, stop); return 0, or 4 * the number of the request that failed + its status."""
    lines = min(16, max(4, frame_bytes >> 8))
    i = begin
    while i < stop:
        if (i - begin) % 16 == 0:
            warm(table, first_block, block_rows, frame_bytes, rows, i, min(i + 16, stop), low, high, lines)
        row = rows[i]
        following = -OUTSIDE
        if low <= row < high:
            number = row // block_rows
            inside = row - number * block_rows
            block = table[number - first_block]
            if load8(block + registry.AT_CODEC) == registry.OPEN:
                memcpy(out + targets[i] * frame_bytes, block + HEADER_BYTES + inside * frame_bytes, frame_bytes)
                following = i + 1
            else:
                following = decode_group(block, row, inside, frame_bytes, verify, rows, targets, i, stop, out, scratch)
        if following < 0:
            return 4 * i - following
        i = following
    return 0


def _entries(stamp):
    """Return the kernels that Python calls; `stamp` is a number that changes with their source.

    Numba looks only at the file of the function it has kept on disk, not at the functions it calls; a kernel that
    closes over this number is compiled again when any of them changes.

    They are compiled here and now, by whoever imports this, not in a background thread at their first call: a process
    that forks while numba compiles leaves its child a lock that nobody opens.
    """
    word, words = nb.int64, nb.int64[::1]

    @nb.njit(word(*[word] * 10), nogil=True, cache=True, error_model="numpy")
    def encode_block(source, rows, group, frame_bytes, width, codec, level, state, block, scratch):
        """Write table and groups of a block of `rows` frames at `block`, after the header; return the bytes of the
        groups."""
        if stamp < 0:
            return -1
        groups = (rows + group - 1) // group
        payload = block + HEADER_BYTES + 8 * groups
        place = 0
        for g in range(groups):
            frames = min(group, rows - g * group)
            begin = source + g * group * frame_bytes
            coded, flag = -1, 0
            if codec != 0:
                coded = encode_group(begin, frames, frame_bytes, width, codec, level, state, payload + place, scratch)
            if coded < 0:
                coded, flag = frames * frame_bytes, RAW_GROUP
                memcpy(payload + place, begin, coded)
            store32(block + HEADER_BYTES + 8 * g, place | flag)
            store32(block + HEADER_BYTES + 8 * g + 4, kernels.checksum(payload + place, coded))
            place += coded
        store64(payload + place, 0)
        store64(payload + place + 7, 0)
        return place

    signature = word(words, word, word, word, word, words, words, word, nb.boolean, word, word, word, word)

    @nb.njit(signature, nogil=True, cache=True, error_model="numpy", parallel=True)
    def gather_parts(
        table, first_block, block_rows, low, high, rows, targets, frame_bytes, verify, out, scratch, stride, parts
    ):
        """Run `gather_part` in `parts` threads, each with its own scratch memory, until no request is left."""
        count, failed, taken = len(rows), np.full(parts, min(stamp, 0)), np.zeros(1, np.int64)
        chunk = max(1, min(16, count // (4 * parts)))
        for k in nb.prange(parts):
            status, begin = failed[k], kernels.atomic_add(taken.ctypes.data, chunk)
            while begin < count and status == 0:
                status = gather_part(
                    table, first_block, block_rows, low, high, rows, targets, begin, min(begin + chunk, count),
                    frame_bytes, verify, out, scratch + k * stride,
                )  # fmt: skip
                begin = kernels.atomic_add(taken.ctypes.data, chunk)
            failed[k] = status
        return failed.max()

    @nb.njit(word(*signature.args[:-2]), nogil=True, cache=True, error_model="numpy")
    def gather_alone(table, first_block, block_rows, low, high, rows, targets, frame_bytes, verify, out, scratch):
        """Run `gather_part` for all requests."""
        if stamp < 0:
            return -1
        return gather_part(
            table, first_block, block_rows, low, high, rows, targets, 0, len(rows), frame_bytes, verify, out, scratch
        )

    return encode_block, gather_parts, gather_alone


_sources = b"".join((Path(__file__).parent / f"{name}.py").read_bytes() for name in ("kernels", "gather", "registry"))
encode_block, gather_parts, gather_alone = _entries(int.from_bytes(hashlib.sha256(_sources).digest()[:7], "little"))
_PID = os.getpid()
_MOST_THREADS = 8


def gather(threads, *job):
    """Decode a batch with so many threads; return what `gather_part` returns. The last of `job` is the scratch memory
    of each thread."""
    if threads == 1:
        return gather_alone(*job[:-1])
    before = nb.get_num_threads()
    # as many as torch's operations use: with any other number OpenMP's team would be rebuilt at each turn
    nb.set_num_threads(min(torch.get_num_threads(), nb.config.NUMBA_NUM_THREADS))
    try:
        return gather_parts(*job, threads)
    finally:
        nb.set_num_threads(before)


def team_size() -> int:
    """Return how many threads may decode a batch together.

    Alone in a forked child, which GNU's OpenMP would end, and where numba has only its workqueue, which ends a process
    that enters it from two Python threads.
    """
    return min(_MOST_THREADS, torch.get_num_threads()) if os.getpid() == _PID and _has_team() else 1


@cache
def _has_team() -> bool:
    before = torch.get_num_threads()
    nb.get_num_threads()  # starts numba's threads, and so sets OpenMP's number, which is torch's too
    torch.set_num_threads(before)
    return nb.threading_layer() != "workqueue"
