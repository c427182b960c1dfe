"""What is typed after a command, as `key=value`: flags, old names and files of words made into that, and what Hydra can read of it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

from slipstream.config.help import ConfigError

PATHS = ("checkpoint", "compare", "resume", "init", "root", "name", "out", "red", "blue", "env.opponent")

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
                if value == "true" and key.replace("-", "_") in (*PATHS, "task", "algo", "preset"):
                    raise ConfigError(f"--{key} needs a value")
            word = f"{key.replace('-', '_')}={value}"
        overrides.append(_renamed(word))
    return overrides


def value_of(key: str, overrides: list[str]) -> str | None:
    """What the overrides give `key`, without quotes; None where they say nothing, or null."""
    values = [text.partition("=")[2] for text in overrides if text.partition("=")[0] == key]
    value = values[-1].strip("'\"") if values else None
    return None if value == "null" else value


def readable(text: str, keys: dict[str, Any]) -> str:
    """The override as Hydra's grammar takes it: paths in quotes, whatever is in them, and 12e8 for a whole number.

    A value of another kind than the key's default is refused here, where it can be said what to write.
    """
    key, _, value = text.partition("=")
    default = keys.get(key)
    if value == "true" and type(default) in (int, float):
        flag = f"--{key.rpartition('.')[2].replace('_', '-')}"
        raise ConfigError(f"{key} needs a value: {key}={default}, or {flag} {default}")
    if isinstance(default, list | tuple) and value[:1] not in ("[", "$", "'", '"') and value != "null":
        raise ConfigError(f"{key} takes a list: '{key}=[{value}]'")
    if is_dataclass(default) and value[:1] not in ("{", "$"):
        raise ConfigError(f"{key} is a group of keys, not one: set {key}.{fields(default)[0].name}=…")
    if key in PATHS and value not in ("", "null") and value[0] not in "'\"":
        escaped = value.replace("'", "\\'")
        return f"{key}='{escaped}'"
    if type(keys.get(key)) is int and re.fullmatch(r"[+-]?[\d_.]+[eE][+]?\d+", value) and float(value).is_integer():
        return f"{key}={int(float(value))}"
    return text


def _renamed(text: str) -> str:
    """The override under its name here."""
    key, eq, value = text.partition("=")
    for old, new in OLD_NAMES.items():
        if key == old or key.startswith(old + "."):
            key = new + key[len(old) :]
    if not eq:
        raise ConfigError(
            f"'{text}' is not an override: write key=value, as in env.num_envs=1024 (see slipstream train --help)"
        )
    return f"{key}={value}"


def _lines_of(file: str) -> list[str]:
    """The overrides in a file, one a line; what follows a # is a remark."""
    try:
        lines = Path(file).read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise ConfigError(
            f"@{file}: cannot be read ({error.strerror}); it names a file with a key=value on each line"
        ) from error
    return [text for line in lines if (text := re.sub(r"(^|\s)#.*", "", line).strip())]
