"""RunOutputs: everything a training writes and shows: checkpoints, rollouts, the metrics log, the terminal view."""

from __future__ import annotations

import os
import signal
import stat
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from typing import Any, Self

import torch
from torch import Tensor

from slipstream.checkpoint import AsyncCheckpointSaver
from slipstream.checkpoint.signals import StopFlag
from slipstream.monitor import PerformanceMonitor
from slipstream.storage.background import close_after
from slipstream.storage.errors import SaveError
from slipstream.tasks.base import Task
from slipstream.training.live_view import LiveView
from slipstream.training.metrics_log import RunLog, read_metrics
from slipstream.training.record import FlightRecorder
from slipstream.training.resume import explain_save_errors
from slipstream.training.run_folder import STOPPED, RunFolder
from slipstream.training.trainer import StepResult, Trainer
from slipstream.ui.tables import PipedConsole, progress_bar

SCORES = ("episode/return", "episode/success", "eval/score", "eval/success", "eval/return")  # noted with a checkpoint


class Clock:
    """Training time, without that of evaluations; `used_s` seconds were used before."""

    def __init__(self, used_s: float = 0.0) -> None:
        self._start = time.perf_counter() - used_s

    def used_s(self) -> float:
        """Return the training time so far, in seconds."""
        return time.perf_counter() - self._start

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Exclude the time of a block."""
        began = time.perf_counter()
        yield
        self._start += time.perf_counter() - began


class ReadBack:
    """Metrics of each iteration: sent when its work is queued, taken when it is done, on a GPU one iteration later."""

    def __init__(self, device: torch.device) -> None:
        self._cuda = device.type == "cuda"
        self._sent: deque[tuple[Any, dict[str, int], Tensor, torch.cuda.Event | None]] = deque()
        self._free: list[Tensor] = []  # pinned memory to use again

    def send(self, label: Any, metrics: Mapping[str, Tensor]) -> None:
        """Queue the copy of metrics by name, scalars or vectors [k], to the host; nothing waits."""
        in_order = sorted(metrics.items(), key=lambda item: item[1].ndim)
        sizes = {name: x.numel() if x.ndim else 0 for name, x in in_order}  # scalars, marked by 0, come first
        scalars = [x for x in metrics.values() if not x.ndim]
        vectors = [x.double() for x in metrics.values() if x.ndim]
        numbers = torch.cat((torch.stack(scalars).double(), *vectors)) if scalars else torch.cat(vectors)
        if not self._cuda:
            self._sent.append((label, sizes, numbers.detach(), None))
            return
        fits = [i for i, memory in enumerate(self._free) if memory.shape == numbers.shape]
        host = self._free.pop(fits[0]) if fits else torch.empty(numbers.shape, dtype=numbers.dtype, pin_memory=True)
        host.copy_(numbers.detach(), non_blocking=True)
        arrived = torch.cuda.Event()
        arrived.record()
        self._sent.append((label, sizes, host, arrived))

    def take(self, wait: bool) -> list[tuple[Any, dict[str, Any]]]:
        """Return (label, metrics) of what was sent and not taken; without `wait` a GPU keeps the last one back."""
        taken = []
        while len(self._sent) > (1 if self._cuda and not wait else 0):
            label, sizes, host, arrived = self._sent.popleft()
            if arrived is not None:
                arrived.synchronize()
                self._free.append(host)
            numbers = iter(host.tolist())
            values = {
                name: [next(numbers) for _ in range(size)] if size else next(numbers) for name, size in sizes.items()
            }
            taken.append((label, values))
        return taken


class RunOutputs:
    """The saver, the logs and the view of one training; a context manager that also closes the trainer's collector.

    Ranks other than 0 write and print nothing, but take part in checkpoints and stop with the others.
    """

    def __init__(self, trainer: Trainer, folder: RunFolder, start: int) -> None:
        self.trainer, self.folder, self.start = trainer, folder, start
        self._is_root = trainer.ranks.is_root
        self.monitor = trainer.monitor
        self.readback = ReadBack(trainer.env.device)
        self._evaluating: int | None = None  # the iteration whose weights are being evaluated
        self._evaluations: dict[int, dict[str, float]] = {}  # results by iteration, until its row is written
        self._rows: deque[tuple[Any, ...]] = deque()  # of the log, not yet written
        self.rollouts: Any = None  # with rollout_save_interval
        self.ended = "failed"  # what status.json will say: the loop sets another state when it ends
        self._iteration, self._stop = start, StopFlag()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.callback(self._stop.restore)
            if self._is_root:
                self._open(stack)
            stack.enter_context(self.trainer.collector)
            self._stop.install(self._stop_after_iteration if self._is_root else None)
            self._write_status("running")
            self._stack = stack.pop_all()
        return self

    def _open(self, stack: ExitStack) -> None:
        """Open what rank 0 writes and shows."""
        trainer, folder, cfg = self.trainer, self.folder, self.trainer.cfg
        stack.enter_context(explain_save_errors(cfg, folder))
        self.saver = stack.enter_context(
            AsyncCheckpointSaver(
                cfg.async_checkpoint_queue_size,
                compression_level=cfg.save_compression_level,
                full_every=cfg.checkpoint_full_every,
                moments=None if cfg.checkpoint_moments == "float32" else cfg.checkpoint_moments,
                keep_last=cfg.keep_checkpoints or None,
                links=True,
                announce=self.print,
            )
        )
        if cfg.rollout_save_interval:
            from slipstream.rollouts.storage import RolloutStorage  # loads tensordict

            rollouts = RolloutStorage(folder.path / "rollouts", cfg.rollout_compression_level, keep=cfg.rollout_keep)
            self.rollouts = stack.enter_context(rollouts)
        self.recorder = FlightRecorder(
            folder.path, cfg.record_minutes, self.print, lambda film: self.log.add_film(film, *self._filmed)
        )
        stack.callback(self.recorder.close)
        stack.push(self._wait_for_saves)
        self.log = stack.enter_context(RunLog(folder, vars(cfg.wandb), self.start))
        stack.callback(self.recorder.is_busy)  # shows the last film
        stack.callback(self._write_rows, everything=True)  # of a training that fails beside an evaluation
        by_time = cfg.max_time_s > 0
        self.view = stack.enter_context(
            LiveView(
                0 if by_time else trainer.iterations,
                0 if by_time else cfg.total_frames if cfg.schedules else trainer.iterations * trainer.frames_per_batch,
                title(trainer),
                console=PipedConsole(quiet=cfg.quiet),
                shown_info=trainer.task.shown_info,
            )
        )
        stack.enter_context(self.view.waiting)
        self.monitor.gauge("queue/checkpoint", lambda: self.saver.get_stats()["queue_size"])
        ranks, keep = trainer.ranks.size, cfg.rollout_keep
        if ranks > 1:
            self.print(f"{ranks} ranks: {trainer.frames_per_batch:,} frames per iteration")
        if trainer.init_message:
            self.print(trainer.init_message)
        if keep and cfg.rollout_save_interval and trainer.iterations // cfg.rollout_save_interval > keep:
            self.print(f"rollouts: the last {keep:,} files are kept (rollout_keep=0 keeps all)")
        if self.start:
            done = f"{self.start:,} of {trainer.iterations:,} ({trainer.frames:,} frames)"
            self.print(f"continuing after iteration {done}")
        if message := trainer.learner.startup_message(trainer.collector.frames_per_batch, cfg.total_frames // ranks):
            self.print(message)

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        try:
            self._stack.__exit__(kind, error, trace)
        except Exception as late:
            error = late
            raise
        finally:
            self._write_end(error)

    def _write_end(self, error: BaseException | None) -> None:
        """Write how the run ended. Raise no error: it would hide the one that ended the run."""
        state = self.ended
        reason = signal.Signals(self._stop.signal).name if self._stop.signal else "another rank was stopped"
        if error is not None:
            stopped = isinstance(error, KeyboardInterrupt) or (isinstance(error, SystemExit) and error.code == STOPPED)
            state = "interrupted" if stopped else "failed"
            reason = f"{type(error).__name__}: {error}".strip(": ")
        self._write_status(state, "" if state == "finished" else reason)

    def _write_status(self, state: str, reason: str = "") -> None:
        """Write status.json. If that fails the training continues: a disk that is full is named by the next save."""
        if self._is_root:
            try:
                self.folder.write_status(state, self._iteration, self.trainer.frames, reason)
            except OSError as error:
                self.print(f"status.json cannot be written: {error}")

    @property
    def stop_requested(self) -> bool:
        """True after a stop signal."""
        return self._stop.requested

    def _stop_after_iteration(self, number: int) -> None:
        """Answer the first stop signal at once; in a signal handler, so past all buffers."""
        if number == getattr(signal, "SIGHUP", None):
            leave_terminal()
        else:
            os.write(2, b"finishing the iteration and saving; Ctrl-C again exits without saving\n")

    def print(self, text: str) -> None:
        """Print a line above the live area."""
        if self._is_root:
            self.view.print(text)

    def _wait_for_saves(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Wait until everything is on the disk, however slow it is. The signal handlers are still installed."""

        def wait() -> None:
            self.saver.wait()
            if self.rollouts is not None:
                self.rollouts.wait()

        with progress_bar("still saving (Ctrl-C twice exits without saving)"):
            close_after(wait, SaveError, error)

    def start_clock(self) -> None:
        """Start the clock of training time."""
        self.clock = Clock(self.trainer.trained_s)
        self._logged_s, self._saved_s = self.clock.used_s(), time.perf_counter()

    def shares(self) -> tuple[float, float, float]:
        """Return the shares of `max_time_s` and `save_minutes` that are used, and whether to stop. Only rank 0 has
        these limits."""
        cfg = self.trainer.cfg
        used_s = (cfg.max_time_s, self.clock.used_s()), (60 * cfg.save_minutes, time.perf_counter() - self._saved_s)
        of_time, of_save = (used / limit if limit and self._is_root else 0.0 for limit, used in used_s)
        return of_time, of_save, self.stop_requested

    def rollout_writer(self, it: int) -> Callable[[Any], None] | None:
        """Return what saves the batch of iteration `it`; None if it is not due."""
        interval = self.trainer.cfg.rollout_save_interval
        if not self._is_root or not interval or (it + 1) % interval:
            return None

        def write(batch: Any) -> None:
            plain = batch.decode() if hasattr(batch, "decode") else batch  # a compressed batch
            if getattr(self.trainer.policy, "memory_size", 0):
                plain = plain.exclude("memory")  # one row per env, which would be repeated for each step
            with self.monitor.timer("rollout_save"):
                self.rollouts.save(plain, it + 1)

        return write

    def fetch_metrics(self, it: int, result: StepResult, wait: bool) -> list[tuple[int, dict[str, float]]]:
        """Return (iteration, metrics) that have reached the host: on a GPU those of the iteration before, unless
        `wait`."""
        self.readback.send(it, result.metrics)
        with self.monitor.timer("read back"):
            return [(past, self.trainer.logged_metrics(values)) for past, values in self.readback.take(wait)]

    def evaluate(self, it: int, due: bool, wait: bool) -> None:
        """Take the results of an evaluation that has ended, and start the one that is due.

        Args:
            it: The iteration that was just learned.
            due: Evaluate its weights. An evaluation that still runs is waited for.
            wait: Wait for all results.
        """
        if self._evaluating is not None:
            with self.monitor.timer("evaluation") if due or wait else nullcontext(), self.clock.paused():
                self._take_evaluation(due or wait)
        if due:
            if self._is_root:
                self.view.waiting.restart(f"iteration {it + 1:,}, evaluating")
            with self.monitor.timer("evaluation"), self.clock.paused():
                self.trainer.start_evaluation()
                self._evaluating = it
                self._take_evaluation(wait)

    def _take_evaluation(self, wait: bool) -> None:
        """Keep the results of the evaluation for its row in the log, and its weights if they are the best."""
        found = self.trainer.take_evaluation(wait)
        if found is None or self._evaluating is None:
            return
        if self._is_root:
            state = self.trainer.policy_state(self.trainer.evaluation.policy)  # as it was evaluated
            for tag in self.trainer.checkpoint_tags(found):
                self.saver.save_async(state, self.folder.path / f"{tag}.pt", compress=False)
            self._evaluations[self._evaluating] = found
        self._evaluating = None

    def log_metrics(self, it: int, read: list[tuple[int, dict[str, float]]]) -> dict[str, float]:
        """Log and show what was read after iteration `it`; return the metrics of the last one.

        Rows are logged in order: those from an iteration on that is being evaluated wait for its results.
        """
        if not self._is_root:
            return {}
        trainer = self.trainer
        self._iteration = it + 1
        used_s = self.clock.used_s()
        fps = trainer.frames_per_batch * len(read) / max(used_s - self._logged_s, 1e-9)
        self._logged_s = used_s if read else self._logged_s
        found = self.monitor.metrics()
        perf = {f"perf/{name}": value for name, value in found.items()}
        if "learn" in found:
            perf["perf/policy_training"] = found["learn"]  # the name of NavRL's logs
        # once a second, like the statistics of the monitor
        saves = checkpoint_metrics(self.saver) if "leaks" in found else {}
        metrics: dict[str, float] = {}
        for late in self._evaluations.values():
            self.view.add(late)
        for past, values in read:
            metrics = values | self._evaluations.get(past, {}) | {"fps": fps}
            frames = trainer.frames - (it - past) * trainer.frames_per_batch
            self._rows.append((past, frames, values, {"fps": fps} | perf, saves, self.log.elapsed_s()))
            self.view.update(past + 1, frames, trainer.progress(it + 1, self.shares()[0]), metrics)
        self._write_rows()
        if trainer.cfg.summary_interval and (it + 1) % trainer.cfg.summary_interval == 0:
            self.view.print(summary(self.monitor, self.saver, self.start))
        return metrics

    def _write_rows(self, everything: bool = False) -> None:
        """Write the rows that wait for no evaluation."""
        while self._rows and (everything or self._evaluating is None or self._rows[0][0] < self._evaluating):
            past, frames, values, speed, saves, time_s = self._rows[0]
            self.log.write(past + 1, frames, values | self._evaluations.get(past, {}) | speed, saves, time_s)
            self._rows.popleft()
            self._evaluations.pop(past, None)

    def record_flight(self, it: int) -> None:
        """Start the recording of a flight with the present weights, if one is due."""
        if self._is_root and self.recorder.is_due():
            self._filmed = it + 1, self.trainer.frames  # of the film to come
            self.recorder.start(it + 1, self.saver, self.trainer.policy_state())

    def save_checkpoint(self, it: int, metrics: dict[str, float]) -> None:
        """Save the state of all ranks after iteration `it`, and flush the log."""
        cfg = self.trainer.cfg
        with self.monitor.timer("checkpoint_save"):
            state = self.trainer.state_dict(it + 1, self.clock.used_s())
            if not self._is_root:
                return
            noted = {name: value for name, value in metrics.items() if name in SCORES}
            path = self.folder.checkpoint_path(it + 1)
            self.saver.save_async(state, path, cfg.compress_checkpoint, step=it + 1, metrics=noted)
        self.log.flush()
        self._write_status("running")
        self._saved_s = time.perf_counter()


