"""Configuration: the components' dataclasses composed by Hydra with the YAML of conf/ and key=value overrides.

Defaults stand in the dataclasses, beside what they configure; conf/ holds only what differs from them: tasks, presets, the demo.
"""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Iterable
from dataclasses import MISSING, asdict, dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any, cast

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from slipstream.algo.dqn import DQNConfig
from slipstream.algo.ppo import PPOConfig
from slipstream.algo.sac import SACConfig
from slipstream.algo.td3 import TD3Config
from slipstream.collect.config import CollectConfig
from slipstream.envs.aircombat import AirCombatEnv
from slipstream.envs.base import TensorEnv
from slipstream.envs.navigation import NavigationEnv
from slipstream.keys import describe_keys, nearest, settable
from slipstream.league.curriculum import LeagueConfig
from slipstream.models.policy import ModelConfig
from slipstream.runs.log import WANDB_MODES

CONF = Path(__file__).parent / "conf"
TASKS: dict[str, type[TensorEnv] | str] = {"navigation": NavigationEnv, "aircombat": AirCombatEnv, "gym": "slipstream.envs.gym:GymEnv"}
ALGORITHMS: dict[str, type[Any]] = {"ppo": PPOConfig, "dqn": DQNConfig, "sac": SACConfig, "td3": TD3Config}

PATHS = ("checkpoint", "compare", "resume", "init", "root", "name", "out", "red", "blue", "env.opponent")

CHOSEN_BY_MEASURING = ("env.num_envs", "algo.minibatches")  # and device=auto with them: slipstream/tuning/sizing.py

# What people who come from elsewhere type, and what it is called here. Flags are names too: --num-envs 256 is num_envs=256.
OLD_NAMES = {
    "agent": "algo",
    "opponent": "env.opponent",
    "reward": "env.reward",
    "num_envs": "env.num_envs",
    "time_scale": "env.time_scale",
    "env_dyn": "env.dyn",
    "algo.num_minibatches": "algo.minibatches",
    "algo.training_epoch_num": "algo.epochs",
    "algo.entropy_loss_coefficient": "algo.entropy",
    "algo.learning_starts": "algo.warmup",
    "algo.gradient_steps": "algo.updates",
    "algo.train_freq": "algo.training_frame_num",
    "algo.target_update_interval": "algo.target_interval",
    "max_frame_num": "total_frames",
    "checkpoint_dir": "root",
}


class ConfigError(ValueError):
    """A key or value that cannot be; the message says what can."""


class UnknownKeyError(ConfigError):
    """A key that nobody reads; says which of the known `keys` of `command` is nearest."""

    def __init__(self, key: str, keys: Iterable[str], command: str) -> None:
        self.key, self.keys = key, list(keys)
        super().__init__(f"unknown key '{key}'{nearest(key, self.keys)} (all keys: slipstream {command} --help)")


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
    max_steps: int = 2200  # physics steps
    static_too: bool = False  # in training: fly the maps without moving obstacles as well
    picture: bool = True
    bootstrap: int = 10_000  # resamples for the intervals

    def __post_init__(self) -> None:
        if self.num_drones < 1 or not self.map_seeds or self.max_steps < 1:
            raise ValueError("eval.num_drones and eval.max_steps must be at least 1, and eval.map_seeds must name a map")
        if self.bootstrap < 1:
            raise ValueError(f"eval.bootstrap must be at least 1, not {self.bootstrap}")


