"""What a training consists of, put together from its configuration: env, policy, collector, algorithm, league."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from torch import Tensor

from slipstream.algorithms.learner import Policy, ReplayLearner, build_learner, build_network
from slipstream.algorithms.ppo import PPO
from slipstream.collectors import CompressedDataCollector, PipelinedDataCollector, SyncDataCollector
from slipstream.collectors.compressed import Compressor
from slipstream.config.compose import to_dict
from slipstream.config.help import ConfigError
from slipstream.config.schema import TrainConfig, env_class
from slipstream.envs.base import TensorEnv
from slipstream.models.policy import ActorCritic
from slipstream.monitor import PerformanceMonitor
from slipstream.sim.devices import resolve_device, set_threads
from slipstream.sim.random import derive_seed
from slipstream.tasks.aircombat.env import AirCombatConfig, AirCombatEnv
from slipstream.tasks.aircombat.league.league import League
from slipstream.tasks.navigation.env import NavigationConfig, NavigationEnv
from slipstream.training.clock import Clock
from slipstream.training.evaluate import evaluation_env, fly, fly_episodes, summarise
from slipstream.training.policies import load_policy

LONG_RUN_FRAMES, LONG_RUN_S = (
    300_000_000,
    240,
)  # from here on compiled kernels pay on a GPU: they cost a minute of start-up


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

    def watch(self, monitor: PerformanceMonitor) -> None:
        """Lets `monitor` watch the memory; a replay buffer that fills up is no leak."""
        monitor.watch_memory(self.env.device)
        if isinstance(self.algo, ReplayLearner):
            buffer = self.algo.buffer
            monitor.store("replay_mb", lambda: buffer.host_bytes / 2**20)

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
        long = self.cfg.total_frames >= LONG_RUN_FRAMES and (
            not self.cfg.max_time_s or self.cfg.max_time_s >= LONG_RUN_S
        )
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
            env = env_class(cfg.task)(
                cfg.eval.num_drones, self.env.device, derive_seed(cfg.seed, "evaluation"), cfg.env
            )  # type: ignore[call-arg]
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
        score = next(
            (metrics[key] for key in ("eval/score", "eval/success", "eval/return") if key in metrics), -math.inf
        )
        better = score > self.best
        self.best = max(self.best, score)
        return better

    def honours(self, metrics: dict[str, float]) -> list[str]:
        """The names under which the policy just judged is kept: `best`, and that of the league's stage that it has ended."""
        ended = (
            [f"{self.league.ended}-champion"] if self.league and self.league.ended else []
        )  # a number last would make a series of them
        return (["best"] if self.is_best(metrics) else []) + ended

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
            "rng": {
                "cpu": torch.get_rng_state(),
                **({"cuda": torch.cuda.get_rng_state()} if torch.cuda.is_available() else {}),
            },
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
    if isinstance(env, AirCombatEnv) and env.sides != 1:
        raise ConfigError(
            "a training flies one side: leave env.sides=2 out and name opponent=AGENT; for self-play use preset=aircombat"
        )
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
            raise ConfigError(
                "collect.compress is for algo=ppo, on a GPU with compile=off: compressed batches are opened by the host"
            )
        compressor = Compressor(settings.compression_level, settings.compressed_keys())
    if settings.pipeline == "off" and compressor:
        if env.num_envs * settings.pieces > frames or frames % (env.num_envs * settings.pieces):
            raise ConfigError(
                f"collect.pieces={settings.pieces} must divide algo.training_frame_num={frames // env.num_envs}"
            )
        base = SyncDataCollector(env, policy, frames // settings.pieces, return_same_td=True, ring_size=1)
        return CompressedDataCollector(base, compressor.level, keys=compressor.keys, pieces=settings.pieces)
    if settings.pipeline == "off":
        return SyncDataCollector(env, policy, frames, return_same_td=True, ring_size=1)
    if cfg.league.enabled:
        raise ConfigError(
            "a league changes the env's opponents between iterations: leave collect.pipeline=off with league.enabled=true"
        )
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


def build_league(cfg: TrainConfig, env: TensorEnv, policy: Policy) -> League:
    """The league that flies the env's opponents."""
    if not isinstance(env, AirCombatEnv) or not isinstance(policy, ActorCritic):
        raise ConfigError("league.enabled=true needs task=aircombat and algo=ppo")
    if cfg.env.opponent != AirCombatConfig.opponent:
        raise ConfigError(
            f"the league chooses the opponents: leave opponent={cfg.env.opponent} out, or give league.enabled=false"
        )
    return League(cfg.league, env, policy, derive_seed(cfg.seed, "league"))


def warm_start(policy: Policy, other: Policy, path: str) -> None:
    """Gives `policy` the weights and value statistics of `other`, which came from `path`."""
    if type(policy) is not type(other):
        raise ValueError(
            f"init={path} holds a {type(other).__name__}, which another algorithm trains: choose that one with algo=NAME"
        )
    try:
        policy.load_state_dict(other.state_dict())
    except RuntimeError as error:
        pairs = zip(asdict(policy.config).items(), asdict(other.config).values(), strict=True)
        asked = " ".join(
            f"'model.{name}={theirs}'".replace(", ", ",") for (name, mine), theirs in pairs if mine != theirs
        )
        raise ValueError(
            f"init={path} holds another network than model.* describes: give {asked or 'env.* as in its training'}"
        ) from error
