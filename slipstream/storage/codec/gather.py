"""Native code for groups, blocks and batches, made of the steps in kernels.py, and the threads that decode a batch
together.

Torch's OpenMP threads look for more work for a while after every operation, and stand in the way of any others; to them
a batch is one more operation. Where there are none (no libgomp, a forked child) the threads of a background worker
help: the caller works too, and waits only for helpers that began. A numba `prange` will not do: its default layer may
not be entered by two Python threads at once.
"""

# mypy: ignore-errors
from __future__ import annotations

import ctypes
import hashlib
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numba as nb

from slipstream.storage.background import BackgroundWorker
from slipstream.storage.codec import kernels, registry
from slipstream.storage.codec.kernels import inner, load8, load32, load64, memcpy, store8, store32, store64
from slipstream.storage.codec.registry import DELTA, HEADER_BYTES, IN_FILE, LZ4, MASK, PALETTE, RAW_GROUP, SHUFFLE

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
    return _PALETTE_SCRATCH + 2 * plain_bytes(frames, frame_bytes, width) + 2 * (frame_bytes + 64)


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
    elif codec & SHUFFLE:
        for j in range(frames):
            kernels.shuffle(plain + length, current + j * size, size // word, word)
            length += size
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
def row_of(rows, order, i):
    """Return the row of request order[i]."""
    return load64(rows + 8 * load64(order + 8 * i))


@inner
def unpack(target, source, codec, words, word):
    """Write the frame at `source` without its mask, or with its bytes in their order again."""
    if codec & MASK:
        kernels.mask_decode(target, source, words, word)
    elif codec & SHUFFLE:
        kernels.unshuffle(target, source, words, word)
    else:
        memcpy(target, source, words * word)


@inner
def decode_requests(payload, length, codec, frames, frame_bytes, width, first, rows, order, begin, end, out, scratch):
    """Decode a group for the requests order[begin:end], sorted by row; frame j of the group is row `first` + j."""
    count = frame_bytes // width
    last = row_of(rows, order, end - 1) - first
    plain, available = payload, length
    room = plain_bytes(frames, frame_bytes, width)
    if codec & LZ4:
        if codec == LZ4 and frames == 1:
            target = out + load64(order + 8 * begin) * frame_bytes
            if kernels.lz4_decompress(payload, target, length, frame_bytes) != frame_bytes:
                return DAMAGED
            for i in range(begin + 1, end):
                memcpy(out + load64(order + 8 * i) * frame_bytes, target, frame_bytes)
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
    spare = current + frame_bytes + 64
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
        is_wanted = row_of(rows, order, i) - first == j
        following = at + size
        if codec & MASK:
            bitmap = (words + 7) >> 3
            if at + bitmap > limit:
                return DAMAGED
            following = at + bitmap + kernels.mask_count(at, words) * word
        if following > limit:
            return DAMAGED
        target = out + load64(order + 8 * i) * frame_bytes
        packed = at
        if codec & DELTA:
            packed = current
            if j == 0:
                unpack(current, at, codec, words, word)
            elif codec & MASK:
                kernels.mask_apply(current, at, words, word)
            elif codec & SHUFFLE:
                kernels.unshuffle(spare, at, words, word)
                kernels.xor(current, spare, size)
            else:
                kernels.xor(current, at, size)
        elif is_wanted and codec & (MASK | SHUFFLE):
            packed = current if codec & PALETTE else target
            unpack(packed, at, codec, words, word)
        at = following
        if not is_wanted:
            continue
        if codec & PALETTE:
            kernels.palette_unpack(target, packed, count, width, bits, plain + 1, values, scratch, has_table)
        elif packed != target:
            memcpy(target, packed, frame_bytes)
        i += 1
        while i < end and row_of(rows, order, i) - first == j:
            memcpy(out + load64(order + 8 * i) * frame_bytes, target, frame_bytes)
            i += 1
    return OK


@inner
def code_block(source, rows, group, frame_bytes, width, codec, level, state, block, scratch):
    """Write table and groups of a block of `rows` frames at `block`, after the header; return the bytes of the
    groups."""
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


# A batch is described by int64 words, so that a waiting thread can be given one by its address alone
NEXT, COUNT, CHUNK, ROWS, ORDER, OUT, TABLE, FIRST_BLOCK, BLOCK_ROWS = (8 * i for i in range(9))
FRAME, VERIFY, SCRATCH, STRIDE, MEMBERS, LOW, HIGH, ERROR, ERROR_ROW, PLACES = (8 * i for i in range(9, 19))


@inner
def warm(table, first_block, block_rows, frame_bytes, rows, order, begin, stop, low, high, lines):
    """Prefetch all that the requests will read: their groups are far apart, and one miss takes as long as decoding a
    small one."""
    for step in range(2):  # the tables of groups, then the groups
        for i in range(begin, stop):
            row = row_of(rows, order, i)
            if row < low or row >= high:
                return
            number = row // block_rows
            inside = row - number * block_rows
            block = load64(table + 8 * (number - first_block))
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
def decode_group(block, row, inside, frame_bytes, verify, rows, order, begin, stop, out, scratch):
    """Decode the group of order[begin] for all requests of it that follow; return the first request after them, or
    -DAMAGED or -UNREADABLE. Row `row` is row `inside` of the block."""
    group, held, coded = (
        load32(block + registry.AT_GROUP),
        load32(block + registry.AT_ROWS),
        load32(block + registry.AT_CODED),
    )
    g, groups = inside // group, (held + group - 1) // group
    frames = min(group, held - g * group)
    first = row - inside + g * group
    end = begin + 1
    while end < stop and row <= row_of(rows, order, end) < first + frames:
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
    if is_raw and verify and frames == 1 and end == begin + 1:  # read once
        target = out + load64(order + 8 * begin) * frame_bytes
        return end if kernels.copy_checksum(target, payload, length) == expected else -DAMAGED
    if verify and kernels.checksum(payload, length) != expected:
        return -DAMAGED
    if is_raw:
        for i in range(begin, end):
            request = load64(order + 8 * i)
            source = payload + (load64(rows + 8 * request) - first) * frame_bytes
            memcpy(out + request * frame_bytes, source, frame_bytes)
        return end
    codec, width = load8(block + registry.AT_CODEC), load8(block + registry.AT_WIDTH)
    status = decode_requests(
        payload, length, codec, frames, frame_bytes, width, first, rows, order, begin, end, out, scratch
    )
    return end if status == OK else -DAMAGED


@inner
def gather_part(job):
    """Take requests of the batch until none is left; several threads may do so at once."""
    count, chunk = load64(job + COUNT), load64(job + CHUNK)
    rows, order, out = load64(job + ROWS), load64(job + ORDER), load64(job + OUT)
    table, first_block, block_rows = load64(job + TABLE), load64(job + FIRST_BLOCK), load64(job + BLOCK_ROWS)
    frame_bytes, verify = load64(job + FRAME), load64(job + VERIFY)
    low, high = load64(job + LOW), load64(job + HIGH)
    lines = min(16, max(4, frame_bytes >> 8))
    member = kernels.atomic_add(job + MEMBERS, 1)
    if member >= load64(job + PLACES):  # a helper that came twice: its scratch memory would be somebody else's
        return
    scratch = load64(job + SCRATCH) + member * load64(job + STRIDE)
    while True:
        begin = kernels.atomic_add(job + NEXT, chunk)
        if begin >= count:
            return
        stop = min(begin + chunk, count)
        warm(table, first_block, block_rows, frame_bytes, rows, order, begin, stop, low, high, lines)
        i = begin
        while i < stop:
            row = row_of(rows, order, i)
            following = -OUTSIDE
            if low <= row < high:
                number = row // block_rows
                inside = row - number * block_rows
                block = load64(table + 8 * (number - first_block))
                if load8(block + registry.AT_CODEC) == registry.OPEN:
                    source = block + HEADER_BYTES + inside * frame_bytes
                    memcpy(out + load64(order + 8 * i) * frame_bytes, source, frame_bytes)
                    following = i + 1
                else:
                    following = decode_group(
                        block, row, inside, frame_bytes, verify, rows, order, i, stop, out, scratch
                    )
            if following < 0:
                store64(job + ERROR_ROW, row)
                store64(job + ERROR, -following)
                return
            i = following


def _entries(stamp):
    """Return the kernels that Python calls; `stamp` is a number that changes with their source.

    Numba looks only at the file of the function it has kept on disk, not at the functions it calls; a kernel that
    closes over this number is compiled again when any of them changes.

    They are compiled here and now, by whoever imports this, not in a background thread at their first call: a process
    that forks while numba compiles leaves its child a lock that nobody opens.
    """
    word = nb.int64

    @nb.njit(word(*[word] * 10), nogil=True, cache=True, error_model="numpy")
    def encode_block(source, rows, group, frame_bytes, width, codec, level, state, block, scratch):
        """Run `code_block`."""
        if stamp < 0:
            return -1
        return code_block(source, rows, group, frame_bytes, width, codec, level, state, block, scratch)

    @nb.njit(nb.void(word), nogil=True, cache=True, error_model="numpy")
    def gather_batch(job):
        """Take requests of the batch until none is left."""
        if stamp >= 0:
            gather_part(job)

    @nb.cfunc(nb.void(word), cache=True)
    def gather_team(job):
        """`gather_batch` for every thread of an OpenMP team."""
        if stamp >= 0:
            gather_part(job)

    return encode_block, gather_batch, gather_team


_sources = b"".join((Path(__file__).parent / f"{name}.py").read_bytes() for name in ("kernels", "gather", "registry"))
_stamp = int.from_bytes(hashlib.sha256(_sources).digest()[:7], "little")
encode_block, gather_batch, gather_team = _entries(_stamp)
_PID = os.getpid()


def torch_team() -> Callable[[int, int, int, int], None] | None:
    """Return libgomp's `GOMP_parallel` as torch has it loaded: (function, its argument, threads or 0 for as many as
    torch uses, 0)."""
    try:
        maps = Path("/proc/self/maps").read_text()
    except OSError:
        return None
    lines = (line.split()[-1] for line in maps.splitlines() if "/torch/lib/" in line and "/libgomp" in line)
    for library in sorted(set(lines)):
        function = getattr(ctypes.CDLL(library), "GOMP_parallel", None)
        if function is not None:
            function.argtypes, function.restype = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint], None
            return function
    return None


