"""What lets a training start sooner. Importing this module loads neither torch nor anything else of ours."""

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
