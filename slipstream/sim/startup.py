"""What lets a training start sooner, and its threads wait for less. Importing this module loads neither torch nor
anything else of ours."""

from __future__ import annotations

import ctypes
import gc
import os
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import wait
from contextlib import contextmanager, suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


@contextmanager
def without_garbage_collection() -> Iterator[None]:
    """Import torch and the training in three quarters of the time: each collection looks at all of their objects."""
    if "torch" in sys.modules or not gc.isenabled():  # inside a larger program
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()  # later collections leave them out, too
        gc.enable()


def start_cuda() -> threading.Thread:
    """Initialize CUDA in a thread, while modules are imported: the driver and, if there is one GPU, its context.

    Of several GPUs it is not known yet which one is used, and a context takes half a gigabyte. Without a driver
    nothing is done.
    """
    os.environ.setdefault("CUDA_MODULE_LOADING", "LAZY")  # as torch sets it; cuInit reads it

    def initialize() -> None:
        with suppress(OSError, AttributeError):  # no driver, or another library of that name
            driver = ctypes.CDLL("libcuda.so.1")
            count, context = ctypes.c_int(), ctypes.c_void_p()
            found = driver.cuInit(0) == 0 and driver.cuDeviceGetCount(ctypes.byref(count)) == 0
            if found and count.value == 1:
                driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)  # the one that torch uses

    thread = threading.Thread(target=initialize, daemon=True)
    thread.start()
    return thread


@contextmanager
def importing_beside(device: torch.device, module: str) -> Iterator[None]:
    """Import a module on a GPU beside the block, in which other processes work, such as those that generate maps."""
    from slipstream.sim.devices import run_beside

    loading = run_beside(device, partial(import_module, module))
    yield
    wait(loading)  # if it failed, the first user of the module says why


def shorten_waiting() -> None:
    """Let the threads of every libgomp in this process sleep after a microsecond of waiting, not after milliseconds.

    libgomp reads its settings once. But while it has more threads than cores it spins 100 times instead of 300,000. So
    a thread that does nothing else keeps that many. A training of 128 drones on two cores beside some 14 busy
    processes makes 1,000 frames/s instead of 44; steps of 0.2 ms on a quiet machine take up to 0.1 ms longer.
    """
    loaded = {line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if "libgomp" in line}
    done = threading.Event()

    def keep_threads() -> None:
        for path in loaded:  # each thread of the team calls free(NULL)
            ctypes.CDLL(path).GOMP_parallel(ctypes.CDLL(None).free, None, len(os.sched_getaffinity(0)) + 1, 0)
        done.set()
        threading.Event().wait()  # its threads end with this one

    if loaded:
        threading.Thread(target=keep_threads, name="slipstream openmp", daemon=True).start()
        done.wait()
