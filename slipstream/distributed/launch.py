"""Start the processes of a data-parallel training on this machine, as `torchrun` does, and name a rank that fails."""

from __future__ import annotations

import logging
import os
import signal
import sys
import tempfile
import uuid
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import torch

from slipstream.config.help import ConfigError
from slipstream.config.schema import TrainConfig
from slipstream.sim.devices import MAX_THREADS
from slipstream.sim.processes import python_command, python_environment
from slipstream.training.distributed import PEER_FAILED, RUN_FILE, check_device, started_by_torchrun
from slipstream.training.resume import recovery_hint
from slipstream.training.run_folder import STOPPED_BY_KEY, RunFolder

STOP_S = 3600  # that ranks may take to save after a stop signal
STOPPED = (signal.SIGTERM, signal.SIGINT)


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
    """Train in `count` processes; return the exit code and the run folder, None if the training did not begin. Rank 0
    prints; a rank that fails is named here."""
    from torch.distributed.elastic.multiprocessing import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    logging.getLogger("torch.distributed.elastic").setLevel(logging.CRITICAL)
    threads = str(max(1, (os.cpu_count() or 1) // count))
    local = {"GLOO_SOCKET_IFNAME": "lo"} if sys.platform == "linux" else {}
    before = dict(os.environ)
    os.environ.update(python_environment())
    for name, value in ({"OMP_NUM_THREADS": threads, "NUMBA_NUM_THREADS": threads} | local).items():
        os.environ.setdefault(name, value)
    known = {f.name for f in fields(LaunchConfig)}  # older versions of torch have fewer
    options = {"signals_to_handle": "SIGTERM", "shutdown_timeout": STOP_S}
    with tempfile.TemporaryDirectory() as folder:
        run_file = Path(folder) / "run"
        os.environ[RUN_FILE] = str(run_file)
        config = LaunchConfig(
            min_nodes=1,
            max_nodes=1,
            nproc_per_node=count,
            run_id=uuid.uuid4().hex,
            rdzv_backend="c10d",
            rdzv_endpoint="localhost:0",
            local_addr="localhost",
            max_restarts=0,
            **{name: value for name, value in options.items() if name in known},  # type: ignore[arg-type]
        )
        # Ctrl-C reaches the ranks by itself; they must not get it twice, which would end them without saving.
        handlers = {number: signal.getsignal(number) for number in STOPPED}  # torch replaces that of SIGTERM
        keys: list[int] = []

        def stop(number: int, _: Any) -> None:
            keys.append(number)
            os.kill(os.getpid(), signal.SIGTERM)

        signal.signal(signal.SIGINT, stop)
        code = 0
        try:
            command = python_command("-m", "slipstream", "train", *words, f"gpus={count}")
            elastic_launch(config, command[0])(*command[1:])
        except SignalException:
            code = STOPPED_BY_KEY if keys else 0
        except ChildFailedError as error:
            code = _explain(error, cfg, count, run_file)
        finally:
            os.environ.clear()
            os.environ.update(before)
            for number, handler in handlers.items():
                signal.signal(number, signal.SIG_DFL if handler is None else handler)
        return code, Path(run_file.read_text()) if run_file.exists() else None


def _explain(error: Any, cfg: TrainConfig, count: int, run_file: Path) -> int:
    """Name the rank that failed first, unless one has said it already; return the exit code."""
    failures = {rank: one for rank, one in error.failures.items() if one.exitcode != PEER_FAILED}
    started = run_file.exists()
    if not failures or (not started and all(one.exitcode > 0 for one in failures.values())):
        return 2
    # Later ones did not end in time after the signal with which torch stops them, and were killed by it.
    rank, failure = min(failures.items(), key=lambda item: (-item[1].exitcode in STOPPED, item[1].timestamp, item[0]))
    code = failure.exitcode
    how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
    hint = recovery_hint(cfg, RunFolder(Path(run_file.read_text())), full=False) if started else "Start it again"
    print(
        f"slipstream train: rank {rank} of {count} (process {failure.pid}) {how}; the training ends. {hint}",
        file=sys.stderr,
    )
    return 2
