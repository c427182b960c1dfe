"""Python processes that have torch loaded from the start: `run` and `Popen` in place of those of subprocess.

Loading Python, torch and tensordict takes 3 s of CPU time, a fork of a process that has them 0.1 s. The first start
makes a server, which loads them and forks once per program. A program is a child of the caller, as with subprocess, and
has its own arguments, folder, environment, pipes and exit. Programs that need a real start (options of the
interpreter, or variables that a library reads while it is loaded) are left to subprocess. Do not use this module to
test the start itself: the order of imports, warnings of an import, the threads of OpenMP.

Two variables in the environment of a program change it:
- WARM_TEARDOWN=1: at its end Python destroys all modules (0.3 s), as usual. Otherwise it ends after the threads, the
  atexit functions and the flush of its output.
- WARM_CHILDREN=1: Python programs that it starts are forks too.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import gc
import importlib
import inspect
import io
import json
import os
import runpy
import signal
import socket
import struct
import subprocess
import sys
import threading
from pathlib import Path
from types import ModuleType
from typing import Any

PRELOADED = ("slipstream.train", "slipstream.cli", "numba", "tensordict", "torch.utils.tensorboard")
PRELOADED += ("matplotlib.figure", "matplotlib.backends.backend_agg")  # a training draws its curves
# Variables that are read once, while Python or a library is loaded. A fork sets those of SET_AGAIN itself.
READ_ONCE = ("PYTHON", "OMP_", "GOMP_", "MKL_", "OPENBLAS_", "NUMBA_", "TORCH_", "TRITON_", "LD_", "LC_", "LANG")
SET_AGAIN = (
    "PYTHONPATH",
    "PYTHONUNBUFFERED",
    "OMP_NUM_THREADS",
    "NUMBA_NUM_THREADS",
    "TORCH_NCCL_ASYNC_ERROR_HANDLING",
)
NOT_FORKED = ("preexec_fn", "pass_fds", "shell", "gid", "gids", "uid", "process_group")
STARTER = (
    "torch.distributed.elastic.multiprocessing.subprocess_handler.subprocess_handler"  # torchrun starts ranks with it
)
LENGTH = struct.Struct("<q")
PR_SET_CHILD_SUBREAPER = 36
ENVIRONMENT = dict(os.environ)


def run(
    args: list[str], *, capture_output: bool = False, timeout: float | None = None, check: bool = False, **options: Any
) -> subprocess.CompletedProcess:
    """Run a program to its end, as `subprocess.run` does."""
    if capture_output:
        options |= {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with Popen(args, **options) as process:
        try:
            out, err = process.communicate(timeout=timeout)
        except BaseException:
            process.kill()
            raise
    done = subprocess.CompletedProcess(args, process.returncode, out, err)
    if check:
        done.check_returncode()
    return done


class Popen(subprocess.Popen):
    """A program in a fork of the server, which `subprocess.Popen` then treats as its own child."""

    def _execute_child(self, *args: Any) -> None:
        given = inspect.signature(super()._execute_child).bind(*args).arguments
        words, env = list(map(os.fspath, given["args"])), dict(given["env"] or os.environ)
        safe = words[1] == "-P"
        del words[1 : 1 + safe]
        if (
            sys.platform != "linux"
            or words[0] != sys.executable
            or (words[1].startswith("-") and words[1] not in ("-c", "-m"))
            or any(given[name] not in (None, False, (), -1) for name in NOT_FORKED)
            or _read_once(env) != _read_once(ENVIRONMENT)
        ):
            return super()._execute_child(*args)
        ends = [given["p2cread"], given["c2pwrite"], given["errwrite"]]
        request = {"args": words[1:], "cwd": os.path.abspath(given["cwd"] or "."), "env": env}
        request["session"], request["safe"] = given["start_new_session"], safe
        self.pid = _server().start(request, [i if end == -1 else end for i, end in enumerate(ends)])
        self._child_created = True
        pipes = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")
        self._close_pipe_fds(*(given[name] for name in pipes))


class Server:
    """The process that is forked; it ends when the socket to it closes."""

    def __init__(self, connection: socket.socket | None = None) -> None:
        self.lock = threading.Lock()
        if connection is not None:  # it runs already
            self.socket = connection
            return
        self.socket, theirs = socket.socketpair()
        command = [sys.executable, __file__, str(theirs.fileno())]
        # OpenBLAS starts threads while numpy is loaded; numba's number can only become smaller
        env = ENVIRONMENT | {"OPENBLAS_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "64"}
        self.process = subprocess.Popen(
            command, env=env, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
        )
        theirs.close()

    def start(self, request: dict[str, Any], ends: list[int]) -> int:
        """Start a program with these three files; return its process, a child of this one."""
        data = json.dumps(request).encode()
        with self.lock, _adopting():
            socket.send_fds(self.socket, [LENGTH.pack(len(data))], ends)
            self.socket.sendall(data)
            answer = self.socket.recv(LENGTH.size)
        if len(answer) < LENGTH.size:
            raise RuntimeError("the server of warm_python.py has failed; its error is in this test's stderr")
        return LENGTH.unpack(answer)[0]


_servers: dict[int, Server] = {}


def _server() -> Server:
    if os.getpid() not in _servers:
        _servers[os.getpid()] = Server()
    return _servers[os.getpid()]


def _read_once(env: Any) -> dict[str, str]:
    return {k: v for k, v in env.items() if k.startswith(READ_ONCE) and k not in SET_AGAIN}


@contextlib.contextmanager
def _adopting() -> Any:
    """Become the parent of processes below this one whose parent ends."""
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    for on in (1, 0):
        if prctl(PR_SET_CHILD_SUBREAPER, on, 0, 0, 0):
            raise OSError(ctypes.get_errno(), "prctl")
        if on:
            yield


def serve(connection: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """Fork for each request; return it in the fork."""
    while True:
        head, ends, _, _ = socket.recv_fds(connection, LENGTH.size, 3)
        if not head:
            os._exit(0)
        data = connection.recv(LENGTH.unpack(head)[0], socket.MSG_WAITALL)
        threads = os.listdir("/proc/self/task")
        if len(threads) != 1:
            raise RuntimeError(f"a fork would lose {len(threads) - 1} threads: do not preload what starts them")
        reader, writer = os.pipe()
        middle = os.fork()
        if not middle:  # it ends at once, so that its child is adopted
            middle = os.getpid()
            if pid := os.fork():
                os.write(writer, LENGTH.pack(pid))
                os._exit(0)
            os.close(reader), os.close(writer), connection.close()
            while os.getppid() == middle:
                os.sched_yield()
            return json.loads(data), ends
        os.waitpid(middle, 0)
        connection.sendall(os.read(reader, LENGTH.size))
        for end in (reader, writer, *ends):
            os.close(end)


def become(request: dict[str, Any], ends: list[int], installed: list[str]) -> None:
    """Run the program of a request in this process as if it had been started for it."""
    global ENVIRONMENT
    if request["env"].pop("WARM_CHILDREN", None):
        ours, theirs = socket.socketpair()
        if not os.fork():
            for end in (ours.detach(), *ends):
                os.close(end)
            return become(*serve(theirs), installed)
        theirs.close()
        _servers[os.getpid()], ENVIRONMENT = Server(ours), dict(request["env"])
        importlib.import_module(STARTER).Popen = Popen
    if request["session"]:
        os.setsid()
    for number, end in enumerate(ends):
        os.dup2(end, number)
        os.close(end)
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        old = getattr(sys, name)
        direct = bool(number and request["env"].get("PYTHONUNBUFFERED"))
        file = open(number, "wb" if number else "rb", 0 if direct else -1, closefd=False)  # noqa: SIM115
        new = io.TextIOWrapper(file, old.encoding, old.errors, line_buffering=number == 2, write_through=direct)
        setattr(sys, name, new), setattr(sys, f"__{name}__", new)
    os.chdir(request["cwd"])
    env = request["env"]
    os.environ.clear()
    os.environ.update(env)
    torch, threads = sys.modules["torch"], int(env.get("OMP_NUM_THREADS", len(os.sched_getaffinity(0))))
    if threads != torch.get_num_threads():
        torch.set_num_threads(threads)
    config = sys.modules["numba"].config
    config.reload_config()
    sys.modules["numba.np.ufunc.parallel"].NUM_THREADS = config.NUMBA_NUM_THREADS
    sys.modules["numpy"].random.seed()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    first, *rest = request["args"]
    main = sys.modules["__main__"] = ModuleType("__main__")
    folder = {"-c": "", "-m": request["cwd"]}.get(first, os.path.dirname(os.path.abspath(first)))
    sys.path[:] = [*([] if request["safe"] else [folder]), *_python_path(), *installed]
    importlib.invalidate_caches()
    ending = None  # after an interrupt Python sends itself the signal
    try:
        if first == "-m":
            sys.argv[:] = rest
            if not hasattr(sys.modules.get(rest[0]), "__path__"):
                sys.modules.pop(rest[0], None)
            runpy._run_module_as_main(rest[0])
        elif first == "-c":
            sys.argv[:] = ["-c", *rest[1:]]
            exec(compile(rest[0], "<string>", "exec"), main.__dict__)
        else:
            sys.argv[:] = [first, *rest]
            main.__file__ = first
            exec(compile(Path(first).read_bytes(), first, "exec"), main.__dict__)
        ending = 0
    except SystemExit as error:
        ending = error.code if isinstance(error.code, int) else int(error.code is not None)
        raise
    except Exception:
        ending = 1
        raise
    finally:
        if ending is not None and not env.get("WARM_TEARDOWN"):
            _exit_code.append(ending)


_exit_code: list[int] = []


def _leave() -> None:
    """Skip the destruction of modules. Registered as the first atexit function, it is called as the last one."""
    with contextlib.suppress(Exception):  # an output that fails is reported by Python itself
        for file in (sys.stdout, sys.stderr):
            file.flush()
        for code in _exit_code:
            os._exit(code)


def _python_path() -> list[str]:
    return [os.path.abspath(path) for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    atexit.register(_leave)
    with_us = sys.path[1 + len(_python_path()) :]
    for name in PRELOADED:
        importlib.import_module(name)
    target = importlib.import_module("numba.core.registry").cpu_target
    target.typing_context.refresh(), target.target_context.refresh()  # otherwise with the first kernel: 0.6 s
    gc.freeze()
    become(*serve(socket.socket(fileno=int(sys.argv[1]))), with_us)
