"""The training loop. Read `run` first: it is the whole product on one screen.

    slipstream train env.num_envs=1024 env.num_obstacles=350 env_dyn.num_obstacles=80
"""

from __future__ import annotations

import importlib.util
import math
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from rich.console import Console
from torch import Tensor

from slipstream.algo.capture import capture_training
from slipstream.algo.ppo import PPO
from slipstream.checkpoint import AsyncCheckpointSaver, load_checkpoint
from slipstream.collect import CompressedDataCollector, PipelinedDataCollector, SyncDataCollector
from slipstream.collect.compressed import CompressedBatch, Compressor
from slipstream.config import ConfigError, TrainConfig, env_class, from_dict, to_dict
from slipstream.devices import resolve_device, set_threads
from slipstream.envs.aircombat import AirCombatConfig, AirCombatEnv
from slipstream.envs.base import TensorEnv
from slipstream.envs.navigation import NavigationConfig, NavigationEnv
from slipstream.evaluate import evaluation_env, fly, fly_episodes, summarise
from slipstream.league.league import League
from slipstream.league.report import write_league_report
from slipstream.learner import Policy, ReplayLearner, build_learner, build_network
from slipstream.models.policy import ActorCritic
from slipstream.monitor import PerformanceMonitor
from slipstream.policies import latest_checkpoint, load_policy
from slipstream.readback import ReadBack
from slipstream.runs import LiveView, RunFolder, RunLog
from slipstream.seeding import derive_seed
from slipstream.store.rollouts import RolloutStorage

# What a resumed run may change: how long it goes on, where it runs and what it shows, not what it computes.
FREE_TO_CHANGE = (
    *("total_frames", "max_time_s", "save_minutes", "device", "compile", "quiet", "threads"),
    *("resume", "root", "name", "init", "wandb.mode", "checkpoint_full_every", "collect.prefetch_count", "collect.threads"),
    *("rollout_save_interval", "rollout_compression_level"),
)

LONG_RUN_FRAMES, LONG_RUN_S = 300_000_000, 240  # from here on compiled kernels pay on a GPU: they cost a minute of start-up


def run(cfg: TrainConfig) -> RunFolder:
    """Trains until `total_frames`, `max_time_s` or a signal; everything it leaves is in the run folder it returns."""
    cfg, state = take_up(cfg) if cfg.resume else (with_sizes(cfg), None)
    job, wandb = build(replace(cfg, resume=None)), wandb_settings(cfg)  # what cannot be built leaves no run folder behind
    start = job.load_state_dict(state) if state else 0
    folder = RunFolder.open(cfg.resume) if cfg.resume else RunFolder.create(cfg.root, cfg.name, to_dict(cfg))
    monitor = PerformanceMonitor()
    monitor.watch_memory(job.env.device)
    with (
        AsyncCheckpointSaver(
            cfg.async_checkpoint_queue_size,
            compression_level=cfg.save_compression_level,
            full_every=cfg.checkpoint_full_every,
            keep_last=cfg.keep_checkpoints,
            links=True,
        ) as saver,
        RolloutStorage(folder.path / "rollouts", cfg.rollout_compression_level) as rollouts,
        RunLog(folder, wandb, start) as log,
        LiveView(*totals(job), title(cfg, job), console=Console(quiet=cfg.quiet)) as view,
        job.collector,
    ):
        saver.install_signal_handlers(tell_stop)
        monitor.gauge("queue/checkpoint", lambda: saver.get_stats()["queue_size"])
        collect, learn = capture_training(job.collector, job.algo, job.form(), view.print)  # type: ignore[arg-type]  # ReplayLearner: plain
        clock = Clock(cfg.max_time_s, job.trained_s)
        save_clock, readings = Clock(60 * cfg.save_minutes), ReadBack(job.env.device)
        done = True
        if start >= job.last_iteration:
            print(f"nothing left to do: this run has {job.collector.frames:,} frames; give a larger total_frames or max_time_s")
        for it in range(start, job.last_iteration):
            with monitor.timer("collect", job.env.device):
                batch = collect()
            with monitor.timer("learn", job.env.device):
                losses = learn(batch, job.progress(it, clock))
            if is_due(cfg.rollout_save_interval, it, False):
                with monitor.timer("rollout_save"):
                    rollouts.save(plain_batch(batch), it, note={"frames": job.collector.frames})
            job.publish()
            readings.send((it, *losses), job.reading(losses))
            done = it + 1 == job.iterations or clock.is_up()
            last = done or saver.stop_requested
            evaluates = is_due(cfg.eval_interval, it, done)  # who stops a run is not kept waiting by a last evaluation
            saves = is_due(cfg.save_interval, it, last) or save_clock.is_up()
            with monitor.timer("read back"):  # on a GPU that of the iteration before, so that the device never waits for the host
                read = [(past, job.metrics(numbers, names)) for (past, *names), numbers in readings.take(wait=evaluates or saves)]
            found: dict[str, float] = {}
            if evaluates:
                with monitor.timer("evaluate"), clock.paused():
                    found = job.evaluate()
                if job.is_best(found):
                    saver.save_async(job.policy_state(), folder.path / "best.pt", compress=False)
            fps = job.frames_per_batch * len(read) / clock.lap() if read else 0.0
            stats = monitor.get_stats()
            perf = {f"perf/{name}": value for name, value in monitor.metrics(stats=stats).items()}
            for past, metrics in read:
                metrics |= (found if past == it else {}) | {"fps": fps}
                frames = job.collector.frames - (it - past) * job.frames_per_batch
                log.write(past, frames, metrics | perf)
                view.update(past, frames, metrics, stats, job.progress(it + 1, clock))
            if it % 100 == 99:
                view.print(summary(monitor, saver))
            if saves:
                with monitor.timer("checkpoint_save"):
                    state = job.state_dict(it + 1, clock)
                    saver.save_async(state, folder.checkpoint_path(it + 1), cfg.compress_checkpoint, step=it + 1, metrics=scores(metrics))
                log.flush()
                save_clock = Clock(60 * cfg.save_minutes)
            monitor.tick(frames=job.frames_per_batch)
            if last:
                break
    if job.league:
        write_league_report(folder)
    if not done:
        print(f"stopped; go on with: slipstream train resume={folder.path}")
    return folder


