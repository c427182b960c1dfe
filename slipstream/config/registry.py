"""Find tasks, algorithms and collectors by name.

A name is built in (its module is imported when it is first asked for), added by an installed package (entry points), or
`package.module:Class`. The last form runs the user's code, so it is for what the user types: names that come out of a
checkpoint or a run folder pass `refuse_unregistered` first.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import json
import os
import re
import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping
from importlib.machinery import PathFinder
from importlib.metadata import distributions
from pathlib import Path
from types import MappingProxyType
from typing import Any

from slipstream.config.help import ConfigError, unknown
from slipstream.sim.search_path import current_folder

DEFAULT_TASK, DEFAULT_ALGORITHM, DEFAULT_GAME = "navigation", "ppo", "aircombat"

BUILT_IN: dict[str, dict[str, str]] = {
    "task": {
        "navigation": "slipstream.tasks.navigation.task:NavigationTask",
        "aircombat": "slipstream.tasks.aircombat.task:AirCombatTask",
        "gym": "slipstream.tasks.gym.task:GymTask",
        "torchrl": "slipstream.tasks.torchrl.task:TorchRLTask",
    },
    "algorithm": {
        "ppo": "slipstream.algorithms.ppo:PPO",
        "dqn": "slipstream.algorithms.dqn:DQN",
        "sac": "slipstream.algorithms.sac:SAC",
        "td3": "slipstream.algorithms.td3:TD3",
        "bc": "slipstream.algorithms.bc:BC",
    },
    "collector": {
        "sync": "slipstream.collectors.sync:SyncDataCollector",
        "pipelined": "slipstream.collectors.pipelined:PipelinedDataCollector",
        "stored": "slipstream.collectors.stored:StoredDataCollector",
        "ray": "slipstream.collectors.ray:RayDataCollector",
    },
    "gymnasium": {  # ids of `gymnasium.make`
        "slipstream/Navigation-v0": "slipstream.tasks.navigation.env:NavigationEnv",
        "slipstream/AirCombat-v0": "slipstream.tasks.aircombat.env:AirCombatEnv",
    },
}
ENTRY_POINTS = {"task": "slipstream.tasks", "algorithm": "slipstream.algorithms"}  # groups of installed packages

FREE_TEXT = ("root", "name", "resume", "init", "init_replay", "device", "wandb")  # keys of a config that name no code
_PATH_KEYS = ("env.opponent", "league.")  # an agent may be a checkpoint, whose path may have a colon after a slash
_trusted: set[str] = set()  # `module:attribute` that this process has imported: each was typed, or built in


def names(kind: str) -> dict[str, str]:
    """Return every registered name of a kind with its `module:attribute`."""
    added = _entry_points(ENTRY_POINTS[kind], tuple(sys.path)) if kind in ENTRY_POINTS else {}
    return added | BUILT_IN[kind]


@functools.cache
def _entry_points(group: str, path: tuple[str, ...]) -> dict[str, str]:
    """Return the entry points of the packages on `path`, which is sys.path, but not of those in the current folder:
    they are not installed. Finding them reads a file per package."""
    installed = [entry for entry in path if os.path.realpath(entry or ".") != current_folder()]
    points = [point for package in distributions(path=installed) for point in package.entry_points]
    return {point.name: point.value for point in reversed(points) if point.group == group}  # the first one counts


def find(kind: str, name: str) -> Any:
    """Return the object registered under `name`, or the one at `package.module:attribute`.

    Raises:
        ConfigError: The name is unknown, or its module cannot be imported.
    """
    known = names(kind)
    if name not in known and ":" not in name:
        own = ", or your own env: task=my_package.my_module:MyEnv" if kind == "task" else ""
        raise unknown("algo" if kind == "algorithm" else kind, name, known, own)
    return load(known.get(name, name), f"{kind}={name}", typed=name not in known)


def find_task(name: str) -> Any:
    """Return the `Task` of a name; a TensorEnv class of the user's gets a task with the default behavior."""
    from slipstream.tasks.base import as_task

    return as_task(find("task", name), name)


def task_folders() -> Iterator[tuple[str, Path]]:
    """Yield the name and the folder of every registered task, without importing its module."""
    for name, target in names("task").items():
        try:
            spec = importlib.util.find_spec(target.partition(":")[0])
        except ImportError:
            continue
        if spec is not None and spec.origin:
            yield name, Path(spec.origin).parent


