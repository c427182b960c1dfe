"""Compose a config from dataclasses, YAML files and `key=value` words.

Defaults are in the dataclasses, beside the components they configure. A later source wins: the dataclasses, the task's
`defaults.yaml`, tuned settings of the task and the algorithm, `preset=`, `config=` files, typed words. Presets of
machines and modes are in `slipstream/presets`; a task's own presets and tuned settings are in its folder.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, fields, is_dataclass, replace
from pathlib import Path
from typing import Any

from slipstream.config import registry
from slipstream.config.help import ConfigError, UnknownKeyError, describe_keys, nearest, show
from slipstream.config.names import other_names
from slipstream.config.overrides import NEEDS_VALUE, Word, plain_overrides, value_of, yaml_words
from slipstream.config.schema import CHOSEN_BY_MEASURING, EvaluateConfig, TrainConfig, config_sections
from slipstream.config.values import UnfitError, convert, read, settable, type_hints

PRESETS = Path(__file__).parents[1] / "presets"


def load_train(overrides: Iterable[str] = ()) -> TrainConfig:
    """Return the config of a training from `key=value` words; with resume=RUN they change that run's own.

    With resume=auto they are the complete config: of a new run, or of the run that they started before.
    """
    words = _auto_apart(plain_overrides(overrides))
    resume = value_of("resume", words)
    base = {}
    if resume == "auto":
        resume = None
    if resume:
        if Path(resume).is_file():
            raise ConfigError(
                f"resume={resume}: give the run's folder; it continues from its last checkpoint. "
                f"A new run from this one: init={resume}"
            )
        from slipstream.training.resume import saved_config

        base = saved_config(resume) | {
            "init": None,
            "init_replay": None,
        }  # its weights and transitions are its own by now
        registry.refuse_unregistered(base, words, resume)
    return _compose("train", words, base, resume)


def load_evaluate(overrides: Iterable[str] = (), trained_env: dict[str, Any] | None = None) -> EvaluateConfig:
    """Return the config of an evaluation; `trained_env` is the env of the policy's training, which words may change."""
    words = plain_overrides(overrides)
    task = registry.find_task(value_of("task", words) or registry.DEFAULT_TASK)
    for word in words:
        if word.key in task.set_by_evaluation:
            raise ConfigError(f"an evaluation sets {word.key} itself: use {task.set_by_evaluation[word.key]}")
    return _compose("eval", words, {"env": trained_env} if trained_env else {})


def task_of_keys(overrides: Iterable[str]) -> tuple[str, str] | None:
    """Return the first registered task that has one of these keys in its EvaluateConfig, and the key."""
    known = {f.name for f in fields(EvaluateConfig)}
    for key in (text.partition("=")[0] for text in overrides):
        if "." not in key and key not in known:
            for name, config in _task_configs("eval"):  # a task is loaded when its turn comes: some take a second
                if key in settable(config):
                    return name, key
    return None


def help_text(command: str, overrides: Iterable[str] = ()) -> str:
    """Return the keys of `slipstream train` or `slipstream eval` with their defaults for the task, algo and preset
    chosen."""
    chosen = [word for word in plain_overrides(overrides) if word.key in ("task", "algo", "preset")]
    if command == "eval":
        name = value_of("task", chosen) or registry.DEFAULT_TASK
        task = registry.find_task(name)
        note = "  (the defaults of env.* are those of the policy's own training; shown: the task's)\n"
        return note + describe_keys(task.EvaluateConfig(task=name, env=task.env.Config()), task.set_by_evaluation)
    config = load_train(chosen)
    choices = {
        "config=null": "a YAML file, or a run folder: the settings to start from",
        f"preset={value_of('preset', chosen) or 'none'}": ", ".join(sorted(preset_files())),
        f"algo={config.algo.name}": f"{', '.join(registry.names('algorithm'))}: each with algo.* of its own",
    }
    shown = "".join(f"  {key:44} {what}\n" for key, what in choices.items()) + describe_keys(config)
    for name, other in _task_configs("train"):
        common = [key for key in settable(other) if hasattr(config, key.partition(".")[0])]
        own = describe_keys(other, common)
        shown += f"\n\n  with task={name} also:\n{own}" if own else ""
    keys = settable(config)
    same = [
        f"  {f'{alias}.*' if is_dataclass(keys[key][0]) else f'{alias}={show(keys[key][0])}':44} {key}"
        for alias, key in other_names(config).items()
        if key in keys
    ]
    return shown + "\n\n  other names of keys:\n" + "\n".join(same)


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
    """Return the training config that `to_dict` gave; names of code in it must be trusted
    (`registry.refuse_unregistered`)."""
    return build_section(_default("train", data["task"], data["algo"]["name"]), data)


