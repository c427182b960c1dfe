"""Saved replay buffers as data: open one of any storage, capacity and sampler, and read its transitions in order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from tensordict import TensorDict

from slipstream.replay.buffer import ReplayBuffer
from slipstream.replay.device_storage import RING_FILE, DeviceStorage
from slipstream.replay.host_storage import HostStorage
from slipstream.replay.persistence import KIND, LIST_FILE
from slipstream.storage.tensor_file import Reader, TensorFile
from slipstream.storage.tree import load_state


def is_replay_folder(path: Path) -> bool:
    """Return whether `ReplayBuffer.save` wrote into this folder."""
    return any((path / name).is_file() for name in (LIST_FILE, RING_FILE))


def open_stored(source: Path | Mapping[str, Any]) -> ReplayBuffer:
    """Return a buffer on the CPU with the steps of a saved one, to read them; its sampler is new.

    Args:
        source: A folder that `ReplayBuffer.save` wrote, or what `ReplayBuffer.state_dict` returned.

    Raises:
        DamagedFileError: It is damaged.
        TooLargeError: It would take more than nine tenths of the memory that is available.
    """
    if isinstance(source, Path) and (source / RING_FILE).is_file():
        with TensorFile.open(source / RING_FILE, KIND) as container:
            return _open_ring(load_state(container, container.head), container.reader)
    if not isinstance(source, Path) and "replay" not in source:
        return _open_ring(source, Reader("the state of the replay buffer"))
    buffer = ReplayBuffer(capacity_bytes=2**62)
    assert isinstance(buffer._storage, HostStorage)
    if isinstance(source, Path):
        buffer._storage.load(source, draws=False)
    else:
        buffer._storage.load_state_dict(source, draws=False)
    return buffer


def _open_ring(state: Any, reader: Reader) -> ReplayBuffer:
    with reader.parsing("the ring"):
        slots, number = state["step"].shape if state["time"] else (3, 1)
        buffer = ReplayBuffer((slots - 2) * number, storage="ring")
        state = {**state, "sampler": {"kind": type(buffer.sampler).__name__}, "rng": torch.Generator().get_state()}
    buffer.load_state_dict(state)
    return buffer


def read_transitions(buffer: ReplayBuffer, rows: int, newest: int) -> Iterator[TensorDict]:
    """Yield the `newest` transitions of a buffer of `open_stored`, at most `rows` at a time, as `ReplayBuffer.get`
    returns them; the steps of an episode follow one another as far as they are stored so."""
    stats = buffer.stats()
    steps = torch.arange(stats["steps_ever"] - min(stats["steps"], newest), stats["steps_ever"])
    if isinstance(buffer._storage, DeviceStorage) and len(steps):  # numbered step by step over all environments
        assert buffer._storage.ring is not None
        steps = steps[buffer._storage.ring.locate(steps)[1].argsort(stable=True)]
    for part in steps.split(rows) if len(steps) else ():
        yield buffer.get(part)
