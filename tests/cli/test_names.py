"""Every name of another library in the table means a key that exists, or gives its sentence."""

from __future__ import annotations

import pytest

from slipstream.config import registry
from slipstream.config.compose import load_evaluate, load_train
from slipstream.config.help import ConfigError, show
from slipstream.config.names import ALIASES, INSTEAD, NAMES, other_names
from slipstream.config.values import settable

SPECIAL = ("agent", "reward", "opponent", "env_dyn")  # a choice, keys of some tasks, a group

SET_BY_EVAL = ("env.num_envs", "env.max_episode_steps")


@pytest.mark.parametrize("command", [*registry.names("algorithm"), "eval"])
def test_every_other_name_is_understood(command):
    def compose(word):
        return load_evaluate([word]) if command == "eval" else load_train([f"algo={command}", word])

    default = compose("seed=0")
    keys = settable(default)
    for name, meaning in other_names(keys).items():
        if name in keys or (command == "eval" and meaning in SET_BY_EVAL):
            continue
        if " " in meaning:
            with pytest.raises(ConfigError) as caught:
                compose(f"{name}=1")
            assert meaning in str(caught.value)
        elif meaning in keys and name not in SPECIAL:
            value = show(keys[meaning][0])
            assert compose(f"{name}={value}") == compose(f"{meaning}={value}")
        else:
            assert {name, f"algo.{name}"} & set(ALIASES)  # for another task, algorithm or command


def test_every_key_of_the_table_exists_somewhere():
    words = ["task=aircombat", *(f"algo={name}" for name in registry.names("algorithm"))]
    configs = [load_evaluate(), *(load_train([word]) for word in words)]
    keys = {key for config in configs for key in settable(config)}
    assert {*NAMES, *(key for key, *_ in INSTEAD)} <= keys
