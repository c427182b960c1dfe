"""Configuration: the components' dataclasses composed by Hydra with the YAML of conf/ and key=value overrides.

Defaults stand in the dataclasses, beside what they configure; conf/ holds only what differs from them: tasks, presets, the demo.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import MISSING, asdict, fields, is_dataclass
from pathlib import Path
from typing import Any, cast

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from slipstream.config.help import ConfigError, UnknownKeyError, describe_keys, nearest, settable
from slipstream.config.overrides import plain_overrides, readable, value_of
from slipstream.config.schema import (
    ALGORITHMS,
    CHOSEN_BY_MEASURING,
    SET_BY_EVAL,
    TASKS,
    EvaluateConfig,
    TrainConfig,
    env_class,
)

CONF = Path(__file__).parents[1] / "presets"
_NUMBERS = {"Integer": "a whole number", "Float": "a number", "bool": "true or false"}  # what OmegaConf calls them


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
    choices = {
        f"preset={preset}": presets,
        f"algo={config.algo.name}": f"{', '.join(ALGORITHMS)}: each with algo.* of its own",
    }
    return "".join(f"  {key:44} {what}\n" for key, what in choices.items()) + describe_keys(config)


def to_dict(config: Any) -> dict[str, Any]:
    """A configuration as plain data, to be written down."""
    return asdict(config)


def from_dict(kind: type[Any], data: dict[str, Any]) -> Any:
    """A configuration of `kind` from what `to_dict` gave."""
    sections = _sections(kind, data["task"], data["algo"]["name"] if "algo" in data else "ppo")
    return _instantiate(kind, sections, OmegaConf.create(data))


# -- inside ----------------------------------------------------------------------------------------------------------


def _saved_config(run: str) -> dict[str, Any]:
    """What a run was last flown with, from the newest checkpoint that can say it."""
    from slipstream.checkpoint import load_checkpoint
    from slipstream.checkpoint.load import newest_good
    from slipstream.training.run_folder import RunFolder

    if Path(run).is_file():
        raise ConfigError(
            f"resume={run}: give the run's folder; it goes on from its last checkpoint. A new run from this one: init={run}"
        )
    return newest_good(
        RunFolder.open(run).checkpoints, lambda path: load_checkpoint(path, keys=["config"])["config"]
    ).content


def _compose(config_name: str, kind: type[Any], overrides: list[str], base: dict[str, Any]) -> Any:
    from hydra import compose, initialize_config_dir
    from hydra.core.config_store import ConfigStore
    from hydra.core.global_hydra import GlobalHydra
    from hydra.errors import HydraException, OverrideParseException

    task = (
        value_of("task", overrides) or base.get("task") or _preset_task(value_of("preset", overrides)) or "navigation"
    )
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
    overrides = [readable(text, keys) for text in overrides]
    GlobalHydra.instance().clear()
    try:
        with initialize_config_dir(config_dir=str(CONF), version_base="1.3"):
            composed = compose(config_name=config_name, overrides=overrides)
    except OverrideParseException as error:
        key = error.override.partition("=")[0]
        how = f"write {key}=VALUE, a list as '{key}=[1,2,3]', text with signs in it in quotes"
        raise ConfigError(f"cannot read {error.override}: {how}") from error
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
        raise ConfigError(
            f"the checkpoint was written with other keys than this version has ({_explain(error)})"
        ) from error


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
    unfit = re.search(
        r"Value '(.*)' (?:of type '.*' could not be converted to|is not a valid) (Integer|Float|bool)\b", str(cause)
    )
    if unfit:
        return f"{full_key} must be {_NUMBERS[unfit[2]]}, not '{unfit[1]}'"
    lines = [line.strip() for line in str(cause).split("\n") if line.strip()]
    text = " ".join(lines[:2]) if lines and lines[0].endswith(":") else next(iter(lines), type(cause).__name__)
    return f"{full_key}: {text}" if full_key and str(full_key) not in text else text
