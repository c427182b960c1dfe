"""Processes beside a training, which compile its kernels or fly its weights.

Each leads a session: Ctrl-C is for the training, and one signal reaches the processes that it starts itself, too. It
ends when its standard input does, so that it does not outlive the training, however that ends.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
import threading

ERROR_BYTES = 2000  # of the text of an error


def start(command: list[str], env: dict[str, str], line: bytes = b"") -> subprocess.Popen[bytes]:
    """Start a process; its standard input begins with `line` and stays open, its errors go to a temporary file."""
    errors = tempfile.TemporaryFile()  # noqa: SIM115 (closed in `end`)
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=errors, env=env, start_new_session=True
    )
    process.stderr = errors
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError):  # it has ended
        process.stdin.write(line)
        process.stdin.flush()
    return process


def end(process: subprocess.Popen[bytes]) -> str:
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
