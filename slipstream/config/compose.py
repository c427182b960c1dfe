"""Compose a config from dataclasses, YAML files and `key=value` words.

Defaults are in the dataclasses, beside the components they configure. A later source wins: the dataclasses, the task's
`defaults.yaml`, tuned settings of the task and the algorithm, `preset=`, `config=` files, typed words. Presets of
machines and modes are in `slipstream/presets`; a task's own presets and tuned settings are in its folder.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, fields, is_dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from slipstream.config import registry
from slipstream.config.help import ConfigError, nearest, unknown
from slipstream.config.names import is_without_effect, other_names
from slipstream.config.overrides import Word, plain_overrides, split_keys, value_of, yaml_words
from slipstream.config.schedules import FORM, Schedule
from slipstream.config.schema import CHOSEN_BY_MEASURING, EvaluateConfig, TrainConfig
from slipstream.config.values import describe_keys, read, settable

Options = TypeVar("Options")
PRESETS = Path(__file__).parents[1] / "presets"
to_dict = asdict  # a config as plain data


def load_train(overrides: Iterable[str] = ()) -> TrainConfig:
    """Return the config of a training from `key=value` words; with resume=RUN they change that run's own.

    With resume=auto they are the complete config: of a new run, or of the run that they started before.
    """
    words = plain_overrides(overrides)
    resume = value_of("resume", words)
    if resume in (None, "auto"):
        return _compose("train", words)
    if Path(str(resume)).is_file():
        raise ConfigError(
            f"resume={resume}: give the run's folder; it continues from its last checkpoint. "
            f"A new run from this one: init={resume}"
        )
    from slipstream.training.resume import saved_config

    folder = Path(str(resume)).resolve()
    for key, there in (("name", folder.name), ("root", str(folder.parent))):
        given = value_of(key, words)
        if given is not None and (given if key == "name" else str(Path(given).resolve())) != there:
            raise ConfigError(f"resume={resume} continues that run where it is: leave {key}={given} out")
    base = saved_config(str(resume)) | {"init": None, "init_replay": None}  # it has their weights and transitions
    registry.refuse_unregistered(base, words, str(resume))
    return _compose("train", words, base, str(resume))


def load_evaluate(overrides: Iterable[str] = (), trained_env: dict[str, Any] | None = None) -> EvaluateConfig:
    """Return the config of an evaluation; `trained_env` is the env of the policy's training, which words may change."""
    words = plain_overrides(overrides)
    task = registry.find_task(value_of("task", words) or registry.DEFAULT_TASK)
    for word in words:
        if word.key in task.set_by_evaluation:
            instead = task.set_by_evaluation[word.key]
            remedy = f"use {instead}" if instead else f"task={task.name} has no use for it"
            raise ConfigError(f"an evaluation sets {word.key} itself: {remedy}")
    return _compose("eval", words, {"env": trained_env} if trained_env else {})


def help_text(command: str, overrides: Iterable[str] = ()) -> str:
    """Return the keys of `slipstream train` or `slipstream eval` with their defaults for the task, algo and preset
    chosen."""
    chosen = [word for word in plain_overrides(overrides) if word.key in ("task", "algo", "preset")]
    if command == "eval":
        name = value_of("task", chosen) or registry.DEFAULT_TASK
        note = "  (the defaults of env.* are those of the policy's own training; shown: the task's)\n"
        return note + describe_keys(default_config(name, None), registry.find_task(name).set_by_evaluation)
    config = load_train(chosen)
    choices = (
        ("config=null", "a YAML file, or a run folder: the settings to start from"),
        (f"preset={value_of('preset', chosen) or 'none'}", ", ".join(sorted(preset_files()))),
        (f"algo={config.algo.name}", f"{', '.join(registry.names('algorithm'))}: each with algo.* of its own"),
    )
    keys = "\n".join([*(f"  {key:44} {what}" for key, what in choices), describe_keys(config)])
    return f"{keys}\n\nA task may have more keys: slipstream train task=NAME --help"


def preset_files() -> dict[str, tuple[Path, str | None]]:
    """Return every preset by name: its file, and the task whose folder it is in."""
    presets: dict[str, tuple[Path, str | None]] = {file.stem: (file, None) for file in PRESETS.glob("*.yaml")}
    for task, folder in registry.task_folders():
        presets |= {file.stem: (file, task) for file in (folder / "presets").glob("*.yaml")}
    return presets


def from_dict(data: dict[str, Any]) -> TrainConfig:
    """Return the training config that `to_dict` gave; names of code in it must be trusted
    (`registry.refuse_unregistered`)."""
    return build_section(default_config(data["task"], data["algo"]["name"]), data)


def build_section(default: Any, data: Mapping[str, Any], source: str = "the checkpoint") -> Any:
    """Return a config of the class of `default` with the values in plain data out of a checkpoint."""
    return with_values(default, _read_words(_data_words(default, data, source), default))


