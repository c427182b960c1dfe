"""Print the completion of commands, and of the keys of `slipstream train`, for a shell.

slipstream completion bash >> ~/.bashrc
slipstream completion zsh >> ~/.zshrc                                           after compinit
slipstream completion fish > ~/.config/fish/completions/slipstream.fish
"""

from __future__ import annotations

import argparse
from typing import Any

from slipstream.cli import COMMANDS, WITH_PATHS
from slipstream.config.compose import flat_settings, load_train, to_dict

BASH = """\
_slipstream() {
    local word="${COMP_WORDS[COMP_CWORD]}" IFS=$'\\n'
    if [ "$COMP_CWORD" -eq 1 ]; then
        COMPREPLY=($(compgen -S ' ' -W "COMMANDS" -- "$word"))
    else
        case "${COMP_WORDS[1]}" in WITH_PATHS) ;; *) COMPREPLY=($(compgen -S = -W "KEYS" -- "$word")) ;; esac
    fi
}
complete -o nospace -o default -F _slipstream slipstream
"""
ZSH = "autoload -U +X bashcompinit && bashcompinit\n"
FISH = """\
complete -c slipstream -n __fish_use_subcommand -f -a "COMMANDS"
complete -c slipstream -n "not __fish_use_subcommand; and not __fish_seen_subcommand_from WITH_PATHS" -a "KEYS"
"""
SOURCES = ("preset", "config", "checkpoint")  # keys that are no settings


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The shell."""
    parser.add_argument("shell", choices=("bash", "zsh", "fish"))


def run(args: argparse.Namespace, console: Any) -> int:
    """Print it."""
    keys = sorted({*SOURCES, *flat_settings(to_dict(load_train()))})
    if args.shell == "fish":
        text, keys, between, paths = FISH, [f"{key}=" for key in keys], " ", " ".join(WITH_PATHS)
    else:
        text, between, paths = ZSH * (args.shell == "zsh") + BASH, "\n", "|".join(WITH_PATHS)
    for name, words in {"WITH_PATHS": paths, "COMMANDS": between.join(COMMANDS), "KEYS": between.join(keys)}.items():
        text = text.replace(name, words)
    print(text, end="")
    return 0
