"""The Ray cluster on which actors collect: connect to it, or start one on this machine."""

from __future__ import annotations

import importlib
import logging
import os
import platform
import socket
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from slipstream.config.help import ConfigError
from slipstream.sim.search_path import current_folder, end_of_own

PACKAGES = ("slipstream", "torch", "tensordict", "ray")  # of equal versions on all nodes
# Ray sends no statistics, and prints no messages that are not for users.
QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0", "RAY_IGNORE_UNHANDLED_ERRORS": "1"}
STORE_BYTES = 512 << 20  # of the object store of a cluster that is started here
# With this variable Ray takes 127.0.0.1 for the address of this machine, so that all its processes listen there only.
LOOPBACK = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
TIMEOUT_S = 60.0


def import_ray() -> Any:
    """Return the module `ray`."""
    try:
        return importlib.import_module("ray")
    except ImportError as error:
        raise ConfigError("actors.count needs Ray: pip install -e '.[ray]'") from error


class WorkersPath(list[str]):
    """Ray's list of folders that workers search for modules before all others: it adds the current folder, here only if
    this process searches there first, too."""

    def extend(self, folders: Iterable[str]) -> None:
        """Add those that this process searches before Python's own."""
        own = [os.path.realpath(entry or current_folder()) for entry in sys.path[: end_of_own()]]
        super().extend(folder for folder in folders if os.path.realpath(folder) in own)


def connect(ray: Any, address: str | None, cpus: int) -> bool:
    """Connect to a cluster, or start one on this machine; return False if this process has a connection already.

    Args:
        ray: The module.
        address: "auto", HOST:PORT or ray://HOST:PORT; None for RAY_ADDRESS, or a cluster of this machine's own.
        cpus: Cores of a cluster that is started here, at least.

    Raises:
        ConfigError: The cluster cannot be reached.
    """
    if ray.is_initialized():
        return False
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
    address = address or os.environ.get("RAY_ADDRESS") or "local"
    logging.getLogger("ray").setLevel(logging.ERROR)
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    if address == "local":
        options |= {"num_cpus": max(cpus, os.cpu_count() or 1), "object_store_memory": STORE_BYTES}
        options |= {"include_dashboard": False}
    if not address.startswith("ray://"):
        config = importlib.import_module("ray.job_config").JobConfig()
        config._py_driver_sys_path, options["job_config"] = WorkersPath(), config
    try:
        if address not in ("auto", "local"):  # Ray itself would wait for minutes
            host, _, port = address.removeprefix("ray://").rpartition(":")
            socket.create_connection((host, int(port)), TIMEOUT_S).close()
        with _on_loopback() if address == "local" else nullcontext():
            ray.init(address, **options)
    except (OSError, ValueError, RuntimeError) as error:
        raise ConfigError(
            f"actors.address={address}: no Ray cluster answers ({last_line(error).partition('. Please')[0]}): give auto, HOST:6379 "
            "or ray://HOST:10001 of one that `ray start --head` started, set RAY_AUTH_MODE=token if it wants a token, or leave it out"
        ) from error
    return True


@contextmanager
def _on_loopback() -> Iterator[None]:
    """Let a cluster that is started in the block, and its processes, listen on loopback only. The token that Ray may
    write is for this user's eyes only."""
    constants: Any = importlib.import_module("ray._private.ray_constants")
    before = os.environ.get(LOOPBACK), constants.ENABLE_RAY_CLUSTER
    os.environ[LOOPBACK], constants.ENABLE_RAY_CLUSTER = "0", False
    mask = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(mask)
        constants.ENABLE_RAY_CLUSTER = before[1]
        del os.environ[LOOPBACK]
        if before[0] is not None:
            os.environ[LOOPBACK] = before[0]


def versions() -> dict[str, str]:
    """Return the versions here that must be the same on all nodes."""
    python = ".".join(platform.python_version_tuple()[:2])
    return {"Python": python} | {name: importlib.import_module(name).__version__ for name in PACKAGES}


def last_line(error: BaseException) -> str:
    """Return the last line of an error's text."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1][:300].rstrip(".") if lines else type(error).__name__
