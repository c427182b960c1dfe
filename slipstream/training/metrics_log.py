"""RunLog: the metrics of a run as JSON lines, for TensorBoard and, on request, for Weights & Biases."""

from __future__ import annotations

import importlib.util
import json
import math
import os
import re
import struct
import sys
import time
import uuid
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from os import PathLike
from pathlib import Path
from typing import Any

from slipstream.storage.errors import DamagedFileError
from slipstream.storage.files import open_in_place, sync_folder, write_file
from slipstream.storage.tensor_file import Reader
from slipstream.training.run_folder import RunFolder

KEEP_ROWS = 4096  # the newest rows are all kept; of older ones every 2nd, 4th, ... as their number doubles
MAX_BYTES = 32 << 20  # the file is thinned when it is larger, and twice as large as after the last time
_ITERATION = re.compile(rb'\{"iteration": (\d{1,18})\b')
_BLOCK = 1 << 20  # a longer line is no row
_LINE_BYTES = 48  # memory of a line besides its bytes
TENSORBOARD, WANDB = "TensorBoard", "W&B"
_NUMBERS = frozenset((int, float, type(None)))
_LARGEST = sys.float_info.max


class RunLog(AbstractContextManager["RunLog"]):
    """Writes one row per iteration; use it in a `with` block.

    The file stays bounded: see `thin`. TensorBoard and W&B get rows at the same rates; a run continues without them if
    they fail.

    Rows bear the number of iterations done, as checkpoints, rollouts and the screen do: the first is 1.
    A log opened after `done` iterations first forgets the rows of later ones: a run that died after its last checkpoint
    and flies those iterations again has the log of a run that never died. (W&B cannot forget: it keeps the first
    flight's.)
    """

    def __init__(
        self,
        run: RunFolder,
        wandb: Mapping[str, Any] | None = None,
        done: int = 0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        wandb = dict(wandb or {})
        mode = wandb.pop("mode", None) or "disabled"
        if mode == "auto":
            found = importlib.util.find_spec("wandb")
            is_package = found is not None and found.origin is not None  # W&B's own folder of runs has the same name
            mode = "offline" if is_package else "disabled"
        self._frames, used_s = _drop_rows_after(done, run.metrics_path)  # before this start
        self._run, self._clock, self._start_s = run, clock, clock() - used_s
        self._loggers: dict[str, Any] = {}  # TensorBoard and W&B; None for one that is missing or has failed
        if mode != "disabled":
            self._loggers[WANDB] = _start_wandb(run, mode, wandb)
        self._open()
        sync_folder(run.path)
        self._thin_at = MAX_BYTES
        self._names: set[str] = set()  # of the row before

    def write(
        self,
        iteration: int,
        frames: int,
        metrics: Mapping[str, float],
        machine: Mapping[str, float] | None = None,
        time_s: float | None = None,
    ) -> None:
        """Add the row of `iteration`, counted from 1, after `frames` frames in total.

        Args:
            metrics: numbers by name.
            machine: numbers that depend on the machine's speed, such as `checkpoint/queue_size`. metrics.jsonl has them
                as `perf/NAME`: all keys without `perf/` are the same for the same seed.
            time_s: when the iteration was done, by `elapsed_s`, the wall time spent in the run over all its resumes; by
                default now.
        """
        values = {name: _finite(value) for name, value in metrics.items()}
        speed = {name: _finite(value) for name, value in (machine or {}).items()}
        time_s = round(self.elapsed_s() if time_s is None else time_s, 3)
        row = {"iteration": iteration, "frames": frames, "time_s": time_s} | values
        row |= {f"perf/{name}": value for name, value in speed.items()}
        self._file.write(json.dumps(row, allow_nan=False) + "\n")
        self._file.flush()
        if self._file.tell() > self._thin_at:
            self._thin()
        numbers = {name: value for name, value in (values | speed).items() if value is not None}
        special, self._names = not self._names.issuperset(values), set(values)  # such as the row of an evaluation
        if special or iteration % _stride(iteration) == 0:
            self._start_tensorboard()
            self._log_to(TENSORBOARD, lambda log: [log.add_scalar(name, x, frames) for name, x in numbers.items()])
            self._log_to(WANDB, lambda log: log.log({"frames": frames, **numbers}, step=iteration))

    def add_film(self, film: Path, iteration: int, frames: int) -> None:
        """Add a recorded flight, a GIF, to TensorBoard and W&B; the file may be removed afterwards."""
        data = film.read_bytes()

        def log_video(log: Any) -> None:
            import wandb

            video = wandb.Video(str(film), caption=f"iteration {iteration:,}", format="gif")
            log.log({"frames": frames, "flight": video})  # copies the file

        self._start_tensorboard()
        self._log_to(TENSORBOARD, lambda log: log.file_writer.add_summary(_image_summary(data), frames))
        self._log_to(WANDB, log_video)

    def elapsed_s(self) -> float:
        """Return the wall time spent in the run."""
        return self._clock() - self._start_s

    def _open(self) -> None:
        fd = open_in_place(self._run.metrics_path, os.O_APPEND)
        self._file = os.fdopen(fd, "a", encoding="utf-8")  # closed by close()

    def _thin(self) -> None:
        self._file.close()
        try:
            write_file(self._run.metrics_path, thin(self._run.metrics_path.read_bytes()))
        finally:
            self._open()
        self._thin_at = max(MAX_BYTES, 2 * self._run.metrics_path.stat().st_size)

    def _start_tensorboard(self) -> None:
        """Start TensorBoard with the first row: it takes a second to import."""
        if TENSORBOARD not in self._loggers:
            self._loggers[TENSORBOARD] = _start_tensorboard(self._run, self._frames)

    def _log_to(self, name: str, write: Callable[[Any], object]) -> None:
        """Write to TensorBoard or W&B; continue without one that fails: all metrics are in metrics.jsonl."""
        logger = self._loggers.get(name)
        if logger is None:
            return
        try:
            write(logger)
        except Exception as error:  # those of W&B have no common class
            print(f"{name} cannot write ({error}): from here on metrics go to metrics.jsonl only", file=sys.stderr)
            self._loggers[name] = None

    def flush(self) -> None:
        """Make all rows durable. Call it when a checkpoint is saved, so that the log reaches at least as far."""
        self._file.flush()
        os.fsync(self._file.fileno())
        self._log_to(TENSORBOARD, lambda log: log.flush())

    def close(self) -> None:
        """Flush and close; a second call does nothing."""
        if self._file.closed:
            return
        try:
            self.flush()
        finally:
            self._file.close()
            self._log_to(TENSORBOARD, lambda log: log.close())
            self._log_to(WANDB, lambda log: log.finish())

    def __exit__(self, *exc: object) -> None:
        self.close()


def read_metrics(path: str | PathLike[str]) -> list[dict[str, Any]]:
    """Return the rows of a metrics.jsonl, or of the run folder that holds one, without a last line that a crash cut
    short."""
    path = Path(path)
    if path.is_dir():
        path = path / "metrics.jsonl"
    reader = Reader(path)
    data = reader.read(path)
    reader.claim(_LINE_BYTES * data.count(b"\n"), "the lines")
    lines = data.rstrip().split(b"\n")
    rows = []
    for number, line in enumerate(lines, start=1):
        try:
            row = reader.json(line, f"line {number}")
        except DamagedFileError as error:
            if number == len(lines):
                break
            raise DamagedFileError(f"{error}: only the last line of a log may be cut short") from error
        if not isinstance(row, dict):
            reader.fail(f"line {number} is not an object with the metrics of an iteration")
        if not _NUMBERS.issuperset(map(type, row.values())) or any(abs(x or 0) > _LARGEST for x in row.values()):
            reader.fail(f"line {number} has a metric that is not a finite number")
        rows.append(row)
    return rows


def thin(log: bytes) -> bytes:
    """Return a log with all of its newest rows, and the fewer of the older ones the older they are.

    Rows with another number of metrics than most, such as those of evaluations, are kept, unless there are more than
    KEEP_ROWS of them.
    """
    lines = log.splitlines(keepends=True)
    numbers = [int(match[1]) if (match := _ITERATION.match(line)) else 0 for line in lines]
    sizes = [line.count(b'":') for line in lines]
    usual = Counter(sizes).most_common(1)[0][0]
    special = sum(size != usual for size in sizes) <= KEEP_ROWS
    newest = numbers[-1]
    return b"".join(
        line
        for line, number, size in zip(lines, numbers, sizes, strict=True)
        if number % _stride(newest - number) == 0 or (special and size != usual)
    )


def _stride(age: int) -> int:
    """Return of how many rows one is kept that are `age` iterations old: 1, then 2, 4, ... as the age doubles."""
    return 1 << max(age // KEEP_ROWS, 0).bit_length()


def _drop_rows_after(iteration: int, path: Path) -> tuple[int, float]:
    """Remove the rows after `iteration`; return frames and time of the last one left. A line that is no row is kept
    only before one."""
    if not path.exists():
        return 0, 0.0
    reader, end, last = Reader(path), 0, b""
    with os.fdopen(open_in_place(path), "r+b") as file:
        while line := file.readline(_BLOCK):
            row = _ITERATION.match(line)
            if row and int(row[1]) <= iteration and line.rstrip().endswith(b"}"):  # not cut short by a crash
                end, last = file.tell(), line
        if iteration and file.tell() and not last:
            reader.fail(f"it has no row of the first {iteration:,} iterations")
        file.truncate(end)
        if last and not last.endswith(b"\n"):  # the process died between the row and its end
            file.seek(end)
            file.write(b"\n")
        file.flush()
        os.fsync(file.fileno())
    if not last:
        return 0, 0.0
    row = reader.json(last, "the last row")
    with reader.parsing("the last row"):
        frames, time_s = reader.integer(row["frames"], "the number of frames"), row["time_s"]
        if type(time_s) not in (int, float) or not math.isfinite(time_s):
            reader.fail("the time in the last row is not a number")
    return frames, time_s


def _finite(value: float) -> float | None:
    """Return the value as a float; None for NaN and infinities, which JSON does not have."""
    return float(value) if math.isfinite(value) else None


def _start_tensorboard(run: RunFolder, frames: int) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter  # takes a second to import
    except ImportError:
        print(
            "TensorBoard is not installed (pip install tensorboard): metrics go to metrics.jsonl only", file=sys.stderr
        )
        return None
    return SummaryWriter(str(run.path / "tensorboard"), purge_step=frames + 1 if frames else None)


def _image_summary(gif: bytes) -> Any:
    from tensorboard.compat.proto.summary_pb2 import Summary

    width, height = struct.unpack_from("<HH", gif, 6)  # of the header
    image = Summary.Image(height=height, width=width, colorspace=3, encoded_image_string=gif)
    return Summary(value=[Summary.Value(tag="flight", image=image)])


def _start_wandb(run: RunFolder, mode: str, settings: dict[str, Any]) -> Any:
    """Start or continue the W&B run `run_id`, by default the one whose id is in the run folder; None if that fails."""
    given = {key: value for key, value in settings.items() if value is not None}
    try:
        run_id = given.pop("run_id", None) or _wandb_id(run)
        defaults = {"project": "slipstream", "name": run.path.name, "config": run.config()}
        identity = {"id": run_id, "resume": "allow", "dir": str(run.path), "mode": mode}
        for name in ("WANDB_DISABLE_GIT", "WANDB_DISABLE_CODE"):  # it would run git here, and upload what differs
            os.environ.setdefault(name, "true")
        import wandb  # takes a second

        return wandb.init(**(defaults | given | identity))
    except DamagedFileError:
        raise
    except ImportError as error:
        remedy = f"cannot be imported ({error}): pip install -e '.[wandb]'"
    except Exception as error:  # such as no network, or nobody logged in; its errors have no common class
        remedy = f"could not start it ({error}): wandb.mode=offline logs to the disk"
    print(f"warning: wandb.mode={mode}, but W&B {remedy}. The run continues without it", file=sys.stderr)
    return None


def _wandb_id(run: RunFolder) -> str:
    path = run.path / "wandb.json"
    if not path.exists():
        write_file(path, json.dumps({"id": uuid.uuid4().hex}).encode())
    reader = Reader(path)
    with reader.parsing("the id of the W&B run"):
        return reader.text(reader.json(reader.read(path))["id"], "the id", 128)
