"""Compile the kernels of a training in another process, while it runs as CUDA graphs.

That process (this module, run) builds the same training and takes one compiled step. This fills the compiler's cache on
the disk, from which the training itself compiles in seconds. As another process it does not hold the lock of the
training's interpreter, which would stop it.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import torch

from slipstream.config.compose import from_dict, to_dict
from slipstream.sim.processes import python_command, python_environment
from slipstream.sim.search_path import current_folder
from slipstream.training.trainer import Trainer

COMMAND = python_command("-m", "slipstream.training.background_compile")
NOT_COMPILED = ("eval", "wandb", "distributed", "actors")  # sections of the config that kernels do not depend on
SPARE_BYTES = 2**30  # of GPU memory, for the other process's CUDA context
LIMIT_S = 900  # for compiling; a minute is usual
NOT_BUILT = 3  # exit code of a process that cannot build the training: a class that only this program knows, memory
_ERROR_BYTES = 4000  # of the text of an error


class KernelCompiler:
    """Runs `trainer` as its execution mode says. With `compile=auto` it begins with CUDA graphs, and changes to
    compiled kernels when another process has compiled them.

    Args:
        trainer: its next steps are captured.
        log: receives one line for each change.
    """

    def __init__(self, trainer: Trainer, log: Callable[[str], None]) -> None:
        self._trainer, self._log = trainer, log
        self._process: subprocess.Popen[bytes] | None = None
        self._errors: Any = None
        self._started_s = 0.0
        self._pending = can_compile_beside(trainer)  # compiled kernels are still to come
        self._switched_s: float | None = None  # when the change began, while its first iteration runs
        self._marker = _marker(trainer) if self._pending else None  # of the code as it is now
        trainer.capture(log, "graphs" if self._pending else None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        """End the other process."""
        self._pending = False
        if self._process is not None:
            _kill_group(self._process)
            self._forget()

    def poll(self) -> None:
        """Change to compiled kernels if they are there. Call it after each iteration."""
        if self._switched_s is not None:
            self._log(
                f"training with compiled kernels, after {time.perf_counter() - self._switched_s:.1f} s to load them"
            )
            self._switched_s = None
            self._mark()
        if not self._pending:
            return
        try:
            self._advance()
        except OSError as error:  # no process, no temporary file: the training does not need them
            self._stay(str(error))

    def _advance(self) -> None:
        if self._process is None:
            if self._marker is not None and self._marker.exists():
                self._switch("the kernels of this training are in the compiler's cache")
            elif not has_memory_for_two(self._trainer.env.device):
                self._switch("the GPU has too little free memory to compile beside the training")
            else:
                self._start()
            return
        code, late = self._process.poll(), time.perf_counter() - self._started_s > LIMIT_S
        if code is None and not late:
            return
        _kill_group(self._process)  # also the compiler's processes of one that has died
        reason = self._forget()
        if code == 0:
            self._switch("another process has compiled the kernels")
        elif code == NOT_BUILT:
            self._switch(f"another process cannot build this training ({reason})")
        else:
            self._stay(f"no end after {LIMIT_S} s" if code is None else reason or f"exit {code}")

    def _mark(self) -> None:
        """Remember, in the compiler's cache, that the kernels of this training are there."""
        with contextlib.suppress(OSError):  # without it the next training starts another process again
            if self._marker is not None:
                self._marker.parent.mkdir(parents=True, exist_ok=True)
                self._marker.touch()

    def _stay(self, reason: str) -> None:
        self._pending = False
        self._log(f"the kernels were not compiled, training continues as CUDA graphs: {reason}")

    def _start(self) -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 (closed in _forget)
        folders = [entry for entry in sys.path if entry not in ("", current_folder())]  # the same modules
        self._process = subprocess.Popen(
            COMMAND,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=self._errors,
            env=python_environment(PYTHONPATH=os.pathsep.join(folders)),
            start_new_session=True,  # Ctrl-C is for the training; one signal reaches the compiler's own processes too
        )
        self._started_s = time.perf_counter()
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # `poll` finds out why
            self._process.stdin.write(json.dumps(to_dict(self._trainer.cfg)).encode() + b"\n")
            self._process.stdin.flush()  # it stays open: its end is the end of the training
        self._log("training as CUDA graphs, while another process compiles the kernels")

    def _forget(self) -> str:
        """Forget the process, which has ended; return the last line of its errors."""
        process, self._process = self._process, None
        assert process is not None and process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()
        with self._errors as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _ERROR_BYTES))
            lines = file.read().decode(errors="replace").strip().splitlines()
        return lines[-1][:300] if lines else ""

    def _switch(self, why: str) -> None:
        self._pending, began_s = False, time.perf_counter()
        self._log(why)
        if self._trainer.env.device.type == "cuda":
            torch.cuda.synchronize()  # the graphs that are freed may still run
        self._trainer.capture(self._log, "compiled")
        self._switched_s = began_s


def can_compile_beside(trainer: Trainer) -> bool:
    """Return whether `trainer` may begin before its kernels are compiled. Ranks would have to change together; actors
    and a pipelined collector run beside the change."""
    cfg, collector = trainer.cfg, trainer.collector
    alone = trainer.ranks.sums is None and not cfg.actors.count and not collector.runs_ahead
    return cfg.compile == "auto" and trainer.execution_mode() == "compiled" and alone and os.name == "posix"


def has_memory_for_two(device: torch.device) -> bool:
    """Return whether the GPU has room for the same training again, and for the graphs of this one."""
    if device.type != "cuda":
        return True
    return torch.cuda.mem_get_info(device)[0] > 2 * torch.cuda.max_memory_reserved(device) + SPARE_BYTES


def _marker(trainer: Trainer) -> Path:
    """Return the file that says that the kernels of `trainer` are in the compiler's cache: its name depends on the
    device, torch, our code, and the settings that kernels depend on."""
    from torch._inductor.runtime.cache_dir_utils import cache_dir

    config = to_dict(trainer.cfg)
    settings = {k: v for k, v in config.items() if k == "task" or (isinstance(v, dict) and k not in NOT_COMPILED)}
    device = trainer.env.device
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
    made_of = [settings, torch.__version__, name]
    digest = hashlib.blake2b(json.dumps(made_of, sort_keys=True, default=str).encode(), digest_size=16)
    for path in sorted(Path(__file__).parents[1].rglob("*.py")):
        digest.update(path.read_bytes())
    return Path(cache_dir()) / "slipstream" / digest.hexdigest()


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    """End a process and those that it started; it leads a session."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


# -- the other process -------------------------------------------------------------------------------------------------


def main() -> None:
    """Compile the training whose config is the first line of the standard input; end when the input ends."""
    os.nice(10)
    config = json.loads(sys.stdin.buffer.readline())

    def watch() -> None:
        sys.stdin.buffer.read()  # until the training ends, however it does
        os.killpg(0, signal.SIGKILL)

    threading.Thread(target=watch, daemon=True).start()
    code = NOT_BUILT  # the training then compiles by itself
    try:
        trainer = Trainer(from_dict(config))
        code = 1
        trainer.capture(lambda text: None, "compiled")
        trainer.step()
        if trainer.env.device.type == "cuda":
            torch.cuda.synchronize()
    except torch.OutOfMemoryError:
        traceback.print_exc()
        os._exit(NOT_BUILT)
    except BaseException:  # an ordinary exit would wait for the lock of the standard input, and abort
        traceback.print_exc()
        os._exit(code)
    os._exit(0)


if __name__ == "__main__":
    main()
