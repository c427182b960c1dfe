"""Memory that ends at a page nobody may touch: a kernel that reads or writes one byte too far ends the process.

Run as a script it encodes and decodes frames of many sizes in such memory: `python guard.py COUNT`, or `python guard.py
over-read` to see that the guard works.
"""

from __future__ import annotations

import ctypes
import mmap
import sys

import numpy as np

_PROT_NONE = 0
_libc = ctypes.CDLL(None, use_errno=True)


class GuardedMemory:
    """Room for `capacity` bytes directly before a page of PROT_NONE."""

    def __init__(self, capacity: int) -> None:
        size = -(-capacity // mmap.PAGESIZE) * mmap.PAGESIZE
        self._map = mmap.mmap(-1, size + mmap.PAGESIZE)
        self.room = np.frombuffer(self._map, np.uint8)[:size]
        end = ctypes.c_void_p(self.room.ctypes.data + size)
        if _libc.mprotect(end, ctypes.c_size_t(mmap.PAGESIZE), _PROT_NONE):
            raise OSError(ctypes.get_errno(), "mprotect")

    def empty(self, nbytes: int) -> np.ndarray:
        """uint8 [nbytes] that end at the guard; valid until the next call."""
        return self.room[len(self.room) - nbytes :]

    def put(self, data: bytes | np.ndarray) -> np.ndarray:
        """A copy of `data` that ends at the guard."""
        out = self.empty(len(data))
        out[:] = np.frombuffer(data, np.uint8)
        return out


class GuardedBuffers:
    """Replaces `block_coder._buffer`: blocks and scratch memory of exactly the size asked for, each before a guard."""

    def __init__(self, capacity: int) -> None:
        from slipstream.storage.codec import block_coder

        self._kept: dict[str, GuardedMemory] = {}
        self._capacity, self._others = capacity, block_coder._buffer

    def __call__(self, name: str, nbytes: int) -> np.ndarray:
        if name not in ("block", "scratch"):
            return self._others(name, nbytes)
        if name not in self._kept or len(self._kept[name].room) < nbytes:
            self._kept[name] = GuardedMemory(max(self._capacity, nbytes))
        return self._kept[name].empty(nbytes)


def decode(data: bytes, memory: GuardedMemory, out: GuardedMemory, verify: bool) -> np.ndarray:
    """Decode all rows of a block, which and whose frames end at a guard. Raises CodecError."""
    from slipstream.storage.codec.block_coder import BlockCoder
    from slipstream.storage.codec.registry import CodecError, read_header

    header = read_header(data)
    coder = BlockCoder(header.frame_bytes, header.width, header.group, header.block_rows)
    coder.check(header)
    if header.first_row % header.block_rows or not 0 <= header.first_row < 1 << 62:
        raise CodecError("the columns refuse such a block")
    block = memory.put(data[: header.nbytes])
    number, rows = header.first_row // header.block_rows, header.first_row + np.arange(header.rows)
    frames = out.empty(header.rows * header.frame_bytes).reshape(header.rows, header.frame_bytes)
    table = np.array([block.ctypes.data], np.int64)
    coder.gather(table, number, header.first_row, header.first_row + header.rows, rows, frames, verify)
    return frames


def main(words: list[str]) -> None:
    from slipstream.storage.codec import block_coder
    from slipstream.storage.codec.registry import DELTA, LZ4, MASK, PALETTE, RAW

    source, memory, out = (GuardedMemory(1 << 20) for _ in range(3))
    if words == ["over-read"]:
        ctypes.string_at(source.room.ctypes.data, len(source.room) + 1)
    block_coder._buffer = GuardedBuffers(1 << 16)
    rng = np.random.default_rng(1)
    steps = (RAW, MASK, PALETTE, DELTA, DELTA | MASK, PALETTE | DELTA | MASK, PALETTE | MASK)
    for number in range(int(words[0])):
        width, group = int(rng.choice([1, 2, 4, 8])), int(rng.integers(1, 9))
        frame_bytes, rows = width * int(rng.integers(1, 200)), int(rng.integers(1, 40))
        frames = source.put(rng.integers(0, rng.choice([1, 2, 5, 17, 256]), rows * frame_bytes, dtype=np.uint8))
        frames = frames.reshape(rows, frame_bytes)
        coder = block_coder.BlockCoder(frame_bytes, width, group, -(-rows // group) * group)
        codec = int(rng.choice(steps)) | int(rng.choice([0, LZ4]))
        block = coder.encode(frames, 0, codec, int(rng.choice([block_coder.QUICK, 6, 10])), False).tobytes()
        decoded = decode(block, memory, out, bool(number % 2))
        assert (decoded == frames).all(), (number, codec, width, group, frames.shape)
    print("finished", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
