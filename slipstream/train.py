"""The training loop. Read `loop` first: it is the whole product on one screen.

slipstream train env.num_envs=1024 env.num_obstacles=350 env_dyn.num_obstacles=80
"""

from __future__ import annotations

import errno
import importlib.util
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from slipstream.algorithms.execution.capture import capture_training
from slipstream.checkpoint import AsyncCheckpointSaver
from slipstream.checkpoint.load import newest_good
from slipstream.cli.subcommands import PipedConsole
from slipstream.collectors.compressed import CompressedBatch
from slipstream.config.compose import from_dict, to_dict
from slipstream.config.help import ConfigError
from slipstream.config.schema import TrainConfig
from slipstream.monitor import PerformanceMonitor
from slipstream.rollouts.storage import RolloutStorage
from slipstream.storage.errors import SaveError
from slipstream.storage.files import WriterLock
from slipstream.tasks.aircombat.league.report import write_league_report
from slipstream.training.clock import Clock
from slipstream.training.live_view import LiveView
from slipstream.training.metrics_log import RunLog, read_metrics
from slipstream.training.plots import learning_curve
from slipstream.training.policies import newest_state
from slipstream.training.readback import ReadBack
from slipstream.training.run_folder import RunFolder
from slipstream.training.trainer import Job, build

# What a resumed run may change: how long it goes on, where it runs and what it shows, not what it computes.
FREE_TO_CHANGE = (
    *("total_frames", "max_time_s", "save_minutes", "device", "compile", "quiet", "threads"),
    *(
        "resume",
        "root",
        "name",
        "init",
        "wandb.mode",
        "checkpoint_full_every",
        "collect.prefetch_count",
        "collect.threads",
    ),
    *("rollout_save_interval", "rollout_compression_level"),
)
FEWEST_POINTS = 10  # that make a curve


def run(cfg: TrainConfig) -> RunFolder:
    """Trains until `total_frames`, `max_time_s` or a signal; everything it leaves is in the run folder it returns."""
    if cfg.resume:
        folder = RunFolder.open(cfg.resume)
        with sole_writer(
            folder
        ):  # before anything is read: what another training still writes would be out of date at once
            state = take_up(cfg, folder)
            job = build(replace(cfg, resume=None))
            return loop(job, folder, wandb_settings(cfg), start=job.load_state_dict(state))
    cfg = with_sizes(cfg)
    job, wandb = build(cfg), wandb_settings(cfg)  # what cannot be built leaves no run folder behind
    folder = RunFolder.create(cfg.root, cfg.name, to_dict(cfg))
    with folder.kept_if_used(), sole_writer(folder):
        return loop(job, folder, wandb, start=0)


