"""Threads that open a batch together: torch's own where they can be had, else helpers that wait in native code, never touching the GIL.

After every operation torch's OpenMP threads look for more work for a while, and stand in the way of any others; to them a batch is one
more operation. Where there are none (no libgomp, a forked child, which has lost them), helpers of our own are woken by a semaphore: the
caller works as well, and waits only for helpers that really began, so a busy machine costs nothing; when another thread has the
helpers, the caller decodes alone. A numba `prange` will not do: its default layer may not be entered by two Python threads at once, and
waking a Python thread costs more than decoding a small batch.
"""

# mypy: ignore-errors
from __future__ import annotations

import ctypes
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import numba as nb
import numpy as np

from slipstream.storage.codec.gather import gather_batch, gather_part
from slipstream.storage.codec.kernels import atomic_add, atomic_swap_if, load64, store64
from slipstream.storage.codec.native import register, source_stamp

_PID = os.getpid()  # forked children have lost torch's threads
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

    @nb.cfunc(nb.void(nb.int64), cache=True)
    def part(job):
        """What every thread of a team does."""
        if stamp >= 0:
            gather_part(job)

    return serve, share, part


_serve, _share, _part = _entries(source_stamp())


def torch_team() -> Callable[[int, int, int, int], None] | None:
    """libgomp's `GOMP_parallel` as torch has it loaded: (function, its argument, threads or 0 for as many as torch uses, 0)."""
    try:
        maps = Path("/proc/self/maps").read_text()
    except OSError:
        return None
    for library in sorted(
        {line.split()[-1] for line in maps.splitlines() if "/torch/lib/" in line and "/libgomp" in line}
    ):
        function = getattr(ctypes.CDLL(library), "GOMP_parallel", None)
        if function is not None:
            function.argtypes, function.restype = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint], None
            return function
    return None


class GatherPool:
    """At most `threads`, the caller among them. One for the process is enough."""

    def __init__(self, threads: int, team: Callable[[int, int, int, int], None] | None = None) -> None:
        self.threads = threads if HAS_THREADS else 1
        self._team, self._team_pid = team, os.getpid()
        self._lock = threading.Lock()
        self._pid = 0

    @property
    def least_bytes(self) -> int:
        """A batch of fewer bytes is decoded before a second thread has come and gone."""
        return 1 << 16 if self._has_team() else 1 << 20

    def _has_team(self) -> bool:
        return self._team is not None and self._team_pid == os.getpid()

    def run(self, job: int, share: bool) -> None:
        """Decode the batch at `job`; `share`: it is large enough for several threads."""
        if share and self.threads > 1 and self._has_team():
            # 0: as many as torch's operations use. With any other number the team would be taken apart and made anew at each turn
            self._team(_part.address, job, 0, 0)
            return
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
    """The process's pool: torch's threads, at most 8 of them; SLIPSTREAM_GATHER_THREADS=n gives it n of its own."""
    global _pool
    with _pool_lock:
        if _pool is None:
            cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
            own = os.environ.get("SLIPSTREAM_GATHER_THREADS")
            team = torch_team() if os.getpid() == _PID else None
            _pool = GatherPool(int(own)) if own else GatherPool(min(8, cores), team)
        return _pool