def with_values(config: Any, values: Mapping[str, Any], prefix: str = "") -> Any:
    """Return a config with these values by dotted key; each dataclass checks itself in `__post_init__`."""
    changes = {}
    for f in fields(config):
        old, key = getattr(config, f.name), prefix + f.name
        if is_dataclass(old):
            changes[f.name] = with_values(old, values, f"{key}.")
        elif key in values:
            changes[f.name] = values[key]
    try:
        return replace(config, **changes)
    except (ValueError, TypeError) as error:
        raise ConfigError(str(error)) from error


def read_options(kind: type[Options], words: Iterable[str]) -> Options:
    """Return the dataclass `kind` of a command's own keys, with the values of key=value words."""
    default = kind()
    return with_values(default, _read_words((Word(word) for word in words), default, "options"))  # type: ignore[no-any-return]


def split_options(kind: type[Options], words: Iterable[str]) -> tuple[Options, list[Word]]:
    """Return a command's own options, as `read_options` does, and the words that are none of them."""
    own, others = split_keys(words, [f.name for f in fields(kind)])  # type: ignore[arg-type]
    return read_options(kind, [f"{key}={value}" for key, value in own.items()]), others


def flat_settings(config: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return a nested config as `a.b.c` -> value."""
    flat: dict[str, Any] = {}
    for key, value in config.items():
        flat |= flat_settings(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {f"{prefix}{key}": value}
    return flat


# -- inside ----------------------------------------------------------------------------------------------------------


def _compose(
    command: str, words: list[Word], base: Mapping[str, Any] = MappingProxyType({}), source: str = "the checkpoint"
) -> Any:
    """Return the config of a command.

    Args:
        base: Of a checkpoint: the config of the run that is resumed, or the env of the policy's training.
        source: What is resumed.
    """
    trains, presets = command == "train", preset_files()
    preset = value_of("preset", words) if trains else None  # an evaluation has no presets: the key is unknown
    if preset and preset != "none" and preset not in presets:
        raise unknown("preset", preset, sorted(presets))
    file, of_preset = presets.get(preset or "none", (None, None))
    saved = {"task": base.get("task"), "algo": base.get("algo", {}).get("name")}
    name = value_of("task", words) or saved["task"] or of_preset or registry.DEFAULT_TASK
    algo = (value_of("algo", words) or saved["algo"] or registry.DEFAULT_ALGORITHM) if trains else None
    for key, chosen in (("task", name), ("algo", algo)):
        if saved[key] and chosen != saved[key]:
            raise ConfigError(
                f"a resumed run keeps its {key}={saved[key]}: leave {key}={chosen} out, or start a new run"
            )
    task, default = registry.find_task(name), default_config(name, algo)
    files = _files_of(task, algo, file, of_preset, is_resumed=bool(base)) if algo else []
    typed = [word for word in words if word.key not in (("task", "algo", "preset") if trains else ("task",))]
    defaults = [task.folder / "defaults.yaml"] if task.folder else []
    words = [*_file_words(defaults), *_data_words(default, base, source), *_file_words(files), *typed]
    return with_values(default, _read_words(words, default, command) | {"task": name})


def default_config(task: str, algo: str | None) -> Any:
    """Return the config of a training with the defaults of the dataclasses; of an evaluation if `algo` is None."""
    chosen = registry.find_task(task)
    if algo is None:
        return chosen.EvaluateConfig(task=task, env=chosen.env.Config())
    return chosen.TrainConfig(task=task, env=chosen.env.Config(), algo=registry.find("algorithm", algo).Config())


def _file_words(files: Iterable[Path]) -> list[Word]:
    """Return the settings in files of ours, of those that exist."""
    return [word for file in files if file.is_file() for word in yaml_words(file) if word.key != "task"]


def _data_words(default: Any, data: Mapping[str, Any], source: str, prefix: str = "") -> Iterator[Word]:
    """Yield nested plain data, which a checkpoint holds, as words."""
    for name, value in data.items():
        section = getattr(default, str(name), None)
        if is_dataclass(section) and isinstance(value, Mapping):
            yield from _data_words(section, value, source, f"{prefix}{name}.")
        else:
            yield Word(f"{prefix}{name}={'null' if value is None else '…'}", source, value)


def _files_of(task: Any, algo: str, preset: Path | None, owner: str | None, is_resumed: bool) -> list[Path]:
    """Return the files of tuned settings and of the preset, the more special ones last. A resumed run has its own
    tuned settings."""
    tuned = [task.folder / "tuned" / f"{task.name}-{algo}.yaml"] if task.folder and not is_resumed else []
    if preset is None:
        return tuned
    of_preset = {path.stem.rpartition("-")[2]: path for path in preset.parents[1].glob(f"tuned/{preset.stem}-*.yaml")}
    if is_resumed or not owner or not of_preset:
        return [*tuned, preset]
    if algo not in of_preset:
        known = ", ".join(sorted(of_preset))
        raise ConfigError(
            f"preset={preset.stem} has no settings for algo={algo}, but for {known}: choose one, or leave the preset out"
        )
    return [preset, of_preset[algo]]


def _read_words(words: Iterable[Word], default: Any, command: str = "train") -> dict[str, Any]:
    """Return the typed value of each word by its key; of several values the last one counts."""
    keys = settable(default)
    others = other_names(keys)
    values: dict[str, Any] = {}
    renamed: dict[tuple[str, str], Word] = {}  # the first word of another name for a key, by its file
    without_effect: list[str] = []
    asked: dict[str, bool] = {}  # whether a key is to be chosen by measuring
    schedules: dict[str, str] = {}
    for word in words:
        name = word.key.removeprefix("schedules.") if "schedules" in keys else word.key
        key = name if name in keys else others.get(name, name)
        if key in keys and key != name:
            other = renamed.setdefault((key, word.source.partition(", line")[0]), word)
            if other.key != word.key and other.value != word.value:
                raise ConfigError(f"{word.at}{other.key} and {word.key} are both {key} here: give them one value")
        if key in keys and (chosen_by := getattr(keys[key][0], "chosen_by", None)):
            key = f"{key}.{chosen_by}"  # as sim=NAME, with keys sim.*
        owner, _, entry = key.rpartition(".")
        if key in CHOSEN_BY_MEASURING and command == "train":
            asked[key] = word.value == "auto"
            if asked[key]:
                continue
        schedules.pop(key, None)
        if key in keys and is_dataclass(keys[key][0]):
            if word.value != "{}":
                first = fields(keys[key][0])[0].name
                raise ConfigError(f"{word.at}{key} is a group of keys, not one: set {key}.{first}=…")
        elif key in keys:
            can_follow = "schedules" in keys and key.startswith(("env.", "algo."))
            values[key] = _read(word, key, *keys[key][:2], can_follow)
            if can_follow and FORM.fullmatch(word.value):
                schedules[key] = word.value
            elif key == "schedules":
                schedules = values[key]
        elif owner in keys and isinstance(keys[owner][0], dict):  # an entry of a mapping
            values[owner] = {**values.get(owner, keys[owner][0]), entry: word.data or read(word.value, Any)}
        elif ", line " in word.source and is_without_effect(key):
            without_effect.append(word.key)
        else:
            raise _unknown_key(word, key, keys, others, command)
    if without_effect:
        warnings.warn(f"without effect here (docs/coming-from.md): {', '.join(without_effect)}", stacklevel=2)
    values |= {"schedules": schedules} if schedules else {}
    return values | ({"auto": auto} if (auto := [key for key, is_asked in asked.items() if is_asked]) else {})


def _unknown_key(word: Word, key: str, keys: Mapping[str, Any], others: Mapping[str, str], command: str) -> ConfigError:
    """Return the error for a key that does not exist. It names what to set instead, or the nearest key; a key in a file
    is not repeated."""
    what = f"{word.at}unknown key" + ("" if ", line " in word.source else f" '{word.key}'")
    if " " in key:  # a sentence on what to set
        return ConfigError(f"{what}: {key}")
    if command == "train" and is_without_effect(key):
        return ConfigError(f"{what}: it has no effect here (docs/coming-from.md)")
    choices = [*keys, "preset", "config"] if command == "train" else keys
    hint = nearest(key, choices, {name: own for name, own in others.items() if own in keys})
    # of another task? They are loaded one after the other, since some take a second
    for name in registry.names("task") if command in ("train", "eval") and not hint else ():
        with suppress(ImportError, ConfigError):  # an extra that is not installed
            if key in settable(default_config(name, registry.DEFAULT_ALGORITHM if command == "train" else None)):
                return ConfigError(f"{what} of this task: it needs task={name}")
    return ConfigError(f"{what}{hint} (--help lists all keys)")


def _read(word: Word, key: str, default: Any, hint: Any, can_follow: bool) -> Any:
    """Return the value of a word for a key with this default and type; the last one of a schedule. Errors show a typed
    value, not one out of a file."""
    if word.is_switch and not isinstance(default, bool):
        raise ConfigError(f"{key} needs a value: give {key}={default}")
    try:
        if can_follow and FORM.fullmatch(word.value):
            return Schedule.parse(word.value, hint).stages[-1]
        return read(word.value if word.data is None else word.data, hint, ranges=key.endswith("_seeds"))
    except ValueError as error:
        given = "" if word.source else f", not '{word.value}'"
        raise ConfigError(f"{word.at}{key} must be {error}{given}") from None