@dataclass
class TrainConfig:
    """Everything `slipstream train` can be told."""

    task: str = "navigation"  # or my_package.my_module:MyEnv
    env: Any = None  # the task's own Config
    model: ModelConfig = field(default_factory=ModelConfig)
    algo: Any = field(default_factory=PPOConfig)  # of the algorithm that algo=NAME chooses
    collect: CollectConfig = field(default_factory=CollectConfig)
    eval: EvalConfig = field(default_factory=lambda: EvalConfig(map_seeds=[301, 302, 303]))  # not those that `eval` judges on
    league: LeagueConfig = field(default_factory=LeagueConfig)
    wandb: WandbConfig = field(default_factory=WandbConfig)
    seed: int = 0
    device: str = "auto"  # cpu, cuda, cuda:1
    compile: str = "auto"  # on a GPU graphs, for a long run of compiled kernels; on: compiled, a CPU's update too; off: plain
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
    auto: list[str] = field(default_factory=list)  # keys to choose by measuring; env.num_envs=auto and algo.minibatches=auto say it too
    quiet: bool = False  # print nothing while training

    def __post_init__(self) -> None:
        if self.compile not in ("auto", "on", "off"):
            raise ValueError(f"compile must be auto, on or off, not '{self.compile}'")
        if self.save_interval < 1 or self.eval_interval < 0 or self.keep_checkpoints < 1:
            raise ValueError("save_interval and keep_checkpoints must be at least 1, eval_interval not negative")
        if min(self.total_frames, self.async_checkpoint_queue_size, self.checkpoint_full_every) < 1:
            raise ValueError("total_frames, async_checkpoint_queue_size and checkpoint_full_every must be at least 1")
        if min(self.threads, self.max_time_s, self.save_minutes, self.rollout_save_interval) < 0:
            raise ValueError("threads, max_time_s, save_minutes and rollout_save_interval must not be negative")
        for name in ("save_compression_level", "rollout_compression_level"):
            if not 0 <= getattr(self, name) <= 16:
                raise ValueError(f"{name} must lie in 0 … 16, not {getattr(self, name)}")
        if self.resume and self.init:
            raise ValueError("resume=RUN goes on with that run's own weights: leave init out, or start a new run from init=PATH")


@dataclass
class EvaluateConfig:
    """Everything `slipstream eval` can be told."""

    checkpoint: str | None = None  # ours or NavRL's; the policy that ships with the package by default
    compare: str | None = None  # another one, flown over the same maps
    task: str = "navigation"
    red: str | None = None  # task=aircombat: agents by name or checkpoint, several by commas; the one that ships by default
    blue: str = "pursuit,crank,evade"  # task=aircombat: whom red meets
    games: int = 1000  # task=aircombat: of each pair, half with the colours changed
    env: Any = None  # the world; by default that of the checkpoint's own training
    eval: EvalConfig = field(default_factory=EvalConfig)
    device: str = "auto"
    seed: int = 0
    json: bool = False  # the last line is one JSON object
    out: str | None = None  # where the picture goes; beside the checkpoint's run, or eval.png here
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


def load_train(overrides: Iterable[str] = (), config_name: str = "train") -> TrainConfig:
    """The configuration of a training run from `key=value` overrides; with resume=RUN they change that run's own."""
    overrides = _auto_apart(plain_overrides(overrides))
    resume = value_of("resume", overrides)
    base = _saved_config(resume) | {"init": None} if resume else {}  # its weights are its own by now
    return _compose(config_name, TrainConfig, overrides, base)


def load_evaluate(overrides: Iterable[str] = (), trained_env: dict[str, Any] | None = None) -> EvaluateConfig:
    """The configuration of an evaluation; `trained_env` is the world of the checkpoint, which overrides may change."""
    overrides = plain_overrides(overrides)
    task = value_of("task", overrides) or "navigation"
    for key in (text.partition("=")[0] for text in overrides):
        if key in SET_BY_EVAL.get(task, {}):
            raise ConfigError(f"an evaluation sets {key} itself: use {SET_BY_EVAL[task][key]}")
    return _compose("eval", EvaluateConfig, overrides, {"env": trained_env} if trained_env else {})


def plain_overrides(words: Iterable[str]) -> list[str]:
    """What was typed as `key=value`, under the names used here: `--num-envs 256` and `num_envs=256` are `env.num_envs=256`.

    `@FILE` stands for the lines of a file, as `slipstream advise --apply FILE` writes it.
    """
    overrides, rest = [], [line for word in words for line in (_lines_of(word[1:]) if word.startswith("@") else [word])]
    while rest:
        word = rest.pop(0)
        if word.startswith("--"):
            key, eq, value = word[2:].partition("=")
            if not eq:  # the value is the next word; a flag without one is a switch
                value = rest.pop(0) if rest and not rest[0].startswith("--") and "=" not in rest[0] else "true"
            word = f"{key.replace('-', '_')}={value}"
        overrides.append(_renamed(word))
    return overrides