# -- what the loop is made of ----------------------------------------------------------------------------------------


@dataclass
class Job:
    """One training: what collects, what learns, and how far it is to go."""

    cfg: TrainConfig
    env: TensorEnv
    policy: Policy
    collector: SyncDataCollector | PipelinedDataCollector | CompressedDataCollector
    algo: PPO | ReplayLearner
    league: League | None = None  # chooses the opponents of a duel, where there is one
    best: float = -math.inf
    trained_s: float = 0.0  # of max_time_s, used before this start

    @property
    def frames_per_batch(self) -> int:
        """Frames of one iteration."""
        return self.collector.frames_per_batch

    @property
    def iterations(self) -> int:
        """Iterations to `total_frames`."""
        return max(1, math.ceil(self.cfg.total_frames / self.frames_per_batch))

    @property
    def last_iteration(self) -> int:
        """Where this start ends by frames; 0 where an earlier one used up the time."""
        return 0 if 0 < self.cfg.max_time_s <= self.trained_s else self.iterations

    def progress(self, it: int, clock: Clock) -> float:
        """The share of the run that is done, by frames or by time, whichever ends it sooner."""
        return max(it / self.iterations, clock.share())

    def form(self) -> str:
        """How the iterations are run: `auto` compiles kernels only for a run that is long enough to earn the start-up back."""
        if isinstance(self.algo, ReplayLearner):
            return "plain"
        if self.cfg.compile == "on":
            return "compiled"
        if self.cfg.compile == "off" or self.env.device.type != "cuda":
            return "plain"
        long = self.cfg.total_frames >= LONG_RUN_FRAMES and (not self.cfg.max_time_s or self.cfg.max_time_s >= LONG_RUN_S)
        return "compiled" if long else "graphs"

    def publish(self) -> None:
        """The weights are final for this iteration: a collector that works beside the learner may take them."""
        if isinstance(self.collector, PipelinedDataCollector):
            self.collector.publish()

    def evaluate(self) -> dict[str, float]:
        """Deterministic flights on maps not trained on, as `eval/*` metrics. The global random state is left as it was."""
        if isinstance(self.collector, PipelinedDataCollector):
            self.collector.settle()  # the flights use all threads, the sensors' and torch's, and the random numbers of the process
        with torch.random.fork_rng(devices=[self.env.device] if self.env.device.type == "cuda" else []):
            torch.manual_seed(derive_seed(self.cfg.seed, "evaluation"))  # for envs that draw from torch itself
            return self._evaluate()

    def _evaluate(self) -> dict[str, float]:
        cfg = self.cfg
        was_training = self.policy.training
        self.policy.eval()
        if self.league:
            found = self.league.evaluate()
        elif isinstance(self.env, NavigationEnv):
            found = self._cross(cfg.env)
            if cfg.eval.static_too:
                still = replace(cfg.env, dyn=replace(cfg.env.dyn, num_obstacles=0))
                found |= {f"static_{key}": value for key, value in self._cross(still).items()}
        else:
            env = env_class(cfg.task)(cfg.eval.num_drones, self.env.device, derive_seed(cfg.seed, "evaluation"), cfg.env)  # type: ignore[call-arg]
            found = fly_episodes(env, self.policy, cfg.eval.max_steps)
        self.policy.train(was_training)
        return {key if "/" in key else f"eval/{key}": value for key, value in found.items()}

    def _cross(self, world: NavigationConfig) -> dict[str, float]:
        env = evaluation_env(world, self.cfg.eval, self.env.device)
        result = summarise(fly(env, self.policy, self.cfg.eval.num_drones, record_paths=False), 1000)
        keys = ("success", "success_low", "success_high", "collision", "timeout", "time_to_goal_s")
        return {key: result[key] for key in keys if result[key] is not None}

    def reading(self, losses: dict[str, Tensor]) -> Tensor:
        """All that the host reads of an iteration, one tensor still on the device: losses, bad actions, finished episodes."""
        scalars = torch.stack([*losses.values(), self.collector.bad_actions])
        assert self.collector.episodes is not None
        return torch.cat((scalars.double(), self.collector.episodes.take()))

    def metrics(self, numbers: list[float], names: list[str]) -> dict[str, float]:
        """The numbers of a `reading` of losses `names`; raises where they say that something is broken."""
        if numbers[len(names)]:
            self.collector.check()
        metrics = dict(zip(names, numbers, strict=False))
        broken = [name for name, value in metrics.items() if not math.isfinite(value)]
        if broken:
            raise FloatingPointError(
                f"{', '.join(broken)} is not a number: the weights are spoilt, or the env gives rewards or observations that are not "
                "finite. If the env is sound, start a new run from a checkpoint with a lower rate: "
                f"slipstream train init=RUN/checkpoints/ckpt_N.pt algo.learning_rate={self.cfg.algo.learning_rate / 3:.1e}"
            )
        assert self.collector.episodes is not None
        episodes = self.collector.episodes.means(numbers[len(names) + 1 :])
        return metrics | {f"episode/{name}": value for name, value in episodes.items()}

    def is_best(self, metrics: dict[str, float]) -> bool:
        """Whether the evaluation just made beats all before; it is remembered if so."""
        score = next((metrics[key] for key in ("eval/score", "eval/success", "eval/return") if key in metrics), -math.inf)
        better = score > self.best
        self.best = max(self.best, score)
        return better

    def policy_state(self) -> dict[str, Any]:
        """Weights and configuration: all that flying needs."""
        return {"config": to_dict(self.cfg), "policy": self.policy.state_dict()}

    def state_dict(self, iteration: int, clock: Clock) -> dict[str, Any]:
        """All that the iterations from `iteration` on depend on."""
        return {
            "iteration": iteration,
            "frames": self.collector.frames,
            "config": to_dict(self.cfg),
            "algo": self.algo.state_dict(),
            "collector": self.collector.state_dict(),
            "best": self.best,
            "trained_s": clock.used_s(),
            **({"league": self.league.state_dict()} if self.league else {}),
            "rng": {"cpu": torch.get_rng_state(), **({"cuda": torch.cuda.get_rng_state()} if torch.cuda.is_available() else {})},
        }

    def load_state_dict(self, state: dict[str, Any]) -> int:
        """Goes on from `state`; the iteration that comes next."""
        self.algo.load_state_dict(state["algo"])
        self.collector.load_state_dict(state["collector"])
        if self.league:
            self.league.load_state_dict(state["league"])
        self.best, self.trained_s = state["best"], state["trained_s"]
        torch.set_rng_state(state["rng"]["cpu"])
        if "cuda" in state["rng"] and torch.cuda.is_available():
            torch.cuda.set_rng_state(state["rng"]["cuda"])
        return state["iteration"]


