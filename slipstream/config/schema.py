"""Settings: everything a training and an evaluation can be told, as dataclasses, and which tasks and algorithms there are."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any

from slipstream.algorithms.dqn import DQNConfig
from slipstream.algorithms.ppo import PPOConfig
from slipstream.algorithms.sac import SACConfig
from slipstream.algorithms.td3 import TD3Config
from slipstream.collectors.config import CollectConfig
from slipstream.config.help import ConfigError, nearest
from slipstream.config.registry import class_at
from slipstream.config.validation import must
from slipstream.envs.base import TensorEnv
from slipstream.models.policy import ModelConfig
from slipstream.tasks.aircombat.env import AirCombatEnv
from slipstream.tasks.aircombat.league.curriculum import LeagueConfig
from slipstream.tasks.navigation.env import NavigationEnv
from slipstream.training.metrics_log import WANDB_MODES

TASKS: dict[str, type[TensorEnv] | str] = {
    "navigation": NavigationEnv,
    "aircombat": AirCombatEnv,
    "gym": "slipstream.tasks.gym.env:GymEnv",
}
ALGORITHMS: dict[str, type[Any]] = {"ppo": PPOConfig, "dqn": DQNConfig, "sac": SACConfig, "td3": TD3Config}

CHOSEN_BY_MEASURING = (
    "env.num_envs",
    "algo.minibatches",
)  # and device=auto with them: slipstream/training/tuning/sizing.py


@dataclass
class WandbConfig:
    """The settings of `wandb.*` (an extra: pip install 'slipstream-rl[wandb]')."""

    mode: str = "auto"  # offline where wandb is installed; online, offline, disabled
    project: str = "slipstream"
    name: str | None = None
    entity: str | None = None

    def __post_init__(self) -> None:
        if self.mode not in ("auto", *WANDB_MODES):
            raise ValueError(f"wandb.mode must be auto or one of {', '.join(WANDB_MODES)}, not '{self.mode}'")


@dataclass
class EvalConfig:
    """The settings of `eval.*`: deterministic flights over maps not trained on."""

    num_drones: int = 256  # a map
    map_seeds: list[int] = field(default_factory=lambda: [101, 102, 103])
    max_steps: int | None = (
        None  # physics steps; null: 2,200 in navigation, elsewhere until the episodes end, at most 10,000
    )
    static_too: bool = False  # in training: fly the maps without moving obstacles as well
    picture: bool = True
    bootstrap: int = 10_000  # resamples for the intervals

    def __post_init__(self) -> None:
        must(self, "be at least 1", "num_drones", "max_steps", "bootstrap", section="eval.")
        if not self.map_seeds:
            raise ValueError("eval.map_seeds must name a map, as in 'eval.map_seeds=[101,102,103]'")


@dataclass
class TrainConfig:
    """Everything `slipstream train` can be told."""

    task: str = "navigation"  # or my_package.my_module:MyEnv
    env: Any = None  # the task's own Config
    model: ModelConfig = field(default_factory=ModelConfig)
    algo: Any = field(default_factory=PPOConfig)  # of the algorithm that algo=NAME chooses
    collect: CollectConfig = field(default_factory=CollectConfig)
    eval: EvalConfig = field(
        default_factory=lambda: EvalConfig(map_seeds=[301, 302, 303])
    )  # not those that `eval` judges on
    league: LeagueConfig = field(default_factory=LeagueConfig)
    wandb: WandbConfig = field(default_factory=WandbConfig)
    seed: int = 0
    device: str = "auto"  # cpu, cuda, cuda:1
    compile: str = (
        "auto"  # on a GPU graphs, for a long run of compiled kernels; on: compiled, a CPU's update too; off: plain
    )
    total_frames: int = 1_200_000_000
    max_time_s: float = 0.0  # stop after this much training; 0 is no limit
    eval_interval: int = 500  # iterations; 0 is never
    save_interval: int = 1000  # iterations
    save_minutes: float = 5.0  # and at least this often; 0 is by iterations alone
    compress_checkpoint: bool = True
    async_checkpoint_queue_size: int = 3
    save_compression_level: int = 9
    keep_checkpoints: int = 5  # the last ones; the best stays as well
    checkpoint_full_every: int = 1  # 10: every tenth checkpoint is whole, those between hold what changed since
    rollout_save_interval: int = 0  # iterations; 100: every hundredth batch goes to RUN/rollouts; 0 is never
    rollout_compression_level: int = 9
    root: str = "runs"
    name: str | None = None  # of the run folder; date, time and task by default
    resume: str | None = None  # a run folder: go on where it stopped
    init: str | None = None  # weights to start from, ours or NavRL's
    headless: bool = True  # accepted for NavRL's sake; there is no window
    threads: int = 0  # CPU threads; 0 takes all
    auto: list[str] = field(
        default_factory=list
    )  # keys to choose by measuring; env.num_envs=auto and algo.minibatches=auto say it too
    quiet: bool = False  # print nothing while training

    def __post_init__(self) -> None:
        if self.compile not in ("auto", "on", "off"):
            raise ValueError(f"compile must be auto, on or off, not '{self.compile}'")
        must(self, "be at least 1", "save_interval", "keep_checkpoints", "total_frames")
        must(self, "be at least 1", "async_checkpoint_queue_size", "checkpoint_full_every")
        must(self, "be 0 or more", "eval_interval", "threads", "max_time_s", "save_minutes", "rollout_save_interval")
        for name in ("save_compression_level", "rollout_compression_level"):
            if not 0 <= getattr(self, name) <= 16:
                raise ValueError(f"{name} must lie in 0 … 16, not {getattr(self, name)}")
        if self.resume and self.init:
            raise ValueError(
                "resume=RUN goes on with that run's own weights: leave init out, or start a new run from init=PATH"
            )


@dataclass
class EvaluateConfig:
    """Everything `slipstream eval` can be told."""

    checkpoint: str | None = None  # ours or NavRL's; the policy that ships with the package by default
    compare: str | None = None  # another one, flown over the same maps
    task: str = "navigation"
    red: str | None = (
        None  # task=aircombat: agents by name or checkpoint, several by commas; the one that ships by default
    )
    blue: str = "pursuit,crank,evade"  # task=aircombat: whom red meets
    games: int = 1000  # task=aircombat: of each pair, half with the colours changed
    env: Any = None  # the world; by default that of the checkpoint's own training
    eval: EvalConfig = field(default_factory=EvalConfig)
    device: str = "auto"
    seed: int = 0
    json: bool = False  # the last line is one JSON object
    out: str | None = None  # where the picture goes; eval.png, of a duel duel.gif, in the run's folder or here
    threads: int = 0  # CPU threads; 0 takes all


# What an evaluation decides itself: a row of drones on each of its maps, flown once; games of two agents.
SET_BY_EVAL: dict[str, dict[str, str]] = {
    "navigation": {
        "env.num_envs": "eval.num_drones",
        "env.num_worlds": "eval.map_seeds",
        "env.world_seeds": "eval.map_seeds",
        "env.max_episode_steps": "eval.max_steps",
        "env.random_clock": "eval.max_steps",
        "env.goal_ends_episode": "eval.max_steps",
    },
    "aircombat": {"env.num_envs": "games", "env.opponent": "blue", "env.sides": "red and blue"},
}


def env_class(task: str) -> type[TensorEnv]:
    """The env of a task: a name of ours, or `package.module:Class` of yours."""
    known = TASKS.get(task)
    if isinstance(known, type):
        return known
    task = known or task
    if ":" not in task:
        raise ConfigError(
            f"unknown task '{task}'{nearest(task, TASKS)}; for an env of your own write task=my_package.my_module:MyEnv"
        )
    found = class_at(task, TensorEnv, f"task={task}")
    config = getattr(found, "Config", None)
    if not is_dataclass(config) or "num_envs" not in {f.name for f in fields(config)}:
        raise ConfigError(
            f"task={task}: {found.__name__}.Config must be the dataclass of its settings, with a field num_envs"
        )
    return found
