"""Other ways to save a state: the peers of benchmarks/checkpoint.py."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

import torch
from checkpoint_states import State, tensors


def fsync(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY)
    os.fsync(fd)
    os.close(fd)


def torch_save(state: State, path: Path) -> None:
    torch.save(state, path)
    fsync(path)


def safetensors_save(state: State, path: Path) -> None:
    from safetensors.torch import save_file

    save_file({str(i): t for i, t in enumerate(tensors(state))}, path)
    fsync(path)


def pickle_save(state: State, path: Path) -> None:
    """Save with torch.save to memory, compress with LZ4 level 9, write."""
    import lz4.frame

    buffer = io.BytesIO()
    torch.save(state, buffer)
    path.write_bytes(lz4.frame.compress(buffer.getvalue(), compression_level=9))
    fsync(path)


class Distributed:
    """torch.distributed.checkpoint.async_save in one process: with its default staging, or a stager that keeps its
    buffers."""

    def __init__(self, reuse: bool) -> None:
        import torch.distributed as dist
        import torch.distributed.checkpoint as dcp
        from torch.distributed.checkpoint.staging import DefaultStager, StagingOptions

        if not dist.is_initialized():
            dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        self._dcp = dcp
        options = StagingOptions(False, False, False, False)  # what pins memory or uses a stream needs an accelerator
        self._stager = DefaultStager(options) if reuse else None
        self._future: Any = None

    def save(self, state: State, path: Path) -> None:
        extra = {"async_stager": self._stager} if self._stager is not None else {}
        response = self._dcp.async_save(state, checkpoint_id=str(path), **extra)
        self._future = getattr(response, "upload_completion", response)

    def wait(self) -> None:
        if self._future is not None:
            self._future.result()
            self._future = None