def help_text(command: str, overrides: Iterable[str] = ()) -> str:
    """The keys of `slipstream train` or `slipstream eval`, with what they are by default for the task, algo and preset chosen."""
    words = plain_overrides(word for word in overrides if word not in ("-h", "--help"))
    chosen = [text for text in words if text.startswith(("task=", "algo=", "preset="))]
    if command == "eval":
        task = value_of("task", chosen) or "navigation"
        shown = "shown: the task's" if task != "navigation" else "shown: NavRL's"
        note = f"  (the defaults of env.* are those of the checkpoint's own training; {shown})\n"
        return note + describe_keys(EvaluateConfig(task=task, env=env_class(task).Config()), SET_BY_EVAL.get(task, ()))
    config = load_train(chosen)
    preset = value_of("preset", chosen) or "none"
    presets = ", ".join(sorted(file.stem for file in (CONF / "preset").glob("*.yaml") if file.stem != "none"))
    choices = {f"preset={preset}": presets, f"algo={config.algo.name}": f"{', '.join(ALGORITHMS)}: each with algo.* of its own"}
    return "".join(f"  {key:44} {what}\n" for key, what in choices.items()) + describe_keys(config)


def env_class(task: str) -> type[TensorEnv]:
    """The env of a task: a name of ours, or `package.module:Class` of yours."""
    known = TASKS.get(task)
    if isinstance(known, type):
        return known
    task = known or task
    if ":" not in task:
        raise ConfigError(f"unknown task '{task}'{nearest(task, TASKS)}; for an env of your own write task=my_package.my_module:MyEnv")
    module_name, _, class_name = task.partition(":")
    if "" not in sys.path:
        sys.path.insert(0, "")  # as `python -m` would: modules of the folder you stand in
    try:
        module = importlib.import_module(module_name)
    except ImportError as error:
        raise ConfigError(f"task={task}: cannot import {module_name} ({error}); run from its folder or install it") from error
    found = getattr(module, class_name, None)
    if not (isinstance(found, type) and issubclass(found, TensorEnv)):
        raise ConfigError(f"task={task}: {module_name} has no TensorEnv subclass named {class_name}")
    config = getattr(found, "Config", None)
    if not is_dataclass(config) or "num_envs" not in {f.name for f in fields(config)}:
        raise ConfigError(f"task={task}: {class_name}.Config must be the dataclass of its settings, with a field num_envs")
    return found


def to_dict(config: Any) -> dict[str, Any]:
    """A configuration as plain data, to be written down."""
    return asdict(config)


def from_dict(kind: type[Any], data: dict[str, Any]) -> Any:
    """A configuration of `kind` from what `to_dict` gave."""
    sections = _sections(kind, data["task"], data["algo"]["name"] if "algo" in data else "ppo")
    return _instantiate(kind, sections, OmegaConf.create(data))


# -- inside ----------------------------------------------------------------------------------------------------------


def _saved_config(run: str) -> dict[str, Any]:
    """What a run was last flown with, from its latest checkpoint."""
    from slipstream.checkpoint import load_checkpoint
    from slipstream.policies import latest_checkpoint
    from slipstream.runs import RunFolder

    if Path(run).is_file():
        raise ConfigError(f"resume={run}: give the run's folder; it goes on from its last checkpoint. A new run from this one: init={run}")
    return load_checkpoint(latest_checkpoint(RunFolder.open(run).checkpoints), keys=["config"])["config"]


