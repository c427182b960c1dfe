"""The Ray cluster that a command names: connect to it, or start one on this machine, and check its nodes."""

from __future__ import annotations

import importlib
import logging
import os
import socket
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from slipstream.config.help import ConfigError
from slipstream.sim.search_path import current_folder, end_of_own

PACKAGES = ("slipstream-rl", "torch", "tensordict", "ray")  # of equal versions on all nodes
# Ray sends no statistics, and prints no messages that are not for users.
QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0", "RAY_IGNORE_UNHANDLED_ERRORS": "1"}
STORE_BYTES = 512 << 20  # of the object store of a cluster that is started here
# With this variable Ray takes 127.0.0.1 for the address of this machine, so that all its processes listen there only.
LOOPBACK = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"


def import_ray(key: str) -> Any:
    """Return the module `ray`, which `key` needs."""
    try:
        return importlib.import_module("ray")
    except ImportError as error:
        raise ConfigError(f"{key} needs Ray: pip install 'slipstream-rl[ray]'") from error


class WorkersPath(list[str]):
    """Ray's list of folders that workers search for modules before all others: it adds the current folder, here only if
    this process searches there first, too."""

    def extend(self, folders: Iterable[str]) -> None:
        """Add those that this process searches before Python's own."""
        own = [os.path.realpath(entry or current_folder()) for entry in sys.path[: end_of_own()]]
        super().extend(folder for folder in folders if os.path.realpath(folder) in own)


def connect(ray: Any, address: str | None, cpus: int, timeout_s: float, key: str) -> bool:
    """Connect to a cluster, or start one on this machine; return False if this process has a connection already.

    Args:
        ray: The module.
        address: "auto", HOST:PORT or ray://HOST:PORT; None for RAY_ADDRESS, or a cluster of this machine's own.
        cpus: Cores of a cluster that is started here, at least.
        timeout_s: To reach the cluster, and each node.
        key: With which the address was given, as it is typed before it.

    Raises:
        ConfigError: The cluster cannot be reached, or its nodes have other versions.
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
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if address not in ("auto", "local") and not (host and port.isdigit()):
        raise ConfigError(
            f"{key}{address} is not an address of a Ray cluster: give auto, HOST:6379 or ray://HOST:10001"
        )
    remedy = (
        "start one with `ray start --head` and give its address, set RAY_AUTH_MODE=token if it wants a token, or leave "
        f"{key.strip(' =')} out"
    )
    try:
        if address not in ("auto", "local"):
            socket.create_connection((host, int(port)), timeout_s).close()
        if address == "local":
            with _on_loopback():
                ray.init(address, **options)
        else:  # of a port that does not speak Ray's language it would wait for many minutes
            _call_in_time(partial(ray.init, address, **options), timeout_s)
    except (OSError, ValueError, RuntimeError) as error:
        raise ConfigError(
            f"{key}{address}: no Ray cluster answers ({last_line(error).partition('. Please')[0]}): {remedy}"
        ) from error
    try:
        if address != "local":
            check_nodes(ray, timeout_s)
    except BaseException:
        ray.shutdown()
        raise
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


def _call_in_time(function: Callable[[], Any], timeout_s: float) -> None:
    """Call a function in a thread, which is left behind after `timeout_s`."""
    errors: list[BaseException] = []

    def call() -> None:
        try:
            function()
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=call, name="slipstream ray", daemon=True)
    thread.start()
    thread.join(timeout_s)
    if thread.is_alive():
        raise TimeoutError(f"no answer within {timeout_s:g} s")
    for error in errors:
        raise error


def make_probe() -> Callable[[], dict[str, str]]:
    """Return a function that finds the versions of Python and `PACKAGES`. Ray sends its code: a node needs none."""
    names = PACKAGES

    def find_versions() -> dict[str, str]:
        import platform
        from importlib import metadata

        found = {"Python": ".".join(platform.python_version_tuple()[:2])}
        for name in names:
            try:
                found[name] = metadata.version(name)
            except metadata.PackageNotFoundError:
                found[name] = "none"
        return found

    return find_versions


def check_nodes(ray: Any, timeout_s: float) -> None:
    """Raise ConfigError if a node has other versions of Python, slipstream, torch or Ray, or does not answer."""
    affinity = importlib.import_module("ray.util.scheduling_strategies").NodeAffinitySchedulingStrategy
    find_versions = make_probe()
    mine = find_versions()
    nodes = {node["NodeID"]: node["NodeName"] for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU")}
    probe = ray.remote(num_cpus=0, max_retries=0)(find_versions)
    answers = {
        name: probe.options(scheduling_strategy=affinity(node, soft=False)).remote() for node, name in nodes.items()
    }
    for name, answer in answers.items():
        try:
            theirs = ray.get(answer, timeout=timeout_s)
        except ray.exceptions.RayError as error:
            raise ConfigError(
                f"node {name} of the Ray cluster does not answer ({last_line(error)}): remove it, or look at its logs"
            ) from error
        other = [f"{key} {theirs.get(key)} instead of {mine[key]}" for key in mine if theirs.get(key) != mine[key]]
        if other:
            raise ConfigError(f"node {name} of the Ray cluster has {', '.join(other)}: install the same versions there")


def last_line(error: BaseException) -> str:
    """Return the last line of an error's text."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1][:300].rstrip(".") if lines else type(error).__name__