def build_section(default: Any, data: Mapping[str, Any]) -> Any:
    """Return a config of the class of `default` with the values in plain data out of a checkpoint."""
    return _build(default, _flat(default, data))


# -- inside ----------------------------------------------------------------------------------------------------------


def _compose(command: str, words: list[Word], base: dict[str, Any], source: str | None = None) -> Any:
    words = [word for word in words if word != "preset=none"]
    preset, presets = value_of("preset", words), preset_files()
    if preset is not None and preset not in presets and command == "train":
        known = ", ".join(sorted(presets))
        raise ConfigError(f"unknown preset '{preset}'{nearest(preset, presets)} (there are: {known})")
    of_preset = presets[preset][1] if preset in presets else None
    name = value_of("task", words) or base.get("task") or of_preset or registry.DEFAULT_TASK
    if name != base.get("task", name):
        raise ConfigError(f"a resumed run keeps its task, {base['task']}: leave task={name} out, or start a new run")
    task = registry.find_task(name)
    algo = _chosen_algorithm(words, base) if command == "train" else None
    default = _default(command, name, algo)
    choices = ("task", "algo", "preset") if command == "train" else ("task",)
    words = [word for word in words if word.key not in choices]
    files = _preset_files_of(task, algo, preset, presets) if algo and not base else []
    if algo and base and preset:
        files = [presets[preset][0]]  # a resumed run has its own tuned settings
    values = _read_words(_words_of(task.folder and task.folder / "defaults.yaml"), default, command, name)
    values |= _flat(default, base, source=source)
    values |= _read_words([word for file in files for word in _words_of(file)], default, command, name)
    values |= _read_words(words, default, command, name)
    return _build(default, values | {"task": name})


def _default(command: str, task: str, algo: str | None) -> Any:
    """Return the config of a command with the defaults of the dataclasses."""
    kind = registry.find_task(task).TrainConfig if command == "train" else registry.find_task(task).EvaluateConfig
    return kind(task=task, **{name: section() for name, section in config_sections(task, algo).items()})


def _words_of(file: Path | None) -> list[Word]:
    """Return the settings of a file of ours; none if there is no such file."""
    return [word for word in yaml_words(file) if word.key != "task"] if file and file.is_file() else []


def _preset_files_of(
    task: Any, algo: str, preset: str | None, presets: Mapping[str, tuple[Path, str | None]]
) -> list[Path]:
    """Return the files of tuned settings and of the preset, the more special ones last."""
    tuned = [task.folder / "tuned" / f"{task.name}-{algo}.yaml"] if task.folder else []
    if preset is None:
        return tuned
    file, owner = presets[preset]
    own = sorted((file.parents[1] / "tuned").glob(f"{preset}-*.yaml")) if owner else []
    if not own:
        return [*tuned, file]
    algorithms = [path.stem.rpartition("-")[2] for path in own]
    if algo not in algorithms:
        raise ConfigError(
            f"preset={preset} has no settings for algo={algo}, but for {', '.join(algorithms)}: choose one, or leave the preset out"
        )
    return [file, own[algorithms.index(algo)]]


def _read_words(words: Iterable[Word], default: Any, command: str, task: str) -> dict[str, Any]:
    """Return the typed value of each word by its key; of several values the last one counts."""
    keys, others = settable(default), other_names(default)
    values: dict[str, Any] = {}
    for word in words:
        key, text = word.key if word.key in keys else others.get(word.key, word.key), word.value
        at = f"{word.source}: " if word.source else ""
        if not text and key in NEEDS_VALUE:
            raise ConfigError(f"{at}{key} has no value: give one, or null")
        if key in keys and (chosen_by := getattr(keys[key][0], "chosen_by", None)):
            key = f"{key}.{chosen_by}"  # as sim=NAME, with keys sim.*
        if key not in keys and " " in (sentence := others.get(f"algo.{key}", key)):
            raise ConfigError(f"{at}{sentence}" if at else f"unknown key '{word.key}': {sentence}")
        owner, _, entry = key.rpartition(".")
        if key in keys and is_dataclass(keys[key][0]):
            first = fields(keys[key][0])[0].name
            if text != "{}":
                raise ConfigError(f"{at}{key} is a group of keys, not one: set {key}.{first}=…")
        elif key in keys:
            values[key] = _read(word, key, *keys[key])
        elif owner in keys and isinstance(keys[owner][0], dict):  # an entry of a mapping
            values[owner] = {**values.get(owner, keys[owner][0]), entry: word.data or read(text, Any)}
        else:
            tasks = [name for name in _tasks_with(key, command) if name != task]
            if tasks:
                raise ConfigError(f"{at}{key}= needs task={tasks[0]}: task={task} has no key '{key}'")
            choices = ["preset", "config"] if command == "train" else []
            aliases = {name: own for name, own in others.items() if own in keys}
            raise UnknownKeyError(key, [*keys, *choices], command, word.source, aliases)
    return values


