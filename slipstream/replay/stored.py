"""Saved replay buffers as data: open one of any storage, capacity and sampler, and read its transitions in order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from tensordict import TensorDict
from torch import Tensor

from slipstream.replay.buffer import ReplayBuffer
from slipstream.replay.device_storage import RING_FILE, DeviceStorage
from slipstream.replay.host_storage import HostStorage
from slipstream.replay.persistence import KIND, LIST_FILE, open_bytes, open_save
from slipstream.storage.tensor_file import Reader, TensorFile
from slipstream.storage.tree import load_state


def is_replay_folder(path: Path) -> bool:
    """Return whether `ReplayBuffer.save` wrote into this folder."""
    return any((path / name).is_file() for name in (LIST_FILE, RING_FILE))


def open_stored(source: Path | Mapping[str, Any], max_bytes: int | None = None) -> ReplayBuffer:
    """Return a buffer on the CPU with the steps of a saved one, to read them; its sampler is new.

    Args:
        source: A folder that `ReplayBuffer.save` wrote, or what `ReplayBuffer.state_dict` returned.
        max_bytes: Memory that it may take; by default nine tenths of what is available.

    Raises:
        DamagedFileError: It is damaged.
        TooLargeError: It would take more than `max_bytes`.
    """
    reader = Reader(source if isinstance(source, Path) else "the state of the replay buffer", max_bytes=max_bytes)
    if isinstance(source, Path) and (source / RING_FILE).is_file():
        with TensorFile.open(source / RING_FILE, KIND, reader=reader) as container:
            return _open_ring(load_state(container, container.head), reader)
    if not isinstance(source, Path) and "replay" not in source:
        return _open_ring(source, reader)
    buffer = ReplayBuffer(capacity_bytes=2**62)
    storage = buffer._storage
    assert isinstance(storage, HostStorage)
    if isinstance(source, Path):
        files, _, state = open_save(source, reader)
    else:
        with reader.parsing("the state dict"):
            data = source["replay"].detach().cpu().contiguous().numpy()
        files, state = open_bytes(data, reader)
    with reader.parsing("the state"), storage.writing:
        storage._replace(files, {**state, "sampler": storage.sampler.state_dict()}, reader)
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
        steps = steps[_by_environment(buffer._storage, steps)]
    for part in steps.split(rows) if len(steps) else ():
        yield buffer.get(part)


def _by_environment(storage: DeviceStorage, steps: Tensor) -> Tensor:
    assert storage.ring is not None
    return storage.ring.locate(steps)[1].argsort(stable=True)
