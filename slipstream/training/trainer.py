"""Trainer: env, collector and learner of one training. `Trainer.step()` is the one iteration that everything here
runs."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, Self

import torch
from torch import Tensor

from slipstream.algorithms.base import Learner, build_learner, build_network
from slipstream.algorithms.execution.capture import capture_training
from slipstream.algorithms.execution.compile import use_compiler_cache
from slipstream.algorithms.policy_file import load_policy
from slipstream.config import registry
from slipstream.config.compose import from_dict, to_dict
from slipstream.config.help import ConfigError, show
from slipstream.config.schema import TrainConfig
from slipstream.envs.base import TensorEnv
from slipstream.envs.collector import Collector
from slipstream.envs.rollout import Rollout
from slipstream.monitor import PerformanceMonitor
from slipstream.sim.devices import resolve_device, set_threads
from slipstream.sim.random import derive_seed
from slipstream.sim.startup import importing_beside
from slipstream.storage.background import close_after
from slipstream.storage.errors import SaveError
from slipstream.tasks.base import Task
from slipstream.tasks.evaluation import TrainingEvaluation
from slipstream.training.distributed import OneProcess, check_started
from slipstream.training.scheduled import ScheduledNumbers
from slipstream.ui.tables import progress_bar

# From here on compiled kernels pay on a GPU. Another process takes up to a minute to compile them.
LONG_RUN_FRAMES, LONG_RUN_S = 300_000_000, 120


@dataclass
class StepResult:
    """The result of one iteration."""

    batch: Any  # the `Rollout`; valid until the next step, beside a pipelined collector only inside `inspect`
    metrics: dict[str, Tensor]  # on the device: losses [], `bad_actions` [], `episodes` [k] (sums over finished ones)


class Trainer:
    """Owns env, policy, collector and learner of one training.

    Args:
        cfg: The config, such as `load_train(["env.num_envs=64"])`.
        ranks: The processes that learn together; each has a Trainer of its own.
    """

    def __init__(self, cfg: TrainConfig, ranks: OneProcess | None = None) -> None:
        self.cfg, self.ranks = cfg, ranks or OneProcess()
        check_started(cfg, self.ranks.size)
        device = self._set_up_device()
        self.task: Task = registry.find_task(cfg.task)
        self.task.check_training(cfg)
        if cfg.record_minutes and not self.task.can_record:
            raise ConfigError(f"task={cfg.task} has no scene for the viewer: leave record_minutes out")
        self.env = self._build_env(device)
        self.policy, self.init_message = self._build_policy(device)
        self.controller = self.task.make_controller(cfg, self.env, self.policy)
        self.evaluation = self._build_evaluation(device)
        self.learner = self._build_learner()
        self.collector = self._build_collector(self._batch_frames)
        self.ranks.copy_weights(self.learner.networks())
        self.monitor = PerformanceMonitor()
        self.monitor.watch_memory(device)
        for name, read in self.learner.gauges().items():  # a buffer that fills up is no leak
            self.monitor.store(name, read)
        self.best = -math.inf  # score of the best evaluation
        self.trained_s = 0.0  # training time before this start
        self._resumed = 0, 0  # iterations and frames of all ranks before this start
        self._frames_before = 0  # frames of all ranks that `collector.frames` does not count
        self.scheduled = ScheduledNumbers(self)
        # The two halves of a step, which `capture` replaces by faster forms.
        self.collect: Callable[[], Any] = lambda: self.collector.collect_rollout(check=False)
        self.learn: Callable[[Any, float], dict[str, Tensor]] = self.learner.update
        self.capture_again: Callable[[], None] = lambda: None  # drops what was captured with other settings

    def _set_up_device(self) -> torch.device:
        """Return the device of this rank, with its threads and random numbers set."""
        device = resolve_device(self.ranks.device(self.cfg.device))
        if self.cfg.threads or device.type == "cpu":
            set_threads(self.cfg.threads)
        torch.manual_seed(derive_seed(self.cfg.seed, "policy", self.ranks.rank))
        if device.type == "cuda":
            torch.set_float32_matmul_precision("high")
            use_compiler_cache(device)
        return device

    def _build_env(self, device: torch.device) -> TensorEnv:
        """Return the env. On a GPU tensordict, which takes longer to load than torch, is loaded beside it."""
        with progress_bar("building the env"), importing_beside(device, "tensordict"):
            env = self.task.make_env(self.cfg.env, device, derive_seed(self.cfg.seed, "env", self.ranks.rank))
        env.check_specs()
        return env

    def _build_policy(self, device: torch.device) -> tuple[Any, str]:
        """Return the policy, and a message which weights it begins with."""
        cfg, env = self.cfg, self.env
        policy = build_network(asdict(cfg.algo), env.observation_spec, env.action_spec, cfg.model).to(device)
        if not cfg.init:
            return policy, ""
        loaded = load_policy(self.task.policy_file(cfg.init))
        load_weights(policy, loaded.build(env, device), cfg.init)
        other = loaded.other_settings(env)
        return policy, f"init: {loaded.path}{other and f', trained with {other}'}"

    def _build_evaluation(self, device: torch.device) -> TrainingEvaluation:
        """Return what evaluates the policy: the controller's games, or the task's."""
        if self.controller is None:
            return self.task.make_evaluation(self.cfg, self.policy, device)
        return TrainingEvaluation(self.policy, self.controller.evaluate)

    @property
    def _batch_frames(self) -> int:
        """Frames of one batch of this rank."""
        return self.env.num_envs * self.cfg.algo.rollout_steps * (self.cfg.actors.count or 1)

    def _build_learner(self) -> Learner:
        """Return the learner, with what its replay buffer begins with."""
        cfg, ranks, specs = self.cfg, self.ranks, (self.env.observation_spec, self.env.action_spec)
        seed = derive_seed(cfg.seed, "replay", ranks.rank)
        learner: Learner = build_learner(self.policy, cfg.algo, specs[0], seed, fresh=not cfg.init)
        if cfg.compile == "on" and not learner.supports_capture:
            raise ConfigError(f"compile=on cannot compile the update of algo={cfg.algo.name}: leave it out")
        learner.bind(self.env)
        if cfg.actors.count:
            self._check_actors(learner)
        learner.check_batch(self._batch_frames)
        learner.average, learner.sums = ranks.average, ranks.sums
        if cfg.init_replay:
            from slipstream.algorithms.stored import fill_replay  # loads tensordict

            with progress_bar("reading transitions"):
                fill_replay(learner, cfg.init_replay, specs, self._batch_frames // cfg.algo.rollout_steps)
        return learner

    def _check_actors(self, learner: Learner) -> None:
        others = {
            f"{self.ranks.size} ranks, which learn together": self.ranks.size > 1,
            "algo.data, which is learned without an env that flies": learner.data is not None,
            "a league or the like, which changes the env of the learner": self.controller is not None,
        }
        if other := next((other for other, is_given in others.items() if is_given), ""):
            raise ConfigError(f"actors, which have envs of their own, do not work with {other}: leave actors.count out")

    def _build_collector(self, frames: int) -> Collector:
        """Return the collector of `collect.*` or `actors.*`, for batches of `frames` frames."""
        cfg, env, learner = self.cfg, self.env, self.learner
        settings, seed = cfg.collect, derive_seed(cfg.seed, "collect", self.ranks.rank)
        if learner.data is not None:
            return registry.find("collector", "stored")(env, self.policy, frames, learner.data, seed)
        if cfg.actors.count:
            return registry.find("collector", "ray")(
                partial(make_actor, to_dict(cfg)),
                self.policy,
                env.num_envs,
                frames,
                keep_late=learner.is_off_policy,
                compression_level=settings.compression_level,
                seed=cfg.seed,
                **vars(cfg.actors),
            )
        on_gpu = env.device.type == "cuda"
        if settings.compress != "off" and (not learner.reads_minibatches or (on_gpu and cfg.compile != "off")):
            raise ConfigError(
                f"collect.compress does not work for algo={cfg.algo.name} on {env.device.type}: it needs algo=ppo, and "
                "on a GPU compile=off, because the host opens compressed batches"
            )
        if settings.pipeline != "off":
            learner.seed_minibatches(derive_seed(cfg.seed, "minibatches", self.ranks.rank))  # drawn beside the rollout
        return registry.find("collector", settings.collector).build(env, self.policy, frames, settings, seed)

    def resize_batch(self, steps: int) -> None:
        """Collect batches of another number of steps; env and statistics continue."""
        state = self.collector.state_dict()
        self.collector.shutdown()
        self.collector = self._build_collector(self.env.num_envs * steps)
        self.collector.load_state_dict(state)

    # -- the iteration -------------------------------------------------------------------------------------------------

    def step(self, progress: float = 0.0, inspect: Callable[[Any], None] | None = None) -> StepResult:
        """Run one iteration: collect a batch, learn from it, publish the weights. Without the speed-ups:

            for t in range(rollout_steps):              # collector.collect_rollout
                action = policy(observation)
                observation, reward, done = env.step(action)
                store(observation, action, reward, done)
            targets = returns(rewards, values)          # learner.update
            for minibatch in batch:
                optimizer.step(loss(minibatch, targets))
            publish(policy)                             # the next rollout uses the new weights

        Args:
            progress: Share of the run that is done, 0 to 1; drives the schedules.
            inspect: Called with the batch [N, T] before the weights are published: afterwards a pipelined collector may
                overwrite it.
        """
        scheduled = self.scheduled.follow(progress)
        with self.monitor.timer("collect", self.env.device):
            batch = self.collect()
        with self.monitor.timer("learn", self.env.device):
            losses = self.learn(batch, progress)
        if inspect is not None:
            inspect(batch.to_tensordict() if isinstance(batch, Rollout) else batch)
        self.collector.publish()
        episodes = self.ranks.sum(self.collector.episodes.take())
        reported = {"bad_actions": self.collector.bad_actions, "episodes": episodes}
        return StepResult(batch, losses | scheduled | reported)

    def capture(self, log: Callable[[str], None] = print, mode: str | None = None) -> None:
        """Run the next steps as CUDA graphs or compiled kernels, by `execution_mode` or another `mode`."""
        mode, agree = mode or self.execution_mode(), lambda ok: not any(self.ranks.max(not ok))
        self.collect, self.learn = capture_training(self.collector, self.learner, mode, log, agree=agree)
        if self.learner.average is not None and self.cfg.distributed.capture == "off":
            self.learn = self.learner.update
        self.capture_again = partial(self.capture, log, mode)

    def execution_mode(self) -> str:
        """Return how steps run: plain, graphs or compiled. `auto` compiles only for a run that earns the start-up
        back."""
        if not self.learner.supports_capture:
            return "plain"
        if self.cfg.compile == "on":
            return "compiled"
        if self.cfg.compile == "off" or self.env.device.type != "cuda":
            return "plain"
        long_enough = not self.cfg.max_time_s or self.cfg.max_time_s >= LONG_RUN_S
        long_enough &= not self.cfg.schedules  # each new number would be compiled
        return "compiled" if self.cfg.total_frames >= LONG_RUN_FRAMES and long_enough else "graphs"

    # -- how far it goes -----------------------------------------------------------------------------------------------

    @property
    def frames_per_batch(self) -> int:
        """Frames of one iteration, of all ranks."""
        return self.collector.frames_per_batch * self.ranks.size

    @property
    def frames(self) -> int:
        """Frames so far, of all ranks."""
        return self._frames_before + self.collector.frames * self.ranks.size

    @property
    def iterations(self) -> int:
        """Iterations to `total_frames`."""
        iterations, frames = self._resumed  # with other ranks, perhaps
        if planned := self.scheduled.iterations(iterations, frames):
            return planned
        return max(1, iterations + math.ceil((self.cfg.total_frames - frames) / self.frames_per_batch))

    @property
    def last_iteration(self) -> int:
        """The iteration with which this start ends; 0 if earlier starts used up `max_time_s`."""
        return 0 if 0 < self.cfg.max_time_s <= self.trained_s else self.iterations

    def progress(self, it: int, time_share: float) -> float:
        """Return the share of the run that is done, by frames or by time, whichever ends it sooner."""
        return max(it / self.iterations, time_share)

    def logged_metrics(self, values: dict[str, Any]) -> dict[str, float]:
        """Return the metrics of a step, on the host, as they are logged.

        Args:
            values: `StepResult.metrics` as numbers.

        Raises:
            BadActionError: The policy gave actions that are no numbers or out of range.
            FloatingPointError: A loss is not finite.
        """
        if values["bad_actions"]:
            self.collector.check()
        metrics = {name: value for name, value in values.items() if name not in ("bad_actions", "episodes")}
        if broken := ", ".join(name for name, value in metrics.items() if not math.isfinite(value)):
            raise FloatingPointError(
                f"{broken} is not a number: the weights are spoilt, or the env gives rewards or observations that are "
                "not finite. If the env is sound, start a new run from a checkpoint with a lower rate: slipstream train "
                f"init=RUN/checkpoints/ckpt_N.pt algo.learning_rate={self.cfg.algo.learning_rate / 3:.1e}"
            )
        episodes = self.collector.episodes.means(values["episodes"])
        return metrics | {f"episode/{name}": value for name, value in episodes.items()} | self.collector.metrics()

    # -- evaluation ----------------------------------------------------------------------------------------------------

    def evaluate(self) -> dict[str, float]:
        """Evaluate the policy with mean actions; return `eval/*` metrics."""
        self.start_evaluation()
        return self.take_evaluation() or {}

    def start_evaluation(self) -> None:
        """Start an evaluation of the present weights. It may run beside the next steps; `self.evaluation.policy` has
        its weights. The global random state is left as it was.

        Rank 0 evaluates for all: the others get the controller's state.
        """
        self.collector.settle()  # an evaluation uses all threads, and the random numbers of the process
        if self.ranks.is_root:
            device = self.env.device
            with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
                torch.manual_seed(derive_seed(self.cfg.seed, "evaluation"))  # for envs that draw from torch itself
                was_training = self.policy.training
                self.policy.eval()
                self.evaluation.start()
                self.policy.train(was_training)
        if self.controller is not None and self.ranks.size > 1:
            state = self.ranks.from_root(self.controller.state_dict)
            if not self.ranks.is_root:
                self.controller.load_state_dict(state)

    def take_evaluation(self, wait: bool = True) -> dict[str, float] | None:
        """Return the `eval/*` metrics of the evaluation that was started; without `wait` None if it still runs. Ranks
        other than 0 have no metrics."""
        if not self.ranks.is_root:
            return {}
        found = self.evaluation.take(wait)
        return found and {key if "/" in key else f"eval/{key}": value for key, value in found.items()}

    def checkpoint_tags(self, metrics: dict[str, float]) -> list[str]:
        """Return the names under which the policy just evaluated is kept: `best` if its score is better than all
        before, and those of the controller."""
        tags = [] if self.controller is None else self.controller.checkpoint_tags()
        scores = [metrics[key] for key in ("eval/score", "eval/success", "eval/return") if key in metrics]
        if not scores or not scores[0] > self.best:  # NaN is no score
            return tags
        self.best = scores[0]
        return ["best", *tags]

    # -- state ---------------------------------------------------------------------------------------------------------

    def policy_state(self, policy: Any = None) -> dict[str, Any]:
        """Return the weights of `policy`, by default the trained one, and the config: enough to fly."""
        return {"config": to_dict(self.cfg), "policy": (self.policy if policy is None else policy).state_dict()}

    def state_dict(self, iteration: int, trained_s: float = 0.0) -> dict[str, Any]:
        """Return everything that the iterations from `iteration` on depend on; on rank 0, of all ranks.

        Args:
            trained_s: Training time so far, in seconds.
        """
        algo = self.learner.state_dict()
        own = {"collector": self.collector.state_dict(), "rng": self._random_state()}
        others = self.ranks.gather(own | {"algo": {k: algo[k] for k in self.learner.rank_keys if k in algo}})
        return {
            "iteration": iteration,
            "frames": self.frames,
            "config": to_dict(self.cfg),
            "algo": algo,
            "collector": own["collector"],
            "best": self.best,
            "trained_s": trained_s,
            "controller": None if self.controller is None else self.controller.state_dict(),
            "rng": own["rng"],
            **({"ranks": others} if others else {}),
        }

    def _random_state(self) -> dict[str, Tensor]:
        cuda = {"cuda": torch.cuda.get_rng_state()} if self.env.device.type == "cuda" else {}
        return {"cpu": torch.get_rng_state(), **cuda}

    def load_state_dict(self, state: dict[str, Any], fresh_envs: bool = False) -> int:
        """Continue from `state`; return the iteration that comes next.

        Args:
            fresh_envs: Keep the envs, replay buffer and random numbers of this Trainer: any number of ranks may
                continue.
        """
        rank, rank_keys = self.ranks.rank, self.learner.rank_keys if fresh_envs else ()
        own = state if fresh_envs or not rank else state["ranks"][rank - 1]
        algo = state["algo"] | own["algo"]
        self.learner.load_state_dict({name: value for name, value in algo.items() if name not in rank_keys})
        if not fresh_envs:
            self.collector.load_state_dict(own["collector"])
        if self.controller is not None:
            self.controller.load_state_dict(state["controller"])
        self.best, self.trained_s = float(state["best"]), float(state["trained_s"])
        counts = state["iteration"], state["frames"], self.collector.frames
        if not self.trained_s >= 0 or any(type(count) is not int or not 0 <= count < 2**63 for count in counts):
            raise ValueError("its counts of iterations, frames and seconds are not numbers of 0 or more")
        self._resumed = state["iteration"], state["frames"]
        self._frames_before = state["frames"] - self.collector.frames * self.ranks.size
        if fresh_envs:
            torch.manual_seed(derive_seed(self.cfg.seed, f"resumed after {state['iteration']} iterations", rank))
            return state["iteration"]
        torch.set_rng_state(own["rng"]["cpu"])
        if "cuda" in own["rng"] and self.env.device.type == "cuda":
            torch.cuda.set_rng_state(own["rng"]["cuda"])
        return state["iteration"]

    def close(self) -> None:
        """Stop the evaluation, the collector's threads and the learner's buffer; raise the buffer's errors."""
        with ExitStack() as stack:  # each, whatever the others raise
            stack.callback(self.learner.close)
            stack.callback(self.collector.shutdown)
            stack.callback(self.evaluation.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        close_after(self.close, SaveError, error)


def make_actor(config: dict[str, Any], seed: int) -> tuple[TensorEnv, Any]:
    """Return the env and the policy of an actor, on the CPU. Called in the actor's process."""
    cfg = from_dict(config)
    env = registry.find_task(cfg.task).make_env(cfg.env, "cpu", derive_seed(seed, "env"))
    return env, build_network(asdict(cfg.algo), env.observation_spec, env.action_spec, cfg.model)


def load_weights(policy: Any, other: Any, path: str) -> None:
    """Copy the weights and value statistics of `other`, which came from `path`, into `policy`."""
    same_mirror = policy.config.mirror == other.config.mirror
    if type(policy) is not type(other) and same_mirror:
        raise ValueError(
            f"init={path} holds a {type(other).__name__}, which another algorithm trains: choose that one with algo=NAME"
        )
    try:
        if policy.config.activation != other.config.activation or not same_mirror:
            raise RuntimeError("the same weights, but for another activation or mirror")
        policy.load_state_dict(other.state_dict())
    except RuntimeError as error:
        pairs = zip(asdict(policy.config).items(), asdict(other.config).values(), strict=True)
        asked = " ".join(f"'model.{name}={show(theirs)}'" for (name, mine), theirs in pairs if mine != theirs)
        raise ValueError(
            f"init={path} holds another network than model.* describes: give {asked or 'env.* as in its training'}"
        ) from error