def _compose(config_name: str, kind: type[Any], overrides: list[str], base: dict[str, Any]) -> Any:
    from hydra import compose, initialize_config_dir
    from hydra.core.config_store import ConfigStore
    from hydra.core.global_hydra import GlobalHydra
    from hydra.errors import HydraException

    task = value_of("task", overrides) or base.get("task") or _preset_task(value_of("preset", overrides)) or "navigation"
    if task != base.get("task", task):
        raise ConfigError(f"a resumed run keeps its task, {base['task']}: leave task={task} out, or start a new run")
    algo = _chosen_algorithm(overrides, base)
    sections = _sections(kind, task, algo)
    keys = settable(kind, sections)
    overrides = [text for text in overrides if not text.startswith(("task=", "algo="))]
    _check_keys(overrides, kind, keys)
    overrides.append(f"task={task if task in TASKS else 'custom'}")
    if kind is TrainConfig:
        overrides.append(f"tuned={_tuned_for(value_of('preset', overrides), task, algo, bool(base))}")
    ConfigStore.instance().store(name=f"{config_name}_schema", node=_schema(kind, sections, base))
    overrides = [_readable(text, keys) for text in overrides]
    GlobalHydra.instance().clear()
    try:
        with initialize_config_dir(config_dir=str(CONF), version_base="1.3"):
            composed = compose(config_name=config_name, overrides=overrides)
    except (HydraException, OmegaConfBaseException) as error:
        raise ConfigError(_explain(error)) from error
    composed.task = task
    return _instantiate(kind, sections, composed)


def _sections(kind: type[Any], task: str, algo: str) -> dict[str, type[Any]]:
    """The dataclasses of those keys that depend on a choice: the env's, and in a training the algorithm's."""
    return {"env": env_class(task).Config, **({"algo": ALGORITHMS[algo]} if kind is TrainConfig else {})}


def _preset_task(preset: str | None) -> str | None:
    """The task that a preset is for, where it says so."""
    file = CONF / "preset" / f"{preset}.yaml"
    settings = OmegaConf.load(file) if preset and file.is_file() else None
    return settings.get("task") if isinstance(settings, DictConfig) else None


def _tuned_for(preset: str | None, task: str, algo: str, resumed: bool) -> str:
    """The file of conf/tuned/ with an algorithm's settings for a preset or, where the preset leaves it open, for a task."""
    tuned = sorted(file.stem for file in (CONF / "tuned").glob("*.yaml"))
    for_preset = [name.rpartition("-")[2] for name in tuned if preset and name.rpartition("-")[0] == preset]
    if for_preset and algo not in for_preset and not resumed:
        raise ConfigError(
            f"preset={preset} has no settings for algo={algo}, but for {', '.join(for_preset)}: choose one, or leave the preset out"
        )
    name = f"{preset if for_preset else task}-{algo}"
    return name if name in tuned and not resumed else "none"  # a resumed run has its own


def _schema(kind: type[Any], sections: dict[str, type[Any]], base: dict[str, Any]) -> Any:
    """The typed tree of every key, with the defaults of the dataclasses where `base` has none."""
    tree = OmegaConf.structured(kind)
    OmegaConf.set_struct(tree, False)
    for name, section in sections.items():
        tree[name] = OmegaConf.structured(section)
    OmegaConf.set_struct(tree, True)
    try:
        return OmegaConf.merge(tree, base)
    except OmegaConfBaseException as error:
        raise ConfigError(f"the checkpoint was written with other keys than this version has ({_explain(error)})") from error


def _instantiate(kind: type[Any], sections: dict[str, type[Any]], composed: Any) -> Any:
    """The dataclasses, each checked by its own `__post_init__`."""
    try:
        data = OmegaConf.to_container(composed, resolve=True)
        assert isinstance(data, dict)
        parts = {name: _build(section, data.pop(name, None) or {}) for name, section in sections.items()}
        config = _build(kind, {str(k): v for k, v in data.items()})
    except (OmegaConfBaseException, ValueError, TypeError) as error:
        raise ConfigError(_explain(error)) from error
    for name, part in parts.items():
        setattr(config, name, part)
    return config


def _build(kind: type[Any], data: Any) -> Any:
    """`kind` from plain data, nested dataclasses and tuples included, typed by OmegaConf."""
    typed = cast(DictConfig, OmegaConf.merge(OmegaConf.structured(kind), data))
    values: dict[str, Any] = {}
    for f in fields(kind):
        default = f.default_factory() if f.default_factory is not MISSING else f.default
        value = typed[f.name]
        if is_dataclass(default) and isinstance(value, DictConfig):
            values[f.name] = _build(type(default), value)
        elif OmegaConf.is_config(value):
            plain = OmegaConf.to_container(value)
            values[f.name] = tuple(plain) if isinstance(default, tuple) else plain  # type: ignore[arg-type]
        else:
            values[f.name] = value
    return kind(**values)