def load(target: str, asked: str, typed: bool = True) -> Any:
    """Import `module:attribute`; return None if the module has no such attribute.

    Args:
        target: The name.
        asked: What the error message begins with.
        typed: Whether the user gave this name. Its module may be in the current folder.
    """
    module_name, _, attribute = target.partition(":")
    if "" in module_name.split("."):
        raise ConfigError(f"{asked}: cannot import '{module_name}': write my_package.my_module:MyClass")
    if typed:
        search_current_folder(module_name)
    try:
        module = importlib.import_module(module_name)
    except ImportError as error:
        if module_name.startswith("slipstream.") and error.name != module_name:
            raise  # it says which package is missing
        hint = "run from its folder or install it"
        raise ConfigError(f"{asked}: cannot import {module_name} ({error}); {hint}") from None
    _trusted.add(target)
    return getattr(module, attribute, None)


def search_current_folder(module_name: str) -> None:
    """Append the current folder to sys.path if a module that the user typed is there and is not installed."""
    name = module_name.partition(".")[0]
    here = current_folder()
    if name in sys.modules or here in sys.path:
        return
    installed = importlib.util.find_spec(name)
    if (installed is None or installed.origin is None) and PathFinder.find_spec(name, [here]):  # no origin: a folder
        sys.path.append(here)


def named_class(name: str, known: Mapping[str, Any], base: type[Any], what: str, besides: str = "") -> type[Any]:
    """Return the class of a name: one of `known`, or `package.module:Class`, a subclass of `base`.

    Args:
        what: The word for such a class in error messages.
        besides: Another form the name may have, for the error message, as ", a path".
    """
    listed = known.get(name, name)
    if not isinstance(listed, str):
        return listed
    if ":" not in listed:
        raise unknown(what, name, known, f"{besides}, or my_package.my_module:My{base.__name__[4:]}")
    found = load(listed, f"{what} '{name}'")
    if not (isinstance(found, type) and issubclass(found, base)):
        module, _, attribute = listed.partition(":")
        raise ConfigError(f"{what} '{name}': {module} has no {base.__name__} subclass named {attribute}")
    return found


# -- names that come from files ------------------------------------------------------------------------------------


def unregistered_names(config: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return every text in a config that may name code (`package.module:Class`), by its dotted key: any with a colon
    but paths. Built-in and registered names have none."""
    found: dict[str, list[str]] = {}

    def walk(value: Any, key: str) -> None:
        if isinstance(value, Mapping):
            for name, item in value.items():
                walk(str(name), key)
                walk(item, f"{key}.{name}" if key else str(name))
        elif isinstance(value, list | tuple):
            for item in value:
                walk(item, key)
        elif isinstance(value, str) and ":" in value and not _is_path(key, value):
            found.setdefault("algo" if key == "algo.name" else key, []).append(value)

    walk({key: value for key, value in config.items() if key not in FREE_TEXT}, "")
    return found


def _is_path(key: str, value: str) -> bool:
    return key.startswith(_PATH_KEYS) and "/" in value.partition(":")[0]


def refuse_unregistered(
    config: Mapping[str, Any], typed: Iterable[str], source: str, later: Mapping[str, Any] = MappingProxyType({})
) -> None:
    """Raise ConfigError if a config read from a file names code that the user did not type.

    Args:
        config: The config, or some of its sections.
        typed: What the user typed, as `key=value` or values; a name that appears in it is trusted, and so is one that
            this process was given before.
        source: The file or run folder the config came from.
        later: Sections that are checked afterwards: the message names their words too, so that one message names all.
    """
    words = [word for word in typed if word.partition("=")[0] not in FREE_TEXT]
    given = {name for word in words for name in re.split(r"[\s=,'\"\[\]{}]+", word)}
    trusted = _trusted | given | {name.removesuffix(":") for name in given}  # {mine:Agent: 0.5} is a dict

    def missing(sections: Mapping[str, Any]) -> list[str]:
        return [name for found in unregistered_names(sections).values() for name in found if name not in trusted]

    if missing(config):
        config = {**config, **(later if missing(later) else {})}
        raise ConfigError(
            f"{source} names code that is not part of Slipstream ({', '.join(map(repr, missing(config)))}), and a file may not "
            f"choose what is imported: if you trust that code, add to the command line:{trusting_words(config)}"
        )


def trusting_words(config: Mapping[str, Any]) -> str:
    """Return the `key=value` words with which a command trusts the code that a config names, each after a space."""
    words = []
    for key, names in unregistered_names(config).items():
        value: Any = config
        for name in key.split("."):
            value = value.get(name) if isinstance(value, Mapping) else None
        words += [f"{key}={json.dumps(value)}"] if isinstance(value, list) else [f"{key}={name}" for name in names]
    return "".join(f" {shlex.quote(word)}" for word in words)