class GatherPool:
    """Decodes batches with at most `threads` threads, the caller among them. One for the process is enough."""

    def __init__(self, threads: int, team: Callable[[int, int, int, int], None] | None = None) -> None:
        self.threads = threads
        self._team, self._team_pid = team, os.getpid()
        self._helpers = BackgroundWorker("frame decoder", threads=max(1, threads - 1), restart_after_fork=True)

    @property
    def least_bytes(self) -> int:
        """A batch of fewer bytes is decoded before a second thread could help."""
        return 1 << 16 if self._has_team() else 1 << 20

    def _has_team(self) -> bool:
        return self._team is not None and self._team_pid == os.getpid()  # forked children have lost torch's threads

    def run(self, job: int, share: bool) -> None:
        """Decode the batch at `job`; `share`: it is large enough for several threads."""
        if not share or self.threads == 1:
            gather_batch(job)
        elif self._has_team():
            # 0: as many as torch's operations use. With any other number the team would be rebuilt at each turn
            self._team(gather_team.address, job, 0, 0)
        else:
            helpers = [self._helpers.submit(gather_batch, job) for _ in range(self.threads - 1)]
            gather_batch(job)
            for helper in helpers:
                if not helper.cancel():
                    helper.result()


@cache
def gather_pool() -> GatherPool:
    """Return the process's pool: torch's threads, at most 8 of them; SLIPSTREAM_GATHER_THREADS=n gives it n of its
    own."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    own = os.environ.get("SLIPSTREAM_GATHER_THREADS")
    return GatherPool(int(own)) if own else GatherPool(min(8, cores), torch_team() if os.getpid() == _PID else None)
