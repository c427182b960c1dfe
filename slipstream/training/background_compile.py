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
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

import torch

from slipstream.config.compose import from_dict, to_dict
from slipstream.sim.processes import end_beside, end_with_input, python_command, python_environment, start_beside
from slipstream.sim.search_path import current_folder
from slipstream.training.run_folder import code_version
from slipstream.training.trainer import Trainer

COMMAND = python_command("-m", "slipstream.training.background_compile")
NOT_COMPILED = ("eval", "wandb", "distributed", "actors")  # sections of the config that kernels do not depend on
SPARE_BYTES = 2**30  # of GPU memory, for the other process's CUDA context
LIMIT_S = 900  # for compiling; a minute is usual
NOT_BUILT = 3  # exit code of a process that cannot build the training: a class that only this program knows, memory


class KernelCompiler(contextlib.AbstractContextManager["KernelCompiler"]):
    """Runs `trainer` as its execution mode says. With `compile=auto` it begins with CUDA graphs, and changes to
    compiled kernels when another process has compiled them.

    Args:
        trainer: its next steps are captured.
        log: receives one line for each change.
    """

    def __init__(self, trainer: Trainer, log: Callable[[str], None]) -> None:
        self._trainer, self._log = trainer, log
        self._process: subprocess.Popen[bytes] | None = None
        pending = can_compile_beside(trainer)
        # The marker is of the code as it is now.
        self._change = self._change_beside(_marker(trainer)) if pending else iter(())
        trainer.capture(log, "graphs" if pending else None)

    def __exit__(self, *exc: object) -> None:
        """End the other process."""
        if self._process is not None:
            end_beside(self._process)

    def poll(self) -> None:
        """Change to compiled kernels if they are there. Call it after each iteration."""
        next(self._change, None)

    def _change_beside(self, marker: Path) -> Iterator[None]:
        """Let another process compile, unless it is not needed or has no room; then change. Yields between
        iterations."""
        why = ""
        if marker.exists():
            why = "the kernels of this training are in the compiler's cache"
        elif not has_memory_for_two(self._trainer.env.device):
            why = "the GPU has too little free memory to compile beside the training"
        else:
            try:
                self._process, started_s = self._start(), time.perf_counter()
                self._log("training as CUDA graphs, while another process compiles the kernels")
                yield
                while (code := self._process.poll()) is None and time.perf_counter() - started_s <= LIMIT_S:
                    yield
                process, self._process = self._process, None
                reason = end_beside(process).rpartition("\n")[2][:300]  # also its own processes, if it has died
                if code == 0:
                    why = "another process has compiled the kernels"
                elif code == NOT_BUILT:
                    why = f"another process cannot build this training ({reason})"
                else:
                    reason = f"no end after {LIMIT_S} s" if code is None else reason or f"exit {code}"
            except OSError as error:  # no process, no temporary file: the training does not need them
                reason = str(error)
        if not why:
            self._log(f"the kernels were not compiled, training continues as CUDA graphs: {reason}")
            return
        began_s = time.perf_counter()
        self._log(why)
        if self._trainer.env.device.type == "cuda":
            torch.cuda.synchronize()  # the graphs that are freed may still run
        self._trainer.capture(self._log, "compiled")
        yield  # the first iteration loads them
        self._log(f"training with compiled kernels, after {time.perf_counter() - began_s:.1f} s to load them")
        with contextlib.suppress(OSError):  # without the marker the next training starts another process again
            marker.parent.mkdir(parents=True, exist_ok=True)
            marker.touch()

    def _start(self) -> subprocess.Popen[bytes]:
        """Start the other process, which finds the same modules."""
        folders = [entry for entry in sys.path if entry not in ("", current_folder())]
        config = json.dumps(to_dict(self._trainer.cfg)).encode()
        return start_beside(COMMAND, python_environment(PYTHONPATH=os.pathsep.join(folders)), config + b"\n")


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
    made_of = json.dumps([settings, torch.__version__, name, code_version()], sort_keys=True, default=str)
    return Path(cache_dir()) / "slipstream" / hashlib.blake2b(made_of.encode(), digest_size=16).hexdigest()


# -- the other process -------------------------------------------------------------------------------------------------


def main() -> None:
    """Compile the training whose config is the first line of the standard input."""
    os.nice(10)
    config, is_built = json.loads(sys.stdin.buffer.readline()), False
    end_with_input()
    try:
        trainer = Trainer(from_dict(config))
        is_built = True
        trainer.capture(lambda text: None, "compiled")
        trainer.step()
        if trainer.env.device.type == "cuda":
            torch.cuda.synchronize()
    except BaseException as error:
        traceback.print_exc()
        here = not is_built or isinstance(error, torch.OutOfMemoryError)  # the training then compiles by itself
        os._exit(NOT_BUILT if here else 1)
    os._exit(0)


if __name__ == "__main__":
    main()
