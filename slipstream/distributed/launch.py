"""Start the processes of a data-parallel training on this machine, as `torchrun` does; all of them listen on loopback
only."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import torch
import torch.distributed as dist

from slipstream.config.help import ConfigError
from slipstream.config.schema import TrainConfig
from slipstream.sim.devices import MAX_THREADS
from slipstream.sim.processes import python_command, python_environment
from slipstream.training.distributed import RUN_KEY, check_device, our_part, post_error, started_by_torchrun
from slipstream.training.run_folder import STOPPED, STOPPED_BY_KEY

POLL_S = 0.1
STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
HOST = "127.0.0.1"


def ranks_to_start(cfg: TrainConfig) -> int:
    """Return how many processes `gpus=` asks for; 1 if this process trains itself.

    Raises:
        ConfigError: There are fewer GPUs, or other settings do not allow it.
    """
    if cfg.gpus is None or started_by_torchrun():
        return 1
    available = 0 if cfg.device == "cpu" else torch.cuda.device_count()
    if cfg.device == "cpu" and cfg.gpus == "auto":
        raise ConfigError("gpus=auto counts GPUs: give a number of processes with device=cpu, such as gpus=2")
    count = available if cfg.gpus == "auto" else cfg.gpus
    if count == 1:
        return 1
    check_device(cfg.device if cfg.device != "auto" else "cuda")
    if cfg.device != "cpu" and not 1 <= count <= available:
        remedy = f"give gpus={available} or gpus=auto" if available else "leave gpus out"
        raise ConfigError(
            f"gpus={cfg.gpus}: torch finds {available} GPUs on this machine: {remedy}, or add device=cpu for processes "
            "without a GPU; several machines: torchrun (docs/scale.md)"
        )
    if count > MAX_THREADS:
        raise ConfigError(f"gpus={count} would start as many processes on this machine: give at most {MAX_THREADS}")
    if cfg.auto:
        raise ConfigError(
            f"gpus={count} does not work with {cfg.auto[0]}=auto, which is measured in one process: give a number"
        )
    return count


def launch(words: Sequence[str], cfg: TrainConfig, count: int) -> tuple[int, Path | None]:
    """Train in `count` processes; return the exit code and the run folder, None if the training did not begin. The
    ranks print, and their guards name one that fails."""
    with socket.create_server((HOST, 0)) as server:  # torch itself would listen on all interfaces
        port, fd = server.getsockname()[1], os.dup(server.fileno())
    store = our_part(dist.TCPStore(HOST, port, is_master=True, wait_for_workers=False, master_listen_fd=fd))
    loopback = next(name for _, name in socket.if_nameindex() if name.startswith("lo"))
    threads = str(max(1, (os.cpu_count() or 1) // count))
    env = {"OMP_NUM_THREADS": threads, "NUMBA_NUM_THREADS": threads} | python_environment()
    env |= {"GLOO_SOCKET_IFNAME": loopback, "NCCL_SOCKET_IFNAME": loopback, "TORCHELASTIC_USE_AGENT_STORE": "True"}
    env |= {"TORCHELASTIC_RESTART_COUNT": "0"}
    env |= {"MASTER_ADDR": HOST, "MASTER_PORT": str(port), "WORLD_SIZE": str(count), "LOCAL_WORLD_SIZE": str(count)}
    command = python_command("-m", "slipstream", "train", *words, f"gpus={count}")
    ranks: list[subprocess.Popen[bytes]] = []
    with _stop_signals_for(ranks) as stopped_by:
        for rank in range(count):  # each in a session of its own: Ctrl-C reaches them once, through this process
            own = {"RANK": str(rank), "LOCAL_RANK": str(rank), "GROUP_RANK": "0"}
            ranks.append(subprocess.Popen(command, env=env | own, start_new_session=True))
        _wait(ranks, store, cfg.distributed.timeout_s)
    folder = Path(store.get(RUN_KEY).decode()) if store.check([RUN_KEY]) else None
    codes = {process.returncode for process in ranks}
    if not codes <= {0, STOPPED}:
        return 2, folder
    return (STOPPED_BY_KEY if signal.SIGINT in stopped_by else max(codes)), folder


def _wait(ranks: Sequence[subprocess.Popen[bytes]], store: dist.Store, timeout_s: float) -> None:
    """Wait until all ranks have ended. After one has failed, the others have `timeout_s` for it."""
    deadline = None
    while any(process.poll() is None for process in ranks):
        for rank, process in enumerate(ranks):
            if process.returncode in (None, 0, STOPPED) or deadline is not None:
                continue
            deadline = time.monotonic() + timeout_s
            post_error(store, rank, process.pid, f"it has ended with code {process.returncode}")
        if deadline is not None and time.monotonic() > deadline:
            for process in ranks:
                process.kill()
        time.sleep(POLL_S)


@contextmanager
def _stop_signals_for(ranks: Sequence[subprocess.Popen[bytes]]) -> Iterator[list[int]]:
    """Pass stop signals on to the ranks as SIGTERM: they save and end. Yield the signals that have come."""
    stopped_by: list[int] = []

    def stop(number: int, _: object) -> None:
        stopped_by.append(number)
        for process in ranks:
            process.terminate()

    handlers = {number: signal.signal(number, stop) for number in STOP_SIGNALS}
    try:
        yield stopped_by
    finally:
        for number, handler in handlers.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
