"""Whether waiting for the device is an error: it is in an iteration, and is not where something is compared or compiled."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import torch


def waiting_refused() -> AbstractContextManager[None]:
    """What waits for a CUDA device in here raises a RuntimeError that has 'synchroniz' in its text."""
    return _mode("error")


def waiting_allowed(device: torch.device) -> AbstractContextManager[None]:
    """What reads back from `device` in here may do so, even where nothing else may."""
    return _mode("default") if device.type == "cuda" else nullcontext()


@contextmanager
def _mode(mode: str) -> Iterator[None]:
    before = torch.cuda.get_sync_debug_mode()
    _set(mode)
    try:
        yield
    finally:
        _set(before)


def _set(mode: str | int) -> None:
    """torch warns that it may not notice every wait: nothing that a user could act on."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Synchronization debug mode", UserWarning)
        torch.cuda.set_sync_debug_mode(mode)
