"""Print the config that `slipstream train` would run with the same words, as YAML.

    slipstream config preset=demo algo.epochs=2                 print it
    slipstream config preset=demo out=my.yaml                   write it to a file
    slipstream train config=my.yaml env.num_envs=64             train with it

A later source wins: defaults, the task's and the algorithm's tuned settings, preset=, config= (a YAML file, or a run
folder for that run's config), typed words. The keys are those of `slipstream train`:
"""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

from slipstream.cli import add_force, check_output
from slipstream.config import registry
from slipstream.config.compose import help_text as keys_help
from slipstream.config.compose import load_train, to_dict
from slipstream.config.help import ConfigError
from slipstream.config.overrides import split_keys
from slipstream.storage.files import default_output, write_file
from slipstream.training.run_folder import config_yaml

OWN_KEYS = ("out",)
add_arguments = add_force  # besides the keys
MAP_USAGE = "slipstream map show PATH [env.voxel_m=0.1 env.density=0.7 ... out=map.png]: draw a map and print its size"


def help_text(words: list[str]) -> str:
    """Return how to use it, and the keys with their defaults."""
    about = MAP_USAGE if words[:1] == ["show"] else __doc__
    return f"{about}\n{keys_help('train', words)}"


def run(args: argparse.Namespace) -> int:
    """Print or write the config."""
    if args.command == "map":
        return show_map(args.words, args.force)
    own, words = split_keys(args.words, OWN_KEYS)
    out = check_output(own.get("out"), args.force)
    text = config_yaml(to_dict(load_train(words)))
    if out is None:
        print(text, end="")
    else:
        write_file(out, text.encode())
        print(f"wrote {out}: slipstream train {shlex.quote(f'config={out}')}")
    return 0


def show_map(words: list[str], force: bool) -> int:
    """Draw the map of `show PATH key=value ...`, and print its facts."""
    if words[:1] != ["show"] or len(words) < 2 or "=" in words[1]:
        raise ConfigError(f"give the map: {MAP_USAGE}")
    own, settings = split_keys(words[2:], OWN_KEYS)
    config = load_train([f"env.map={words[1]}", *settings])
    out = check_output(own.get("out"), force, "png") or default_output(Path("map.png"))
    registry.find_task(config.task).show_map(config.env, out)
    return 0
