"""What commands with commands of their own share (`slipstream ckpt`, `slipstream rollouts`): errors told in a line, and their width."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable

from rich.console import Console
from rich.markup import escape

from slipstream.tasks.tables import PipedConsole

FILE_WIDTH = 140  # characters, where no terminal says how many it has


def run_command(parser: argparse.ArgumentParser, argv: list[str], errors: tuple[type[Exception], ...]) -> int:
    """Runs the function `command(args, console)` that the parser's defaults name; its exit code, or 2 where it raised one of `errors`."""
    args = parser.parse_args(argv)
    console = PipedConsole(width=None if sys.stdout.isatty() else FILE_WIDTH)
    command: Callable[[argparse.Namespace, Console], int] = args.command
    try:
        return int(command(args, console))
    except BrokenPipeError:
        raise
    except errors as error:
        console.print(f"[red]error:[/red] {escape(message(error))}", soft_wrap=True)
        return 2


def message(error: BaseException) -> str:
    """What an error says; a KeyError's text without the quotes that Python puts around it."""
    return str(error.args[0]) if isinstance(error, KeyError) and len(error.args) == 1 else str(error)
