"""Frames of one observation, compressed: blocks as in the replay buffer and in rollout files."""

from __future__ import annotations

import json
import struct
from typing import Any

import numpy as np
import torch
from torch import Tensor

HIGHEST_LEVEL = 12  # of LZ4-HC; the documents' levels up to 16 are no other
_MAGIC = b"SLIPFRM1"
_LENGTH = struct.Struct("<8sI")


class CompressedFrames:
    """Frames [n, *shape] of one key. `level` 0 keeps them as they are, 1 compresses fast, 2 to 12 better and slower.

    With groups of `group` consecutive frames they take less room, but one frame is opened with its whole group.
    """

    def __init__(self, like: Tensor, level: int = 1, codec: str = "auto", group: int = 1) -> None:
        """For frames as those of `like` [n, *shape]; `append` them."""
        if not 0 <= level <= 16:
            raise ValueError(f"compression_level must lie in 0 … 16, not {level}")
        from slipstream.storage.blocks import BlockColumn  # its native code is loaded where it is needed
        from slipstream.storage.schema import KeySpec, as_array

        self._as_array = as_array
        array, dtype = as_array(("frames",), like[:0])
        self.device = like.device
        self.level, self.group = level, group
        self._spec = KeySpec(("frames",), tuple(like.shape[1:]), array.dtype, dtype)
        self._column = BlockColumn(
            self._spec.shape,
            self._spec.dtype,
            codec="raw" if level == 0 else codec,
            group=group,
            seal=level > 1,
            level=min(max(level, 2), HIGHEST_LEVEL),
        )

    @classmethod
    def of(cls, frames: Tensor, level: int = 1, codec: str = "auto", group: int = 1) -> CompressedFrames:
        """`frames` [n, *shape], compressed."""
        compressed = cls(frames, level, codec, group)
        compressed.append(frames)
        compressed.finish()
        return compressed

    def append(self, frames: Tensor) -> None:
        """More frames [n, *shape]."""
        self._column.append(self._as_array(self._spec.key, frames)[0])

    def finish(self) -> None:
        """Compresses what waits for it."""
        self._column.flush()

    def rows(self, index: Tensor | None = None) -> Tensor:
        """The frames of `index` [B], all by default, where they came from; only what is asked for is opened."""
        rows = np.arange(len(self)) if index is None else index.cpu().numpy()
        on_gpu = self.device.type == "cuda"
        host = torch.empty((len(rows), *self._spec.shape), dtype=self._spec.torch_dtype, pin_memory=on_gpu)
        self._column.gather(rows, self._as_array(self._spec.key, host)[0])
        return host.to(self.device, non_blocking=True) if on_gpu else host

    @property
    def shape(self) -> tuple[int, ...]:
        """[n, *shape]."""
        return (len(self), *self._spec.shape)

    @property
    def codec(self) -> str:
        """The codec that was chosen."""
        return self._column.stats()["codec"]

    @property
    def nbytes(self) -> int:
        """Bytes that the compressed frames take."""
        return self._column.stats()["stored_bytes"]

    @property
    def raw_nbytes(self) -> int:
        """Bytes that the frames would take."""
        return len(self) * self._spec.row_bytes

    @property
    def ratio(self) -> float:
        """How many times smaller they have become."""
        return self.raw_nbytes / max(1, self.nbytes)

    def __len__(self) -> int:
        return len(self._column)

    # -- as bytes, for another process or machine ----------------------------------------------------------------------

    def to_bytes(self) -> bytes:
        """All of it; the blocks as they lie in memory."""
        head = {
            "shape": list(self._spec.shape),
            "dtype": self._spec.dtype.str,
            "torch_dtype": str(self._spec.torch_dtype).removeprefix("torch."),
            "level": self.level,
            "group": self.group,
        }
        text = json.dumps(head).encode()
        return b"".join([_LENGTH.pack(_MAGIC, len(text)), text, *(data.tobytes() for _, data in self._column.blocks())])

    @classmethod
    def from_bytes(cls, data: bytes, device: torch.device | str = "cpu") -> CompressedFrames:
        """What `to_bytes` gave; every group is checked when it is opened."""
        if len(data) < _LENGTH.size or data[:8] != _MAGIC:
            raise ValueError("these are no compressed frames: give the bytes of CompressedFrames.to_bytes()")
        _, length = _LENGTH.unpack_from(data)
        head: dict[str, Any] = json.loads(data[_LENGTH.size : _LENGTH.size + length])
        dtype = getattr(torch, str(head["torch_dtype"]), None)
        if not isinstance(dtype, torch.dtype):
            raise ValueError(f"compressed frames of an unknown dtype, {head['torch_dtype']}")
        like = torch.empty((0, *(int(n) for n in head["shape"])), dtype=dtype, device=device)
        frames = cls(like, int(head["level"]), "auto" if head["level"] else "raw", int(head["group"]))
        at = _LENGTH.size + length
        while at < len(data):
            at += frames._column.add_block(data[at:]).nbytes
        return frames

    def to(self, device: torch.device | str) -> CompressedFrames:
        """The same frames, to be opened on `device`."""
        twin = object.__new__(CompressedFrames)
        twin.__dict__.update(self.__dict__)
        twin.device = torch.empty(0, device=device).device
        return twin
