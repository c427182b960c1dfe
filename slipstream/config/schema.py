"""The configs of `slipstream train` and `slipstream eval`.

A component's config class is beside the component. `env` and `algo` are those of the task and the algorithm chosen,
through the registry. A task may add sections by a subclass of these classes (see
`tasks.base.Task`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Literal

from slipstream.config import registry
from slipstream.config.help import show
from slipstream.config.validation import check_range

CHOSEN_BY_MEASURING = ("env.num_envs", "algo.minibatches")  # training/tuning.py


def _model_config() -> Any:
    from slipstream.models.policy import ModelConfig

    return ModelConfig()


def _default_algorithm() -> Any:
    return registry.find("algorithm", registry.DEFAULT_ALGORITHM).Config()


@dataclass
class CollectConfig:
    """Configure how batches get from the env to the learner."""

    pipeline: Literal["off", "on", "on_policy"] = "off"  # on: collect beside the update; on_policy: beside logging only
    max_staleness: int = 1  # updates between the weights that collect and those that learn
    prefetch_count: int = 2  # batches that may wait for the learner
    compress: str = "off"  # observations to keep as compressed blocks: all, or names joined by commas, such as lidar
    compression_level: int = 1  # 0 to 16: 1 is fast, 2 to 12 smaller and slower
    threads: int = 0  # CPU threads of the collecting thread; 0 for half of all

    def __post_init__(self) -> None:
        check_range(self, "max_staleness", "prefetch_count", minimum=1, section="collect.")
        check_range(self, "threads", minimum=0, section="collect.")
        check_range(self, "compression_level", minimum=0, maximum=16, section="collect.")

    @property
    def collector(self) -> str:
        """The name, in the registry, of the collector that these settings choose."""
        return "sync" if self.pipeline == "off" else "pipelined"

    def compressed_keys(self) -> list[str] | None:
        """Return the names of the observations to compress; None for all. `compress` must not be off."""
        return None if self.compress == "all" else [name.strip() for name in self.compress.split(",")]


@dataclass
class ActorsConfig:
    """Configure actors that collect on a Ray cluster (docs/scale.md)."""

    count: int | None = None  # processes that collect, each env.num_envs (pip install -e '.[ray]')
    address: str | None = None  # of a Ray cluster: auto, HOST:6379, ray://HOST:10001; null starts one on this machine
    max_staleness: int = 1  # updates between the weights that collect and those that learn; 0: actors wait for them
    cpus: int = 1  # cores of each actor

    def __post_init__(self) -> None:
        if self.count is None and self.address is not None:
            raise ValueError(f"actors.address={self.address} needs a number of actors: give actors.count=8")
        check_range(self, "count", "cpus", minimum=1, section="actors.")
        check_range(self, "max_staleness", minimum=0, section="actors.")


@dataclass
class WandbConfig:
    """The settings of `wandb.*` (an extra: pip install -e '.[wandb]')."""

    mode: Literal["auto", "online", "offline", "disabled"] = "auto"  # auto: offline where wandb is installed
    project: str = "slipstream"
    name: str | None = None
    entity: str | None = None
    run_id: str | None = None  # of the W&B run to start or continue; by default one that the run folder keeps

    def __post_init__(self) -> None:
        if self.run_id is not None and not re.fullmatch(r"[^/\\#?%:\s]{1,128}", self.run_id):
            raise ValueError(f"wandb.run_id={self.run_id!r}: use up to 128 characters without spaces and / \\ # ? % :")


@dataclass
class DistributedConfig:
    """The settings of `distributed.*`, for a training in several processes (docs/scale.md)."""

    timeout_s: float = 60.0  # a process that is silent or waited for this long ends the training
    capture: Literal["auto", "off"] = "auto"  # auto: the all-reduce is in the update's CUDA graph; off: no capture

    def __post_init__(self) -> None:
        check_range(self, "timeout_s", minimum=1, maximum=86_400, section="distributed.")


@dataclass
class EvalConfig:
    """The settings of `eval.*`: deterministic episodes that training does not see."""

    num_drones: int = 256  # per map
    map_seeds: list[int] = field(default_factory=lambda: [101, 102, 103])  # [7,8,9], or 101-116
    max_steps: int | None = None  # physics steps; null: as the task says, by default to the end, at most 10,000
    static_too: bool = False  # in training: fly the maps without moving obstacles as well
    picture: bool = True
    bootstrap: int = 10_000  # resamples for the intervals

    def __post_init__(self) -> None:
        check_range(self, "num_drones", "max_steps", "bootstrap", minimum=1, section="eval.")
        if not self.map_seeds:
            raise ValueError("eval.map_seeds must name a map, as in 'eval.map_seeds=[101,102,103]'")
        if len({*self.map_seeds}) < len(self.map_seeds):  # the same flights would count as more of them
            raise ValueError(f"eval.map_seeds={show(self.map_seeds)} names a map twice: give each once")


@dataclass
class TrainConfig:
    """The config of `slipstream train`."""

    task: str = registry.DEFAULT_TASK  # or my_package.my_module:MyEnv
    env: Any = None  # the task's own Config
    model: Any = field(default_factory=_model_config)
    algo: Any = field(default_factory=_default_algorithm)  # of the algorithm that algo=NAME chooses
    schedules: dict[str, str] = field(default_factory=dict)  # keys that follow the training; env.KEY=ramp(…) sets one
    collect: CollectConfig = field(default_factory=CollectConfig)
    actors: ActorsConfig = field(default_factory=ActorsConfig)
    eval: EvalConfig = field(default_factory=lambda: EvalConfig(map_seeds=[301, 302, 303]))  # not those of `eval`
    wandb: WandbConfig = field(default_factory=WandbConfig)
    distributed: DistributedConfig = field(default_factory=DistributedConfig)
    seed: int = 0
    device: str = "auto"  # cpu, cuda, cuda:1
    gpus: int | Literal["auto"] | None = None  # 2, auto: train in as many processes, each with a GPU; see docs/scale.md
    compile: Literal["auto", "on", "off"] = "auto"  # on: compiled kernels; auto: graphs on a GPU, later compiled ones
    total_frames: int = 1_200_000_000
    max_time_s: float = 0.0  # stop after this much training; 0 is no limit
    eval_interval: int = 500  # iterations; 0 is never
    save_interval: int = 1000  # iterations
    save_minutes: float = 5.0  # and at least this often; 0 is by iterations alone
    compress_checkpoint: bool | Literal["lz4"] = True  # true: .pt.slip, lz4: .pt.lz4, false: a plain .pt
    async_checkpoint_queue_size: int = 3
    save_compression_level: int = 9
    keep_checkpoints: int = 5  # the last ones; the best stays as well; 0 keeps all
    checkpoint_full_every: int = 1  # 10: every tenth checkpoint is complete, those between hold the changes since
    checkpoint_moments: Literal["float32", "bf16", "int8"] = "float32"  # of Adam in .slip files; float32 is exact
    rollout_save_interval: int = 0  # iterations; 100: every hundredth batch goes to RUN/rollouts; 0 is never
    rollout_keep: int = 100  # files in RUN/rollouts, those written last; 0 keeps all
    rollout_compression_level: int = 9
    # 5: every five minutes a flight goes to RUN/recordings, for slipstream view; 0 is never
    record_minutes: float = 0.0
    root: str = "runs"
    name: str | None = None  # of the run folder; date, time and task by default
    resume: str | None = None  # a run folder: continue where it stopped; auto: start the run name=, or continue it
    # fresh: a resumed run starts new episodes, in any number of processes
    resume_envs: Literal["saved", "fresh"] = "saved"
    init: str | None = None  # weights to start from, ours or NavRL's
    init_replay: str | None = None  # dqn, sac, td3: transitions to start from: rollout files, a replay folder, a run
    headless: bool = True  # accepted for NavRL's sake; there is no window
    threads: int = 0  # CPU threads; 0 takes all
    auto: list[str] = field(default_factory=list)  # keys to choose by measuring, as env.num_envs=auto does
    quiet: bool = False  # print nothing while training
    summary_interval: int = 100  # iterations between two printed summaries of times and checkpoints; 0 is never

    def __post_init__(self) -> None:
        if isinstance(self.gpus, int) and self.gpus < 1:
            raise ValueError(f"gpus must be auto or a number from 1 on, not {self.gpus}")
        if self.actors.count:
            self._check_actors()
        check_range(self, "save_interval", "total_frames", minimum=1)
        check_range(self, "async_checkpoint_queue_size", "checkpoint_full_every", minimum=1)
        check_range(self, "eval_interval", "threads", "max_time_s", "save_minutes", "rollout_save_interval", minimum=0)
        check_range(self, "record_minutes", "summary_interval", "rollout_keep", "keep_checkpoints", minimum=0)
        check_range(self, "save_compression_level", "rollout_compression_level", minimum=0, maximum=16)
        if self.checkpoint_moments != "float32" and self.compress_checkpoint is not True:
            raise ValueError(f"checkpoint_moments={self.checkpoint_moments} needs compress_checkpoint=true")
        if self.resume == "auto" and not self.name:
            raise ValueError("resume=auto starts or continues the run with a name: give name=NAME")
        if self.resume not in (None, "auto"):
            for key in ("init", "init_replay"):
                if getattr(self, key):
                    raise ValueError(
                        f"resume=RUN continues with what that run has: leave {key} out, or start a new run"
                    )

    def _check_actors(self) -> None:
        """Raise ValueError for settings that do not work with actors."""
        others = {
            f"gpus={self.gpus}": self.gpus not in (None, 1),
            f"collect.pipeline={self.collect.pipeline}": self.collect.pipeline != "off",
            f"collect.compress={self.collect.compress}": self.collect.compress != "off",
            f"{''.join(self.auto[:1])}=auto": bool(self.auto),
        }
        for setting, is_set in others.items():
            if is_set:
                raise ValueError(
                    f"actors.count={self.actors.count} does not work with {setting}: actors collect compressed batches "
                    "for one learner; leave one of the two out"
                )


@dataclass
class EvaluateConfig:
    """The config of `slipstream eval`."""

    checkpoint: str | None = None  # ours or NavRL's; the policy that ships with the package by default
    compare: str | None = None  # another one, flown over the same maps
    task: str = registry.DEFAULT_TASK
    env: Any = None  # the world; by default that of the checkpoint's own training
    eval: EvalConfig = field(default_factory=EvalConfig)
    device: str = "auto"
    seed: int = 0
    json: bool = False  # the last line is one JSON object
    out: str | None = None  # the picture, page or animation to write: .png, .html, .gif, .mp4; --force overwrites it
    threads: int = 0  # CPU threads; 0 takes all

    def __post_init__(self) -> None:
        if self.out and not self.eval.picture:
            raise ValueError(f"out={self.out} is not written with eval.picture=false: leave one of them out")