def loop(job: Job, folder: RunFolder, wandb: dict[str, Any], start: int) -> RunFolder:
    """Collects and learns from iteration `start` on, and keeps what comes of it in `folder`."""
    cfg, monitor = job.cfg, PerformanceMonitor()
    job.watch(monitor)
    with (
        ways_on(folder),
        AsyncCheckpointSaver(
            cfg.async_checkpoint_queue_size,
            compression_level=cfg.save_compression_level,
            full_every=cfg.checkpoint_full_every,
            keep_last=cfg.keep_checkpoints,
            links=True,
        ) as saver,
        RolloutStorage(folder.path / "rollouts", cfg.rollout_compression_level) as rollouts,
        RunLog(folder, wandb, start) as log,
        LiveView(*totals(job), title(cfg, job), console=PipedConsole(quiet=cfg.quiet), if_long=if_long(job)) as view,
        job.collector,
    ):
        saver.install_signal_handlers(tell_stop)
        monitor.gauge("queue/checkpoint", lambda: saver.get_stats()["queue_size"])
        collect, learn = capture_training(job.collector, job.algo, job.form(), view.print)  # type: ignore[arg-type]  # ReplayLearner: plain
        clock = Clock(cfg.max_time_s, job.trained_s)
        save_clock, readings = Clock(60 * cfg.save_minutes), ReadBack(job.env.device)
        done = True
        if start >= job.last_iteration:
            print(
                f"nothing left to do: this run has {job.collector.frames:,} frames; give a larger total_frames or max_time_s"
            )
        for it in range(start, job.last_iteration):
            with monitor.timer("collect", job.env.device):
                batch = collect()
            with monitor.timer("learn", job.env.device):
                losses = learn(batch, job.progress(it, clock))
            if is_due(cfg.rollout_save_interval, it, False):
                with monitor.timer("rollout_save"):
                    rollouts.save(plain_batch(batch), it + 1, note={"frames": job.collector.frames})
            job.publish()
            readings.send((it, *losses), job.reading(losses))
            done = it + 1 == job.iterations or clock.is_up()
            last = done or saver.stop_requested
            evaluates = is_due(cfg.eval_interval, it, done)  # who stops a run is not kept waiting by a last evaluation
            saves = is_due(cfg.save_interval, it, last) or save_clock.is_up()
            with monitor.timer(
                "read back"
            ):  # on a GPU that of the iteration before, so that the device never waits for the host
                read = [
                    (past, job.metrics(numbers, names))
                    for (past, *names), numbers in readings.take(wait=evaluates or saves)
                ]
            found: dict[str, float] = {}
            if evaluates:
                with monitor.timer("evaluate"), clock.paused():
                    found = job.evaluate()
                for name in job.honours(found):
                    saver.save_async(job.policy_state(), folder.path / f"{name}.pt", compress=False)
            fps = job.frames_per_batch * len(read) / clock.lap() if read else 0.0
            stats = monitor.get_stats()
            perf = {f"perf/{name}": value for name, value in monitor.metrics(stats=stats).items()}
            for past, metrics in read:
                metrics |= (found if past == it else {}) | {"fps": fps}
                frames = job.collector.frames - (it - past) * job.frames_per_batch
                log.write(past + 1, frames, metrics | perf)
                view.update(past + 1, frames, metrics, stats, job.progress(it + 1, clock))
            if it % 100 == 99:
                view.print(summary(monitor, saver, start))
            if saves:
                with monitor.timer("checkpoint_save"):
                    state = job.state_dict(it + 1, clock)
                    saver.save_async(
                        state,
                        folder.checkpoint_path(it + 1),
                        cfg.compress_checkpoint,
                        step=it + 1,
                        metrics=scores(metrics),
                    )
                log.flush()
                save_clock = Clock(60 * cfg.save_minutes)
            monitor.tick(frames=job.frames_per_batch)
            if last:
                break
    show_learning(folder, bool(job.league))
    if not done:
        print(f"stopped; go on with: slipstream train resume={folder.path}")
    return folder


# -- what the loop is made of ----------------------------------------------------------------------------------------


def show_learning(folder: RunFolder, league: bool) -> None:
    """Leaves the curves of a run in its folder: learning.png, or a league's report. A training is not lost for want of a picture."""
    try:
        if league:
            write_league_report(folder)
            return
        rows = read_metrics(folder.path)
        if sum(row.get("episode/return") is not None for row in rows) >= FEWEST_POINTS:
            learning_curve(rows, folder.path / "learning.png", folder.path.name)
    except OSError as error:
        print(f"the curves could not be drawn: {error}")


def with_sizes(cfg: TrainConfig) -> TrainConfig:
    """The configuration with numbers for `=auto`, found by short trainings."""
    if not cfg.auto:
        return cfg
    from slipstream.training.tuning import choose_sizes  # which itself trains

    return choose_sizes(cfg)


def sole_writer(folder: RunFolder) -> WriterLock:
    """What lets one training at a time write a run folder; it goes with the process, however that ends."""
    return WriterLock(
        folder.path,
        f"wait until it ends or stop it; another run that starts from this one's policy: slipstream train init={folder.path}",
    )


@contextmanager
def ways_on(folder: RunFolder) -> Iterator[None]:
    """A block that ends when something cannot be saved: what is good and how to go on is told with the error."""
    try:
        yield
    except SaveError as error:
        raise type(error)(f"{error}. {way_on(folder, is_full(error))}") from error
    except OSError as error:  # the log's
        if not is_full(error):
            raise
        raise OSError(f"{error}. {way_on(folder, True)}") from error


def is_full(error: BaseException | None) -> bool:
    """Whether a full disk, or a full quota, is what an error comes from."""
    while error is not None and not (isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)):
        error = error.__cause__
    return error is not None


