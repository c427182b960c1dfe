"""Python processes beside this one, and work that is spread over several of them."""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from slipstream.sim.search_path import end_of_own, folders_given

_MAX_PROCESSES, _MIN_ITEMS = 8, 16  # of each: one takes a quarter of a second to start
# Not `multiprocessing`: it would run the user's script again, or copy a process with threads.
_WORKER = """
import importlib, pickle, sys
module, name, items = pickle.load(sys.stdin.buffer)
function = getattr(importlib.import_module(module), name)
pickle.dump([function(*item) for item in items], sys.stdout.buffer)
"""


def python_command(*words: str) -> list[str]:
    """Return the command of a Python process that does not search for modules in the current folder. Its environment is
    `python_environment`."""
    return [sys.executable, "-P", *words]


def python_environment(**more: str) -> dict[str, str]:
    """Return the environment of a Python process that finds this package where this process has found it."""
    given = folders_given()
    package = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
    if package in map(os.path.realpath, sys.path[: end_of_own()]):  # otherwise it is installed
        given += [package]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(dict.fromkeys(given)), **more}


# -- beside a training -------------------------------------------------------------------------------------------------

ERROR_BYTES = 2000  # of the text of an error


def start_beside(command: list[str], env: dict[str, str], line: bytes = b"") -> subprocess.Popen[bytes]:
    """Start a process beside a training, which compiles its kernels or flies its weights. Its standard input begins
    with `line` and stays open, its errors go to a temporary file.

    It leads a session: Ctrl-C is for the training, and one signal reaches the processes that it starts itself, too. It
    ends when its standard input does (`end_with_input`), so that it does not outlive the training, however that ends.
    """
    errors = tempfile.TemporaryFile()  # noqa: SIM115 (closed in `end_beside`)
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=errors, env=env, start_new_session=True
    )
    process.stderr = errors
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError):  # it has ended
        process.stdin.write(line)
        process.stdin.flush()
    return process


def end_beside(process: subprocess.Popen[bytes]) -> str:
    """End a process and those that it has started; return the end of its errors."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert process.stdin is not None and process.stderr is not None
    with contextlib.suppress(BrokenPipeError):
        process.stdin.close()
    with process.stderr as errors:
        errors.seek(max(0, errors.seek(0, os.SEEK_END) - ERROR_BYTES))
        return errors.read().decode(errors="replace").strip()


def end_with_input() -> None:
    """End this process, and those that it starts, when its standard input ends."""

    def watch() -> None:
        while os.read(0, 4096):
            pass
        os.killpg(0, signal.SIGKILL)

    threading.Thread(target=watch, daemon=True).start()


# -- work in several processes -----------------------------------------------------------------------------------------


def map_in_processes(function: Callable[..., Any], items: list[tuple[Any, ...]], count: int | None = None) -> list[Any]:
    """Return `[function(*item) for item in items]`, computed by several processes if there are many items and cores.

    Args:
        function: of a module that does not import torch, which would take seconds in each process.
        count: processes; by default chosen from the numbers of items and cores.
    """
    if count is None:
        cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else 1
        count = min(_MAX_PROCESSES, cores // 2, len(items) // _MIN_ITEMS)
    if count > 1 and sys.executable and not getattr(sys, "frozen", False):  # Python is not part of another program
        # no process, or one that failed
        with contextlib.suppress(OSError, subprocess.SubprocessError, EOFError, pickle.PickleError):
            return _map(function, items, count)
    return [function(*item) for item in items]


def _map(function: Callable[..., Any], items: list[tuple[Any, ...]], count: int) -> list[Any]:
    command, env = python_command("-c", _WORKER), python_environment(OPENBLAS_NUM_THREADS="1")
    folder = os.path.dirname(__file__)  # numba reads settings from the current one

    def compute(part: int) -> list[Any]:
        work = pickle.dumps((function.__module__, function.__name__, items[part::count]))
        output = subprocess.check_output(command, input=work, cwd=folder, env=env, stderr=subprocess.DEVNULL)
        return pickle.loads(output)  # type: ignore[no-any-return]

    results: list[Any] = [None] * len(items)
    with ThreadPoolExecutor(count) as pool:
        for part, values in enumerate(pool.map(compute, range(count))):
            results[part::count] = values
    return results
