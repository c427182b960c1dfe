"""Compose a config from dataclasses, YAML files and `key=value` overrides.

Defaults are in the dataclasses, beside the components they configure. The YAML files hold only what differs from them: presets of
machines and modes are in `slipstream/presets`, a task's own presets, tuned settings and defaults in its folder.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import MISSING, asdict, fields, is_dataclass
from pathlib import Path
from typing import Any, cast

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from slipstream.config import registry
from slipstream.config.help import ConfigError, UnknownKeyError, describe_keys, nearest, settable
from slipstream.config.overrides import plain_overrides, readable, value_of
from slipstream.config.schema import CHOSEN_BY_MEASURING, EvaluateConfig, TrainConfig, config_sections

PRESETS = Path(__file__).parents[1] / "presets"
_NUMBERS = {"Integer": "a whole number", "Float": "a number", "bool": "true or false"}  # what OmegaConf calls them


def load_train(overrides: Iterable[str] = ()) -> TrainConfig:
    """Return the config of a training from `key=value` overrides; with resume=RUN they change that run's own."""
    overrides = _auto_apart(plain_overrides(overrides))
    resume = value_of("resume", overrides)
    base = {}
    if resume:
        if Path(resume).is_file():
            raise ConfigError(
                f"resume={resume}: give the run's folder; it continues from its last checkpoint. "
                f"A new run from this one: init={resume}"
            )
        saved = registry.load("slipstream.checkpoint.run:saved_config", f"resume={resume}")
        base = saved(resume) | {"init": None}  # its weights are its own by now
        registry.refuse_unregistered(base, overrides, resume)
    return _compose("train", overrides, base)


def load_evaluate(overrides: Iterable[str] = (), trained_env: dict[str, Any] | None = None) -> EvaluateConfig:
    """Return the config of an evaluation; `trained_env` is the env of the policy's training, which overrides may change."""
    overrides = plain_overrides(overrides)
    task = registry.find_task(value_of("task", overrides) or registry.DEFAULT_TASK)
    for key in (text.partition("=")[0] for text in overrides):
        if key in task.set_by_evaluation:
            raise ConfigError(f"an evaluation sets {key} itself: use {task.set_by_evaluation[key]}")
    return _compose("eval", overrides, {"env": trained_env} if trained_env else {})


def task_of_keys(overrides: Iterable[str]) -> tuple[str, str] | None:
    """Return the registered task that alone has one of these keys in its EvaluateConfig, and the key."""
    known = {f.name for f in fields(EvaluateConfig)}
    for key in (text.partition("=")[0] for text in overrides):
        if "." not in key and key not in known and (owners := _tasks_with(key, "eval")):
            return owners[0], key
    return None


def help_text(command: str, overrides: Iterable[str] = ()) -> str:
    """Return the keys of `slipstream train` or `slipstream eval` with their defaults for the task, algo and preset chosen."""
    words = plain_overrides(word for word in overrides if word not in ("-h", "--help"))
    chosen = [text for text in words if text.startswith(("task=", "algo=", "preset="))]
    if command == "eval":
        name = value_of("task", chosen) or registry.DEFAULT_TASK
        task = registry.find_task(name)
        note = "  (the defaults of env.* are those of the policy's own training; shown: the task's)\n"
        return note + describe_keys(task.EvaluateConfig(task=name, env=task.env.Config()), task.set_by_evaluation)
    config = load_train(chosen)
    preset = value_of("preset", chosen) or "none"
    choices = {
        f"preset={preset}": ", ".join(sorted(preset_files())),
        f"algo={config.algo.name}": f"{', '.join(registry.names('algorithm'))}: each with algo.* of its own",
    }
    return "".join(f"  {key:44} {what}\n" for key, what in choices.items()) + describe_keys(config)


def preset_files() -> dict[str, tuple[Path, str | None]]:
    """Return every preset by name: its file, and the task whose folder it is in."""
    found: dict[str, tuple[Path, str | None]] = {file.stem: (file, None) for file in PRESETS.glob("*.yaml")}
    for task, folder in registry.task_folders():
        found |= {file.stem: (file, task) for file in (folder / "presets").glob("*.yaml")}
    return found


def to_dict(config: Any) -> dict[str, Any]:
    """Return a config as plain data."""
    return asdict(config)


def from_dict(data: dict[str, Any]) -> TrainConfig:
    """Return the training config that `to_dict` gave; names of code in it must be trusted (`registry.refuse_unregistered`)."""
    kind = registry.find_task(data["task"]).TrainConfig
    return _instantiate(kind, config_sections(data["task"], data["algo"]["name"]), OmegaConf.create(data))


# -- inside ----------------------------------------------------------------------------------------------------------