def _read(word: Word, key: str, default: Any, hint: Any) -> Any:
    """Return the value of a word for a key with this default and type. Errors show a typed value, not one out of a
    file."""
    text = word.value
    if text == "true" and type(default) in (int, float):
        flag = f"--{key.rpartition('.')[2].replace('_', '-')}"
        raise ConfigError(f"{key} needs a value: {key}={default}, or {flag} {default}")
    try:
        return read(text if word.data is None else word.data, hint, ranges=key.endswith("_seeds"))
    except UnfitError as error:
        if word.source:
            raise ConfigError(f"{word.source}: {key} must be {error.expected}") from None
        if error.expected == "a list" and text[:1] != "[":
            raise ConfigError(f"{key} takes a list: '{key}=[{text}]'") from None
        if text[:1] in ("[", "{"):
            raise ConfigError(f"cannot read {word}: {error}; write a list as '{key}=[1,2,3]'") from None
        raise ConfigError(f"{key} must be {error.expected}, not '{text}'") from None
    except ValueError:
        if word.source:
            raise ConfigError(f"{word.source}: cannot read {key}") from None
        raise ConfigError(f"cannot read {word}: write {key}=VALUE, a list as '{key}=[1,2,3]'") from None


def _flat(default: Any, data: Mapping[str, Any], prefix: str = "", source: str | None = None) -> dict[str, Any]:
    """Return the typed values in nested plain data, which a checkpoint holds, by their dotted keys."""
    values: dict[str, Any] = {}
    hints = type_hints(default.__class__)
    for name, value in data.items():
        old, key = getattr(default, str(name), None), f"{prefix}{name}"
        if name not in hints or (is_dataclass(old) and not isinstance(value, Mapping)):
            raise ConfigError(f"{source or 'the checkpoint'} was written with other keys than this version has ({key})")
        if is_dataclass(old):
            values |= _flat(old, value, f"{key}.", source)
            continue
        try:
            values[key] = convert(value, hints[name])
        except UnfitError as error:
            what = f"{source or 'the checkpoint'} has a config that cannot be"
            raise ConfigError(f"{what}: {key} must be {error.expected}") from None
    return values


def _build(default: Any, values: Mapping[str, Any], prefix: str = "") -> Any:
    """Return `default` with these values by dotted key; each dataclass checks itself in `__post_init__`."""
    changes = {}
    for f in fields(default):
        old, key = getattr(default, f.name), prefix + f.name
        if is_dataclass(old):
            changes[f.name] = _build(old, values, f"{key}.")
        elif key in values:
            changes[f.name] = values[key]
    try:
        return replace(default, **changes)
    except (ValueError, TypeError) as error:
        raise ConfigError(str(error)) from error


def _auto_apart(words: list[Word]) -> list[Word]:
    """Return the words with `key=auto`, of a key that can be chosen by measuring, as `auto=[key]`."""
    asked = [key for key in CHOSEN_BY_MEASURING if value_of(key, words) == "auto"]
    kept = [w for w in words if w.key not in asked and not (w.key in CHOSEN_BY_MEASURING and w.value == "auto")]
    return [*kept, Word(f"auto=[{','.join(asked)}]")] if asked else kept


def _chosen_algorithm(words: list[Word], base: dict[str, Any]) -> str:
    """Return the algorithm: `algo=ppo` names it; the keys of algo.* are its own."""
    held = base["algo"]["name"] if "algo" in base else None
    name = value_of("algo", words) or held or registry.DEFAULT_ALGORITHM
    known = registry.names("algorithm")
    if name not in known and ":" not in name:
        raise ConfigError(f"unknown algo '{name}'{nearest(name, known)} (there are: {', '.join(known)})")
    if held and name != held:
        raise ConfigError(f"a resumed run keeps its algorithm, {held}: leave algo={name} out, or start a new run")
    return name


def _tasks_with(key: str, command: str) -> list[str]:
    """Return the registered tasks that have a key of their own outside of env.*."""
    if key.partition(".")[0] in ("env", "algo", "model", "collect"):
        return []
    return [name for name, config in _task_configs(command) if key in settable(config)]


def _task_configs(command: str) -> Iterator[tuple[str, Any]]:
    """Yield every registered task with its config of a command, without env.*."""
    for name in registry.names("task"):
        try:
            task = registry.find_task(name)
        except (ImportError, ConfigError):  # an extra that is not installed
            continue
        yield name, task.TrainConfig() if command == "train" else task.EvaluateConfig()


def flat_settings(config: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return a nested config as `a.b.c` -> value."""
    flat: dict[str, Any] = {}
    for key, value in config.items():
        flat |= flat_settings(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {f"{prefix}{key}": value}
    return flat
