"""Devices, CPU threads, and the backend of the hot loops: PyTorch anywhere, native code on a CPU, Triton on a GPU."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Self

import torch
from torch import Tensor, nn

MAX_THREADS = max(64, 4 * (os.cpu_count() or 1))  # tens of thousands crash OpenMP


class Movable:
    """An object with tensors on a device."""

    device: torch.device

    def to(self, device: torch.device | str) -> Self:
        """Move the object's tensors and modules to a device."""
        self.device = torch.device(device)
        for name, value in vars(self).items():
            if isinstance(value, (Tensor, nn.Module)):
                setattr(self, name, value.to(device))
        return self


def resolve_device(name: str) -> torch.device:
    """Return the device of a name; a CUDA device that is named becomes the current one. `auto` is CUDA if available."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise ValueError(f"device={name} is unknown to torch: use auto, cpu, cuda or cuda:1") from error
    if device.type == "cuda":
        if not torch.cuda.is_available():
            raise ValueError(f"device={name}: torch finds no CUDA device here; use device=cpu or device=auto")
        if (device.index or 0) >= torch.cuda.device_count():
            raise ValueError(f"device={name}: there are {torch.cuda.device_count()} CUDA devices, counted from cuda:0")
        device = torch.device("cuda", torch.cuda.current_device() if device.index is None else device.index)
        torch.cuda.set_device(device)  # streams, graphs and Triton kernels use the current device
    return device


def check_threads(count: int, key: str = "threads") -> None:
    """Raise ValueError for a number of CPU threads that is negative or would crash torch."""
    if not 0 <= count <= MAX_THREADS:
        raise ValueError(f"{key} must be in [0, {MAX_THREADS}] on this machine of {os.cpu_count()} cores, not {count}")


def set_threads(count: int) -> None:
    """Set the number of CPU threads of torch and numba; 0 keeps both numbers.

    numba sets OpenMP's number, which is torch's too, when it starts its threads. They are started here: in the middle
    of a run another number of torch's threads would change the last bits of what it computes.
    """
    import numba

    check_threads(count)
    torchs = count or torch.get_num_threads()
    numba.set_num_threads(min(count or numba.get_num_threads(), numba.config.NUMBA_NUM_THREADS))  # type: ignore[attr-defined]
    torch.set_num_threads(torchs)


def threads_here() -> Callable[[], None]:
    """Return a function that gives the calling Python thread as many CPU threads as this one has now (set per Python
    thread)."""
    import numba

    torchs, numbas = torch.get_num_threads(), numba.get_num_threads()
    torch.set_num_threads(torchs)  # see set_threads: numba may just have started its threads

    def give() -> None:
        numba.set_num_threads(numbas)
        torch.set_num_threads(torchs)

    return give


def run_beside(device: torch.device, *calls: Callable[[], Any]) -> list[Future[Any]]:
    """Make each call in a thread of its own, on the current CUDA stream of this thread; return their futures.

    For another device than CUDA they are made here, one after another: they would compete for the CPU's threads.
    """
    if device.type != "cuda":
        done: list[Future[Any]] = [Future() for _ in calls]
        for future, call in zip(done, calls, strict=True):
            future.set_result(call())
        return done
    stream = torch.cuda.current_stream(device)  # a new thread has the first device's
    pool = ThreadPoolExecutor(max(1, len(calls)), "beside", torch.cuda.set_stream, (stream,))
    futures = [pool.submit(call) for call in calls]
    pool.shutdown(wait=False)  # the threads end with their calls
    return futures


BACKENDS = ("auto", "torch", "native", "triton")


def pick_backend(device: torch.device, wanted: str = "auto") -> str:
    """Return `wanted`, or for `auto` the fastest backend that this device and the installed packages allow."""
    if wanted not in BACKENDS:
        raise ValueError(f"unknown backend '{wanted}': use one of {', '.join(BACKENDS)}")
    fast = {"cpu": "native", "cuda": "triton"}.get(device.type, "torch")
    if wanted == "auto":
        return "torch" if fast == "triton" and not importlib.util.find_spec("triton") else fast
    if wanted not in ("torch", fast):
        raise ValueError(f"the {wanted} backend does not run on {device.type}: use auto or torch")
    return wanted