def way_on(folder: RunFolder, full: bool) -> str:
    """What is good of a run that could not save, and how it goes on."""
    remedy = "Free space" if full else "Mend the cause"
    try:
        newest = newest_good(folder.checkpoints)
    except (SaveError, OSError):
        return f"There is no checkpoint to go on from. {remedy}, then start again"
    return f"The run is good up to iteration {newest.iteration} ({newest.path.name}). {remedy}, then: slipstream train resume={folder.path}"


def take_up(cfg: TrainConfig, folder: RunFolder) -> dict[str, Any]:
    """The state from which the run in `folder` goes on, where its configuration is the one given."""
    _, state = newest_state(folder)
    changed = _changed_keys(to_dict(cfg), to_dict(from_dict(TrainConfig, state["config"])))
    if changed:
        raise ConfigError(
            f"a resumed run keeps its configuration; {', '.join(changed)} cannot change: start a new run with init={folder.path}"
        )
    return state


def _changed_keys(given: dict[str, Any], held: dict[str, Any], prefix: str = "") -> list[str]:
    """Keys that differ between two configurations, dotted, but for those that a resumed run may change."""
    changed: list[str] = []
    for name in [*given, *(name for name in held if name not in given)]:
        mine, theirs = given.get(name), held.get(name)
        if isinstance(mine, dict) and isinstance(theirs, dict):
            changed += _changed_keys(mine, theirs, f"{prefix}{name}.")
        elif mine != theirs and prefix + name not in FREE_TO_CHANGE:
            changed.append(prefix + name)
    return changed


def plain_batch(batch: Any) -> Any:
    """The batch as a TensorDict, opened where it was collected compressed."""
    return batch.decode() if isinstance(batch, CompressedBatch) else batch


def is_due(interval: int, it: int, last: bool) -> bool:
    """Every `interval` iterations, and at the end; never for 0."""
    return interval > 0 and ((it + 1) % interval == 0 or last)


def tell_stop(number: int) -> None:
    """Answers the first Ctrl-C at once; in a signal handler, so past all buffers."""
    os.write(2, b"finishing the iteration and saving; Ctrl-C again leaves without\n")


def totals(job: Job) -> tuple[int, int]:
    """Iterations and frames the run goes to; unknown (0) where time ends it."""
    return (0, 0) if job.cfg.max_time_s else (job.iterations, job.iterations * job.frames_per_batch)


def scores(metrics: dict[str, float]) -> dict[str, float]:
    """What is noted with a checkpoint."""
    return {
        name: value
        for name, value in metrics.items()
        if name in ("episode/return", "episode/success", "eval/success", "eval/return")
    }


def if_long(job: Job) -> str:
    """What to do about a run that would take days."""
    told = "Ctrl-C keeps what is learned, max_time_s= or total_frames= ends sooner"
    has_demo = job.env.device.type == "cpu" and job.cfg.task == "navigation"
    return f"{told}; preset=demo is a world that a CPU learns in three minutes" if has_demo else told


def title(cfg: TrainConfig, job: Job) -> str:
    """What the live view is headed with."""
    weights = sum(p.numel() for p in job.policy.parameters())
    return f"{cfg.task}: {job.env.num_envs:,} environments on {job.env.device}, {weights:,} weights, seed {cfg.seed}"


def summary(monitor: PerformanceMonitor, saver: AsyncCheckpointSaver, resumed_at: int = 0) -> str:
    """The documents' summary; of a resumed run, of what it has done since."""
    stats = saver.get_stats()
    since = f" since the resume after {resumed_at:,} iterations" if resumed_at else ""
    return (
        f"{monitor.get_summary()}\n\n[Checkpoint Stats]\n  Total saved: {stats['total_saved']}{since}\n"
        f"  Compression ratio: {stats['compression_ratio']:.2f}x\n  Queue size: {stats['queue_size']}"
    )


def wandb_settings(cfg: TrainConfig) -> dict[str, Any]:
    """W&B's settings; `auto` logs offline where the package is there, and not at all where it is not."""
    settings = dict(vars(cfg.wandb))
    installed = importlib.util.find_spec("wandb") is not None
    if settings["mode"] == "auto":
        settings["mode"] = "offline" if installed else "disabled"
    if settings["mode"] != "disabled" and not installed:
        raise ConfigError(
            f"wandb.mode={settings['mode']} needs W&B: pip install 'slipstream-rl[wandb]', or set wandb.mode=disabled"
        )
    return settings
