"""Threads that wait in native code for a batch to decode: woken by a semaphore, never touching the GIL.

A numba `prange` will not do: its default layer may not be entered by two Python threads at once. Waking a Python thread
costs more than decoding a small batch. The caller works as well, and waits only for threads that really began, so a busy machine costs
nothing; when another thread has the helpers, the caller decodes alone.
"""

# mypy: ignore-errors
from __future__ import annotations

import ctypes
import os
import sys
import threading

import numba as nb
import numpy as np

from slipstream.codec.groups import gather_batch, gather_part
from slipstream.codec.machine import atomic_add, atomic_swap_if, load64, store64
from slipstream.codec.native import register, source_stamp

_CLOSED = 1 << 32
_JOB, _ACTIVE, _WAKE = 0, 64, 128  # byte offsets in the pool's memory, each on its own cache line

HAS_THREADS = sys.platform == "linux"  # unnamed semaphores
if HAS_THREADS:
    register(ctypes.CDLL(None), ("sem_wait", "sem_post", "sched_yield"))
_sem_wait = nb.types.ExternalFunction("sem_wait", nb.types.int32(nb.types.intp))
_sem_post = nb.types.ExternalFunction("sem_post", nb.types.int32(nb.types.intp))
_sched_yield = nb.types.ExternalFunction("sched_yield", nb.types.int32())


def _entries(stamp):
    """The two sides of the pool, compiled; `stamp` as `native.source_stamp` says."""

    @nb.njit(nb.void(nb.int64), nogil=True, cache=True)
    def serve(pool):
        """What a helper does for ever: wait, join the batch if it is still open, decode, leave."""
        while stamp >= 0:
            while _sem_wait(pool + _WAKE) != 0:
                pass
            while True:
                active = atomic_add(pool + _ACTIVE, 0)
                if active >= _CLOSED:
                    break
                if atomic_swap_if(pool + _ACTIVE, active, active + 1):
                    gather_part(load64(pool + _JOB))
                    atomic_add(pool + _ACTIVE, -1)
                    break

    @nb.njit(nb.void(nb.int64, nb.int64, nb.int64), nogil=True, cache=True)
    def share(pool, job, helpers):
        """Decode the batch together with the helpers; returns when nobody works on it any more."""
        store64(pool + _JOB, job)
        atomic_add(pool + _ACTIVE, -_CLOSED)
        for _ in range(helpers):
            _sem_post(pool + _WAKE)
        if stamp >= 0:
            gather_part(job)
        active = atomic_add(pool + _ACTIVE, _CLOSED)
        spins = 0
        while active & (_CLOSED - 1) != 0:
            spins += 1
            if spins > 500:
                _sched_yield()
            active = atomic_add(pool + _ACTIVE, 0)

    return serve, share


_serve, _share = _entries(source_stamp())


class GatherPool:
    """`threads` - 1 helpers and the caller. One for the process is enough."""

    def __init__(self, threads: int) -> None:
        self.threads = threads if HAS_THREADS else 1
        self._lock = threading.Lock()
        self._pid = 0

    def run(self, job: int, share: bool) -> None:
        """Decode the batch at `job`; `share`: it is large enough for several threads."""
        if not share or self.threads == 1 or not self._lock.acquire(blocking=False):
            gather_batch(job)
            return
        try:
            if self._pid != os.getpid():  # first use, or after a fork, which leaves no threads behind
                self._start()
            _share(self._address, job, self.threads - 1)
        finally:
            self._lock.release()

    def _start(self) -> None:
        self._pid = os.getpid()
        self._memory = np.zeros(256, np.uint8)  # never given back: helpers wait in it until the process ends
        _forever.append(self._memory)
        self._address = (self._memory.ctypes.data + 63) // 64 * 64
        ctypes.c_int64.from_address(self._address + _ACTIVE).value = _CLOSED
        if ctypes.CDLL(None).sem_init(ctypes.c_void_p(self._address + _WAKE), 0, 0) != 0:
            self.threads = 1
        for _ in range(self.threads - 1):
            threading.Thread(target=_serve, args=(self._address,), name="slipstream-gather", daemon=True).start()


_forever: list[np.ndarray] = []
_pool: GatherPool | None = None
_pool_lock = threading.Lock()


def gather_pool() -> GatherPool:
    """The process's pool: as many threads as it may use cores, at most 8; SLIPSTREAM_GATHER_THREADS says otherwise."""
    global _pool
    with _pool_lock:
        if _pool is None:
            cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
            _pool = GatherPool(int(os.environ.get("SLIPSTREAM_GATHER_THREADS", min(8, cores))))
        return _pool