def build(cfg: TrainConfig) -> Job:
    """Env, policy, collector and algorithm of a configuration."""
    set_threads(cfg.threads)
    device = resolve_device(cfg.device)
    torch.manual_seed(derive_seed(cfg.seed, "policy"))
    if device.type == "cuda":
        torch.set_float32_matmul_precision("high")
    env = env_class(cfg.task)(cfg.env.num_envs, device, derive_seed(cfg.seed, "env"), cfg.env)  # type: ignore[call-arg]
    policy = build_network(asdict(cfg.algo), env.observation_spec, env.action_spec, cfg.model).to(device)
    if cfg.init:
        warm_start(policy, load_policy(cfg.init).build(env.observation_spec, env.action_spec, device), cfg.init)
    league = build_league(cfg, env, policy) if cfg.league.enabled else None
    algo = build_learner(policy, cfg.algo, env.observation_spec, derive_seed(cfg.seed, "replay"), fresh=not cfg.init)
    frames = env.num_envs * cfg.algo.training_frame_num
    if isinstance(algo, PPO):
        algo.check_batch(frames)
    elif cfg.compile == "on":
        raise ConfigError(f"compile=on compiles the update of algo=ppo; leave it out for algo={cfg.algo.name}")
    return Job(cfg, env, policy, build_collector(cfg, env, policy, frames, algo), algo, league)


