"""`slipstream eval`: which policy is evaluated, in which task and env; the task itself evaluates it."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterable, Mapping, Set
from textwrap import shorten
from typing import Any

from slipstream.algorithms.policy_file import LoadedPolicy, load_policy
from slipstream.config import registry
from slipstream.config.compose import flat_settings, load_evaluate, to_dict
from slipstream.config.help import ConfigError, show
from slipstream.config.overrides import Word, plain_overrides, value_of
from slipstream.config.schema import EvaluateConfig
from slipstream.sim.devices import resolve_device, set_threads
from slipstream.tasks.base import Task


def evaluate(*overrides: str, log: Callable[[str], None] = print) -> dict[str, Any]:
    """Evaluate a policy as `slipstream eval key=value ...` does.

    Args:
        overrides: `checkpoint=runs/NAME`, `eval.num_drones=64` and so on.
        log: Gets the tables.

    Returns:
        The result as plain data.
    """
    return run(*configure(overrides), log=log)


def validate(*overrides: str, log: Callable[[str], None] = print) -> dict[str, Any]:
    """Fly a policy in two simulators as `slipstream validate key=value ...` does, and compare them."""
    return run(*configure(overrides), log=log, method="validate")


def run(
    cfg: EvaluateConfig, trained: LoadedPolicy, log: Callable[[str], None] = print, method: str = "evaluate"
) -> dict[str, Any]:
    """Evaluate a policy by its task, print the tables, and with `json=true` the result as the last line."""
    device = resolve_device(cfg.device)
    if cfg.threads or device.type == "cpu":
        set_threads(cfg.threads)
    task = registry.find_task(cfg.task)
    if not task.names_policies:
        log(trained.message())
    result = getattr(task, method)(cfg, trained, device, log)
    if cfg.json:
        print(json.dumps(result), flush=True)
    return result


def trusts_code(word: Word) -> bool:
    """Return whether a word names the user's own algorithm or network, so that a policy's file may name it too."""
    return word.key in ("algo", "model.encoder", "model.policy") and ":" in word.value


def configure(words: Iterable[str]) -> tuple[EvaluateConfig, LoadedPolicy]:
    """Return the config of an evaluation, and the policy: its env is that of the policy's training, changed by the
    overrides."""
    overrides = plain_overrides(words)
    typed = value_of("task", overrides)
    task: Task = registry.find_task(typed or registry.DEFAULT_TASK)
    path = value_of("checkpoint", overrides) or task.policy_path(overrides) or task.weights
    if path is None:
        raise ConfigError(f"no policy for task={task.name} ships with the package: name one with checkpoint=runs/NAME")
    for word in [word for word in overrides if trusts_code(word)]:
        registry.load(word.value, word)  # the user's own, which the files of policies may name then
        overrides.remove(word)

    def used(config: Mapping[str, Any]) -> dict[str, Any]:
        """Return what the evaluation takes from the config of the training, besides the network."""
        name = config["task"]
        if typed and typed != name:
            return {}
        known = task if typed else registry.find_task(name) if name in registry.names("task") else None
        env = {**config["env"], **(known.evaluation_settings if known else {})}
        return {"task": name, "env": without(env, {word.key for word in overrides}, "env.")}

    trained = load_policy(path, used)
    if trained.kind == "slipstream":
        registry.refuse_unregistered(used(trained.state["config"]), overrides, str(trained.path))
    if typed is None:
        task = registry.find_task(trained.task)
        overrides.append(Word(f"task={trained.task}"))
    env = trained.trained_env if task.name == trained.task else None
    if env is not None:
        env |= task.evaluation_settings
    cfg = load_evaluate(overrides, env)
    if env is None and trained.trained_env is not None:
        warn_of_other_settings(cfg, trained, task, {word.key for word in overrides})
    return cfg, trained


def without(section: Mapping[str, Any], keys: Set[str], prefix: str) -> dict[str, Any]:
    """Return the settings of a section but for these dotted keys, which were typed."""
    return {
        name: without(value, keys, f"{prefix}{name}.") if isinstance(value, Mapping) else value
        for name, value in section.items()
        if prefix + name not in keys
    }


def warn_of_other_settings(cfg: EvaluateConfig, trained: LoadedPolicy, task: Task, typed: set[str]) -> None:
    """Warn if a policy of another task flies with settings that its own training had otherwise; `typed` keys are
    meant so."""
    theirs, ours = (flat_settings({"env": env}) for env in (trained.trained_env or {}, to_dict(cfg.env)))
    left_out = {"env.num_envs", *typed, *task.set_by_evaluation, *(f"env.{name}" for name in task.evaluation_settings)}
    other = [
        f"{key}={show(ours[key])} instead of {show(value)}"
        for key, value in theirs.items()
        if key in ours and key not in left_out and show(value) != show(ours[key])
    ]
    if other:
        warnings.warn(
            f"{trained.path} was trained for task={trained.task} and flies with the settings of task={task.name}: "
            f"{shorten(', '.join(other), 600, placeholder=' …')}. Give those of its training to fly as it was trained",
            stacklevel=3,
        )
