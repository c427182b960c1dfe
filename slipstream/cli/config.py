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

from slipstream.cli import add_force, check_output
from slipstream.config.compose import help_text as keys_help
from slipstream.config.compose import load_train, to_dict
from slipstream.config.overrides import split_keys
from slipstream.storage.files import write_file
from slipstream.training.run_folder import config_yaml

OWN_KEYS = ("out",)


def help_text(words: list[str]) -> str:
    """Return how to use it, and the keys with their defaults."""
    return f"{__doc__}\n{keys_help('train', words)}"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Besides the keys: --force."""
    add_force(parser)


def run(args: argparse.Namespace) -> int:
    """Print or write the config."""
    own, words = split_keys(args.words, OWN_KEYS)
    out = check_output(own.get("out"), args.force)
    text = config_yaml(to_dict(load_train(words)))
    if out is None:
        print(text, end="")
    else:
        write_file(out, text.encode())
        print(f"wrote {out}: slipstream train {shlex.quote(f'config={out}')}")
    return 0