def build_collector(
    cfg: TrainConfig, env: TensorEnv, policy: Policy, frames: int, algo: PPO | ReplayLearner
) -> SyncDataCollector | PipelinedDataCollector | CompressedDataCollector:
    """What collects: in turn with the learner or beside it (`collect.pipeline`), batches as they are or compressed (`collect.compress`)."""
    settings = cfg.collect
    compressor = None
    if settings.compress != "off":
        if not isinstance(algo, PPO) or (env.device.type == "cuda" and cfg.compile != "off"):
            raise ConfigError("collect.compress is for algo=ppo, on a GPU with compile=off: compressed batches are opened by the host")
        compressor = Compressor(settings.compression_level, settings.compressed_keys())
    if settings.pipeline == "off" and compressor:
        if env.num_envs * settings.pieces > frames or frames % (env.num_envs * settings.pieces):
            raise ConfigError(f"collect.pieces={settings.pieces} must divide algo.training_frame_num={frames // env.num_envs}")
        base = SyncDataCollector(env, policy, frames // settings.pieces, return_same_td=True, ring_size=1)
        return CompressedDataCollector(base, compressor.level, keys=compressor.keys, pieces=settings.pieces)
    if settings.pipeline == "off":
        return SyncDataCollector(env, policy, frames, return_same_td=True, ring_size=1)
    if cfg.league.enabled:
        raise ConfigError("a league changes the env's opponents between iterations: leave collect.pipeline=off with league.enabled=true")
    on_gpu = env.device.type == "cuda"
    if isinstance(algo, PPO):  # draws beside the rollout, so not from the generator that the rollout draws from
        algo.generator = torch.Generator(env.device).manual_seed(derive_seed(cfg.seed, "minibatches"))
    threads = 0
    if not on_gpu:
        total = torch.get_num_threads()
        threads = settings.threads or max(1, total // 2)
        set_threads(max(1, total - threads))
    on_policy = settings.pipeline == "on_policy"
    ahead = 1 if on_policy else settings.max_staleness + 1
    return PipelinedDataCollector(
        SyncDataCollector(env, policy, frames, return_same_td=True, ring_size=1 if on_gpu else ahead + 1),
        prefetch_count=settings.prefetch_count,
        on_policy=on_policy,
        max_staleness=settings.max_staleness,
        threads=threads,
        seed=derive_seed(cfg.seed, "collect"),
        postproc=compressor,
        fixed_memory=on_gpu and compressor is None,
    )


def with_sizes(cfg: TrainConfig) -> TrainConfig:
    """The configuration with numbers for `=auto`, found by short trainings."""
    if not cfg.auto:
        return cfg
    from slipstream.tuning import choose_sizes  # which itself trains

    return choose_sizes(cfg)


def build_league(cfg: TrainConfig, env: TensorEnv, policy: Policy) -> League:
    """The league that flies the env's opponents."""
    if not isinstance(env, AirCombatEnv) or env.sides != 1 or not isinstance(policy, ActorCritic):
        raise ConfigError("league.enabled=true needs task=aircombat, env.sides=1 and algo=ppo")
    if cfg.env.opponent != AirCombatConfig.opponent:
        raise ConfigError(f"the league chooses the opponents: leave opponent={cfg.env.opponent} out, or league.enabled=true")
    return League(cfg.league, env, policy, derive_seed(cfg.seed, "league"))


def warm_start(policy: Policy, other: Policy, path: str) -> None:
    """Gives `policy` the weights and value statistics of `other`, which came from `path`."""
    if type(policy) is not type(other):
        raise ValueError(f"init={path} holds a {type(other).__name__}, which another algorithm trains: choose that one with algo=NAME")
    try:
        policy.load_state_dict(other.state_dict())
    except RuntimeError as error:
        pairs = zip(asdict(policy.config).items(), asdict(other.config).values(), strict=True)
        asked = " ".join(f"'model.{name}={theirs}'".replace(", ", ",") for (name, mine), theirs in pairs if mine != theirs)
        raise ValueError(f"init={path} holds another network than model.* describes: give {asked or 'env.* as in its training'}") from error


def take_up(cfg: TrainConfig) -> tuple[TrainConfig, dict[str, Any]]:
    """The configuration and the state of the run that `cfg.resume` names."""
    assert cfg.resume is not None
    folder = RunFolder.open(cfg.resume)
    state = load_checkpoint(latest_checkpoint(folder.checkpoints))
    changed = _changed_keys(to_dict(cfg), to_dict(from_dict(TrainConfig, state["config"])))
    if changed:
        raise ConfigError(
            f"a resumed run keeps its configuration; {', '.join(changed)} cannot change: start a new run with init={folder.path}"
        )
    return cfg, state


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


class Clock:
    """Training time, `used_s` of it before now; evaluation pauses it."""

    def __init__(self, limit_s: float, used_s: float = 0.0) -> None:
        self.limit_s = limit_s
        self._lap = time.perf_counter()
        self._start = self._lap - used_s

    def used_s(self) -> float:
        """Seconds used of the limit; 0 without one, when time decides nothing."""
        return time.perf_counter() - self._start if self.limit_s else 0.0

    def share(self) -> float:
        """The share of the limit that is used; 0 without a limit."""
        return self.used_s() / self.limit_s if self.limit_s else 0.0

    def is_up(self) -> bool:
        """Whether the limit is reached."""
        return bool(self.limit_s) and self.share() >= 1

    def lap(self) -> float:
        """Seconds since the last lap."""
        before, self._lap = self._lap, time.perf_counter()
        return max(self._lap - before, 1e-9)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """A block whose time does not count."""
        began = time.perf_counter()
        yield
        gone = time.perf_counter() - began
        self._start += gone
        self._lap += gone


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
    return {name: value for name, value in metrics.items() if name in ("episode/return", "episode/success", "eval/success", "eval/return")}


def title(cfg: TrainConfig, job: Job) -> str:
    """What the live view is headed with."""
    weights = sum(p.numel() for p in job.policy.parameters())
    return f"{cfg.task}: {job.env.num_envs:,} environments on {job.env.device}, {weights:,} weights, seed {cfg.seed}"


def summary(monitor: PerformanceMonitor, saver: AsyncCheckpointSaver) -> str:
    """The documents' summary."""
    stats = saver.get_stats()
    return (
        f"{monitor.get_summary()}\n\n[Checkpoint Stats]\n  Total saved: {stats['total_saved']}\n"
        f"  Compression ratio: {stats['compression_ratio']:.2f}x\n  Queue size: {stats['queue_size']}"
    )


def wandb_settings(cfg: TrainConfig) -> dict[str, Any]:
    """W&B's settings; `auto` logs offline where the package is there, and not at all where it is not."""
    settings = dict(vars(cfg.wandb))
    installed = importlib.util.find_spec("wandb") is not None
    if settings["mode"] == "auto":
        settings["mode"] = "offline" if installed else "disabled"
    if settings["mode"] != "disabled" and not installed:
        raise ConfigError(f"wandb.mode={settings['mode']} needs W&B: pip install 'slipstream-rl[wandb]', or set wandb.mode=disabled")
    return settings