def _compose(command: str, overrides: list[str], base: dict[str, Any]) -> Any:
    from hydra import compose, initialize_config_dir
    from hydra.core.config_store import ConfigStore
    from hydra.core.global_hydra import GlobalHydra
    from hydra.errors import HydraException, OverrideParseException

    overrides = [text for text in overrides if text != "preset=none"]
    preset = value_of("preset", overrides)
    presets = preset_files()
    of_preset = presets[preset][1] if preset in presets else None
    name = value_of("task", overrides) or base.get("task") or of_preset or registry.DEFAULT_TASK
    if name != base.get("task", name):
        raise ConfigError(f"a resumed run keeps its task, {base['task']}: leave task={name} out, or start a new run")
    task = registry.find_task(name)
    algo = _chosen_algorithm(overrides, base) if command == "train" else None
    kind = task.TrainConfig if command == "train" else task.EvaluateConfig
    sections = config_sections(name, algo)
    keys = settable(kind, sections)
    overrides = [text for text in overrides if not text.startswith(("task=", "algo="))]
    _check_keys(overrides, command, name, keys, presets)
    defaults = [task.folder / "defaults.yaml"] if task.folder else []
    tree = _with_base(_with_files(_schema(kind, sections), defaults), base)
    if algo is not None:
        tree = _with_files(tree, [presets[preset][0]] if preset else [])
        tree = _with_files(
            tree, _tuned_file(preset, task, algo, presets) if not base else []
        )  # a resumed run has its own
    overrides = [readable(text, keys) for text in overrides if not text.startswith("preset=")]
    ConfigStore.instance().store(name="composed", node=tree)
    GlobalHydra.instance().clear()
    try:
        with initialize_config_dir(config_dir=str(PRESETS), version_base="1.3"):
            composed = compose(config_name="composed", overrides=overrides)
    except OverrideParseException as error:
        key = error.override.partition("=")[0]
        how = f"write {key}=VALUE, a list as '{key}=[1,2,3]', text with signs in it in quotes"
        raise ConfigError(f"cannot read {error.override}: {how}") from error
    except (HydraException, OmegaConfBaseException) as error:
        raise ConfigError(_explain(error)) from error
    composed.task = name
    return _instantiate(kind, sections, composed)


def _with_files(tree: Any, files: Iterable[Path]) -> Any:
    """Return the typed tree with the settings of YAML files, the later ones over the earlier."""
    for file in files:
        if file.is_file():
            try:
                tree = OmegaConf.merge(tree, OmegaConf.load(file))
            except OmegaConfBaseException as error:
                raise ConfigError(f"{file.name}: {_explain(error)}") from error
    return tree


def _tuned_file(preset: str | None, task: Any, algo: str, presets: dict[str, tuple[Path, str | None]]) -> list[Path]:
    """Return the file with an algorithm's settings for a preset or, if the preset leaves it open, for the task."""
    folder = task.folder / "tuned" if task.folder else None
    for_preset = []
    if preset and presets[preset][1]:
        tuned = presets[preset][0].parents[1] / "tuned"
        for_preset = sorted(file.stem.rpartition("-")[2] for file in tuned.glob(f"{preset}-*.yaml"))
        folder = tuned if for_preset else folder
    if for_preset and algo not in for_preset:
        raise ConfigError(
            f"preset={preset} has no settings for algo={algo}, but for {', '.join(for_preset)}: choose one, or leave the preset out"
        )
    return [folder / f"{preset if for_preset else task.name}-{algo}.yaml"] if folder else []


def _schema(kind: type[Any], sections: dict[str, type[Any]]) -> Any:
    """Return the typed tree of every key, with the defaults of the dataclasses."""
    tree = OmegaConf.structured(kind)
    OmegaConf.set_struct(tree, False)
    for name, section in sections.items():
        tree[name] = OmegaConf.structured(section)
    OmegaConf.set_struct(tree, True)
    return tree


def _with_base(tree: Any, base: dict[str, Any]) -> Any:
    """Return the typed tree with the settings of a checkpoint."""
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
    """Return the algorithm: `algo=ppo` names it; the keys of algo.* are its own."""
    held = base["algo"]["name"] if "algo" in base else None
    name = value_of("algo", overrides) or held or registry.DEFAULT_ALGORITHM
    known = registry.names("algorithm")
    if name not in known and ":" not in name:
        raise ConfigError(f"unknown algo '{name}'{nearest(name, known)} (there are: {', '.join(known)})")
    if held and name != held:
        raise ConfigError(f"a resumed run keeps its algorithm, {held}: leave algo={name} out, or start a new run")
    return name


def _check_keys(
    overrides: list[str], command: str, task: str, settable_keys: dict[str, Any], presets: Iterable[str]
) -> None:
    """Raise if a key is unknown: name the task that has it, or the nearest known key."""
    keys = [*settable_keys, *(["preset"] if command == "train" else [])]
    preset = value_of("preset", overrides)
    if preset is not None and preset not in presets:
        known = sorted(presets)
        raise ConfigError(f"unknown preset '{preset}'{nearest(preset, known)} (there are: {', '.join(known)})")
    for text in overrides:
        key = text.partition("=")[0].lstrip("+~")
        if key not in keys:
            owners = [owner for owner in _tasks_with(key, command) if owner != task]
            if owners:
                raise ConfigError(f"{text} needs task={owners[0]}: task={task} has no key '{key}'")
            raise UnknownKeyError(key, keys, command)


def _tasks_with(key: str, command: str) -> list[str]:
    """Return the registered tasks that have a key of their own outside of env.*."""
    if key.partition(".")[0] in ("env", "algo", "model", "collect"):
        return []
    found = []
    for name in registry.names("task"):
        try:
            task = registry.find_task(name)
        except (ImportError, ConfigError):  # an extra that is not installed
            continue
        kind = task.TrainConfig if command == "train" else task.EvaluateConfig
        if key in settable(kind, {}):
            found.append(name)
    return found


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