def _renamed(text: str) -> str:
    """The override under its name here."""
    key, eq, value = text.partition("=")
    for old, new in OLD_NAMES.items():
        if key == old or key.startswith(old + "."):
            key = new + key[len(old) :]
    if not eq:
        raise ConfigError(f"'{text}' is not an override: write key=value, as in env.num_envs=1024 (see slipstream train --help)")
    return f"{key}={value}"


def _lines_of(file: str) -> list[str]:
    """The overrides in a file, one a line; what follows a # is a remark."""
    try:
        lines = Path(file).read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise ConfigError(f"@{file}: cannot be read ({error.strerror}); it names a file with a key=value on each line") from error
    return [text for line in lines if (text := re.sub(r"(^|\s)#.*", "", line).strip())]


def _auto_apart(overrides: list[str]) -> list[str]:
    """`key=auto` of a key that can be chosen by measuring, said as `auto=[key]`; of several values of a key the last one counts."""
    asked = [key for key in CHOSEN_BY_MEASURING if value_of(key, overrides) == "auto"]
    overtaken = [f"{key}=auto" for key in CHOSEN_BY_MEASURING]
    kept = [text for text in overrides if text.partition("=")[0] not in asked and text not in overtaken]
    return [*kept, f"auto=[{','.join(asked)}]"] if asked else kept


def _chosen_algorithm(overrides: list[str], base: dict[str, Any]) -> str:
    """`algo=ppo` names the algorithm; the keys of algo.* are its own."""
    held = base["algo"]["name"] if "algo" in base else None
    name = value_of("algo", overrides) or held or "ppo"
    if name not in ALGORITHMS:
        raise ConfigError(f"unknown algo '{name}'{nearest(name, ALGORITHMS)} (there are: {', '.join(ALGORITHMS)})")
    if held and name != held:
        raise ConfigError(f"a resumed run keeps its algorithm, {held}: leave algo={name} out, or start a new run")
    return name


def value_of(key: str, overrides: list[str]) -> str | None:
    """What the overrides give `key`, without quotes; None where they say nothing, or null."""
    values = [text.partition("=")[2] for text in overrides if text.partition("=")[0] == key]
    value = values[-1].strip("'\"") if values else None
    return None if value == "null" else value


def _readable(text: str, keys: dict[str, Any]) -> str:
    """The override as Hydra's grammar takes it: paths in quotes, whatever is in them, and 12e8 for a whole number."""
    key, _, value = text.partition("=")
    if key in PATHS and value not in ("", "null") and value[0] not in "'\"":
        escaped = value.replace("'", "\\'")
        return f"{key}='{escaped}'"
    if type(keys.get(key)) is int and re.fullmatch(r"[+-]?[\d_.]+[eE][+]?\d+", value) and float(value).is_integer():
        return f"{key}={int(float(value))}"
    return text


def _check_keys(overrides: list[str], kind: type[Any], settable_keys: dict[str, Any]) -> None:
    """Refuses a key that nobody reads, and names the nearest one that somebody does."""
    command = "train" if kind is TrainConfig else "eval"
    keys = [*settable_keys, *(["preset"] if command == "train" else [])]
    presets = sorted(file.stem for file in (CONF / "preset").glob("*.yaml"))
    preset = value_of("preset", overrides)
    if preset is not None and preset not in presets:
        raise ConfigError(f"unknown preset '{preset}'{nearest(preset, presets)} (there are: {', '.join(presets)})")
    for text in overrides:
        key = text.partition("=")[0].lstrip("+~")
        if key not in keys:
            raise UnknownKeyError(key, keys, command)


def _explain(error: Exception) -> str:
    """The innermost cause in one line, with the full key where OmegaConf knows it."""
    cause: BaseException = error
    while cause.__cause__ is not None:
        cause = cause.__cause__
    full_key = getattr(cause, "full_key", None) or getattr(error, "full_key", None)
    lines = [line.strip() for line in str(cause).split("\n") if line.strip()]
    text = " ".join(lines[:2]) if lines and lines[0].endswith(":") else next(iter(lines), type(cause).__name__)
    return f"{full_key}: {text}" if full_key and str(full_key) not in text else text
