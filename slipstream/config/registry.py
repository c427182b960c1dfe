"""Find tasks, algorithms, collectors and config sections by name.

A name is built in (its module is imported when it is first asked for), added by an installed package (entry points), or
`package.module:Class`. The last form runs the user's code, so it is for what the user types: names that come out of a
checkpoint or a run folder pass `refuse_unregistered` first.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from slipstream.config.help import ConfigError, nearest

DEFAULT_TASK, DEFAULT_ALGORITHM = "navigation", "ppo"

BUILT_IN: dict[str, dict[str, str]] = {
    "task": {
        "navigation": "slipstream.tasks.navigation.task:NavigationTask",
        "aircombat": "slipstream.tasks.aircombat.task:AirCombatTask",
        "gym": "slipstream.tasks.gym.task:GymTask",
    },
    "algorithm": {
        "ppo": "slipstream.algorithms.ppo:PPO",
        "dqn": "slipstream.algorithms.dqn:DQN",
        "sac": "slipstream.algorithms.sac:SAC",
        "td3": "slipstream.algorithms.td3:TD3",
    },
    "collector": {
        "sync": "slipstream.collectors.sync:SyncDataCollector",
        "pipelined": "slipstream.collectors.pipelined:PipelinedDataCollector",
        "compressed": "slipstream.collectors.compressed:CompressedDataCollector",
    },
    "section": {  # config classes that do not depend on a choice
        "model": "slipstream.models.policy:ModelConfig",
        "collect": "slipstream.collectors.config:CollectConfig",
    },
    "gymnasium": {  # ids of `gymnasium.make`
        "slipstream/Navigation-v0": "slipstream.tasks.navigation.env:NavigationEnv",
        "slipstream/AirCombat-v0": "slipstream.tasks.aircombat.env:AirCombatEnv",
    },
}
ENTRY_POINTS = {"task": "slipstream.tasks", "algorithm": "slipstream.algorithms"}  # groups of installed packages

FREE_TEXT = ("root", "name", "resume", "init", "device", "wandb")  # keys of a config that name no code
_trusted: set[str] = set()  # `module:attribute` that this process has imported: each was typed, or built in
_IMPORTABLE = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.-]*")


def names(kind: str) -> dict[str, str]:
    """Return every registered name of a kind with its `module:attribute`."""
    added = entry_points(group=ENTRY_POINTS[kind]) if kind in ENTRY_POINTS else ()
    return {point.name: point.value for point in added} | BUILT_IN[kind]


def find(kind: str, name: str) -> Any:
    """Return the object registered under `name`, or the one at `package.module:attribute`.

    Raises:
        ConfigError: The name is unknown, or its module cannot be imported.
    """
    known = names(kind)
    if name not in known and ":" not in name:
        own = f"; for an env of your own write {kind}=my_package.my_module:MyEnv" if kind == "task" else ""
        raise ConfigError(f"unknown {kind} '{name}'{nearest(name, known)} (there are: {', '.join(known)}){own}")
    return load(known.get(name, name), f"{kind}={name}")


def find_task(name: str) -> Any:
    """Return the `Task` of a name; a TensorEnv class of the user's gets a task with the default behaviour."""
    return load("slipstream.tasks.base:as_task", "tasks")(find("task", name), name)


def task_folders() -> Iterator[tuple[str, Path]]:
    """Yield the name and the folder of every registered task, without importing its module."""
    for name, target in names("task").items():
        try:
            spec = importlib.util.find_spec(target.partition(":")[0])
        except ImportError:
            continue
        if spec is not None and spec.origin:
            yield name, Path(spec.origin).parent


def load(target: str, asked: str) -> Any:
    """Import `module:attribute`, None if the module has no such attribute; `asked` is what the error message begins
    with."""
    module_name, _, attribute = target.partition(":")
    if "" not in sys.path:
        sys.path.insert(0, "")  # as `python -m` would: modules of the current folder
    try:
        module = importlib.import_module(module_name)
    except ImportError as error:
        if module_name.startswith("slipstream."):
            raise  # it says which package is missing
        raise ConfigError(
            f"{asked}: cannot import {module_name} ({error}); run from its folder or install it"
        ) from None
    _trusted.add(target)
    return getattr(module, attribute, None)


def named_class(
    name: str, known: Mapping[str, type[Any] | str], base: type[Any], what: str, besides: str = ""
) -> type[Any]:
    """Return the class of a name: one of `known`, or `package.module:Class`, a subclass of `base`.

    Args:
        what: The word for such a class in error messages.
        besides: Another form the name may have, for the error message.
    """
    listed = known.get(name, name)
    if not isinstance(listed, str):
        return listed
    if ":" not in listed:
        choices = ", ".join((*known, besides) if besides else known)
        own = f"my_package.my_module:My{base.__name__[4:]}"
        raise ConfigError(f"unknown {what} '{name}'{nearest(name, known)} (there are: {choices}, or {own})")
    found = load(listed, f"{what} '{name}'")
    if not (isinstance(found, type) and issubclass(found, base)):
        module, _, attribute = listed.partition(":")
        raise ConfigError(f"{what} '{name}': {module} has no {base.__name__} subclass named {attribute}")
    return found


def built(kind: type[Any], **given: Any) -> Any:
    """Construct a class that the user named; raise ValueError if its constructor does not take these arguments."""
    try:
        inspect.signature(kind).bind(**given)
    except TypeError as error:
        who = f"{kind.__module__}:{kind.__name__}"
        raise ValueError(f"{who} is built with {', '.join(given)} ({error}): let its __init__ take them") from None
    return kind(**given)


# -- names that come from files ------------------------------------------------------------------------------------


def unregistered_names(config: Mapping[str, Any]) -> dict[str, str]:
    """Return every `package.module:Class` in a config by its dotted key: code that is neither built in nor
    registered."""
    found: dict[str, str] = {}

    def walk(value: Any, key: str) -> None:
        if isinstance(value, Mapping):
            for name, item in value.items():
                walk(str(name), key)
                walk(item, f"{key}.{name}" if key else str(name))
        elif isinstance(value, list | tuple):
            for item in value:
                walk(item, key)
        elif isinstance(value, str) and _IMPORTABLE.fullmatch(value):
            found[key] = value

    walk({key: value for key, value in config.items() if key not in FREE_TEXT}, "")
    return found


def refuse_unregistered(config: Mapping[str, Any], typed: Iterable[str], source: str) -> None:
    """Raise ConfigError if a config read from a file names code that the user did not type.

    Args:
        config: The config, or some of its sections.
        typed: What the user typed; a name that appears in it is trusted, and so is one that this process was given
            before.
        source: The file or run folder the config came from.
    """
    trusted = _trusted | set(_IMPORTABLE.findall(" ".join(typed)))
    foreign = {key: value for key, value in unregistered_names(config).items() if value not in trusted}
    if foreign:
        words = " ".join(f"{key}={value}" for key, value in foreign.items())
        raise ConfigError(
            f"{source} names code that is not part of Slipstream ({', '.join(foreign.values())}), and a file may not "
            f"choose what is imported: if you trust that code, add to the command line: {words}"
        )
