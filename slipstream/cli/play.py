"""slipstream play: fly against the agents, or another person, in the browser.

slipstream play                                against the first opponent
slipstream play opponent=learned               a built-in agent, runs/NAME, my_module:MyAgent
slipstream play task=NAME                      the game of another task

keys of all games: task, out (folder of recordings, runs/play)
flags of the server: --host, --port and --no-browser, as of `slipstream view`; --host 0.0.0.0 lets phones in
"""

from __future__ import annotations

import argparse
from pathlib import Path

from slipstream.cli.view import add_server_arguments, serve
from slipstream.config import registry
from slipstream.config.overrides import Word, split_keys

add_arguments = add_server_arguments  # besides the keys


def help_text(words: list[str]) -> str:
    """Return the keys of all games."""
    games = [(name, registry.find_task(name).game_help) for name in registry.names("task")]
    return (__doc__ or "") + "\n".join(f"task={name}: {text}" for name, text in games if text)


def run(args: argparse.Namespace) -> int:
    """Host the game until Ctrl-C."""
    from slipstream.sim.devices import set_threads
    from slipstream.viewer.library import Library
    from slipstream.viewer.play import Games
    from slipstream.viewer.server import Server

    own, words = split_keys(map(Word, args.words), ("task", "out"))  # a game's keys are not those of a training
    set_threads(1)  # one duel is stepped faster by one thread than by two: 0.34 ms
    game = registry.find_task(own.get("task", registry.DEFAULT_GAME)).make_game(words)
    folder = Path(own.get("out", "runs/play"))
    folder.mkdir(parents=True, exist_ok=True)
    serve(Server(Library(folder), Games(game, folder.absolute()), args.host, args.port), args, "play: ")
    return 0