def draw_learning(task: Task, folder: RunFolder) -> None:
    """Write the curves of a run into its folder. A training is not lost because a picture cannot be written."""
    try:
        task.draw_learning(folder.path, read_metrics(folder.path))
    except (OSError, ValueError, KeyError, TypeError, ArithmeticError) as error:  # another program's log, too
        print(f"the curves could not be drawn: {error}")


def leave_terminal() -> None:
    """Send the output of this process nowhere if it went to a terminal, which is gone: writing to it is an error."""
    for fd in (1, 2):
        with suppress(OSError):
            if stat.S_ISCHR(os.fstat(fd).st_mode):
                nowhere = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nowhere, fd)
                os.close(nowhere)


def title(trainer: Trainer) -> str:
    """Return the heading of the live view."""
    cfg, env = trainer.cfg, trainer.env
    weights = sum(p.numel() for p in trainer.policy.parameters())
    several = f"{trainer.ranks.size} × " if trainer.ranks.size > 1 else ""
    several = f"{cfg.actors.count} actors × " if cfg.actors.count else several
    return f"{cfg.task}: {several}{env.num_envs:,} environments on {env.device}, {weights:,} weights, seed {cfg.seed}"


def summary(monitor: PerformanceMonitor, saver: AsyncCheckpointSaver, resumed_at: int = 0) -> str:
    """Return a summary of times and checkpoints; of a resumed run, since it was resumed."""
    stats = saver.get_stats()
    since = f" since the resume after {resumed_at:,} iterations" if resumed_at else ""
    return (
        f"{monitor.get_summary()}\n\n[Checkpoint Stats]\n  Total saved: {stats['total_saved']}{since}\n"
        f"  Compression ratio: {stats['compression_ratio']:.2f}x\n  Queue size: {stats['queue_size']}"
    )


def checkpoint_metrics(saver: AsyncCheckpointSaver) -> dict[str, float]:
    """Return the saver's statistics since this start as `checkpoint/*`."""
    stats = saver.get_stats()
    counts = ("saved", "queue_size", "queue_full", "dropped", "failed")
    names = (*counts, "compression_ratio", "blocking_ms_median", "background_ms_median")
    return {f"checkpoint/{name}": float(stats[name]) for name in names}
