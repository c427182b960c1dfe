"""The command line: one parser per command, and one place where errors become a sentence.

A command is one module of this folder. It is imported only when it is called, so that `slipstream --help` stays fast.
Its docstring is the help text; `add_arguments(parser)` adds its own flags. There are two kinds of commands:

- `key=value` commands (train, eval, sweep, ...) have `run(args) -> int`; what is not a flag is in `args.words`.
- commands with paths (`WITH_PATHS`) have `run(args, console) -> int`, or subcommands, each with such a function.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import traceback
import warnings
from collections.abc import Iterable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from slipstream import __version__
from slipstream.config.help import ConfigError, nearest, unknown
from slipstream.storage.errors import SaveError, printable

if TYPE_CHECKING:
    from rich.console import Console

COMMANDS = {
    "train": "train a policy:            slipstream train env.num_envs=1024 env.num_obstacles=350",
    "eval": "evaluate a policy:         slipstream eval checkpoint=runs/NAME eval.map_seeds=101-116",
    "validate": "fly a policy in MuJoCo too: slipstream validate checkpoint=runs/NAME",
    "demo": "train, evaluate and draw a small world on the CPU (about 4 minutes)",
    "bench": "measure the speed:         slipstream bench train sizes=1024",
    "advise": "find faster settings:      slipstream advise preset=demo",
    "fly": "fly a drone by messages:   slipstream fly vehicle=mujoco transport=udp | dds | ros1 | mavlink",
    "export": "write a policy file:       slipstream export checkpoint=runs/NAME --to onnx",
    "card": "describe a policy:         slipstream card runs/NAME",
    "push": "share it on the hub:       slipstream push runs/NAME OWNER/REPO",
    "config": "print the composed config: slipstream config preset=demo algo.epochs=2",
    "map": "look at a map:             slipstream map show plan.yaml env.voxel_m=0.1",
    "sweep": "search settings:           slipstream sweep preset=demo 'algo.learning_rate=log(1e-4,3e-3)' trials=30",
    "compare": "compare runs:              slipstream compare runs/A runs/B",
    "exploit": "find an agent's holes:     slipstream exploit checkpoint=runs/NAME max_time_s=170",
    "play": "fly against the agents:    slipstream play opponent=crank",
    "view": "watch runs and flights:    slipstream view [RUN | FOLDER | RECORDING]",
    "doctor": "check the installation:    slipstream doctor",
    "completion": "complete words in a shell:  slipstream completion bash | zsh | fish",
    "ckpt": "work with checkpoints:     slipstream ckpt info | verify | export",
    "rollouts": "work with saved batches:   slipstream rollouts info | verify | export",
    "recording": "work with recordings:      slipstream recording export flight.rec --to html | acmi",
}
# The commands with paths; the others take key=value.
WITH_PATHS = ("compare", "view", "doctor", "completion", "ckpt", "rollouts", "recording")
MODULES = {"validate": "eval", "map": "config", "push": "card"}  # commands without a module of their own name
# What people who come from elsewhere type.
OTHER_COMMANDS = {"evaluate": "eval", "enjoy": "eval", "resume": "train", "tune": "sweep", "optimize": "sweep"}
OTHER_COMMANDS |= {"plot": "compare", "watch": "view", "visualize": "view", "tensorboard": "view", "checkpoint": "ckpt"}
BROKEN_PIPE = 141  # 128 + SIGPIPE, as any program whose reader went away
FOOTER = (
    "slipstream COMMAND --help lists the keys of a command and their defaults; --debug shows the traceback of an error."
)
DEBUG_HELP = "show the traceback of an error"
FILE_WIDTH = 140  # characters per line if stdout is not a terminal
MAX_ERROR = 300  # characters of an error that is not ours: those of torch hold a C++ stack


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Returns:
        The exit code: 0 done, 1 a file is broken or different, 2 an error, 130 interrupted, 141 nobody reads the
        output.
    """
    with _safe_output():
        code = _run(list(sys.argv[1:] if argv is None else argv))
        if code == BROKEN_PIPE:
            with contextlib.suppress(OSError):  # else the interpreter would flush again when it exits, and complain
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return code


def console() -> Console:
    """Return a console on stdout for tables; it is wide if the output goes to a file."""
    from slipstream.ui.tables import PipedConsole

    found = PipedConsole()
    return found if found.is_terminal else PipedConsole(width=FILE_WIDTH)


class Parser(argparse.ArgumentParser):
    """An argument parser that raises ConfigError, with the nearest word for one that is not known."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False, **settings)
        self.add_argument("--debug", action="store_true", help=DEBUG_HELP)

    def error(self, message: str) -> NoReturn:
        """Raise instead of exiting."""
        raise ConfigError(f"{message} (see {self.prog} --help)")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            known = [str(choice) for choice in action.choices]
            is_command = isinstance(action, argparse._SubParsersAction)
            raise unknown("command" if is_command else [*action.option_strings, action.dest][0], str(value), known)


def add_subcommands(parser: argparse.ArgumentParser, doc: str | None) -> Any:
    """Add the subparsers of a command like `ckpt`; return a function that adds one subcommand: `add(name, function,
    help)`."""
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def add(name: str, function: Any, text: str) -> argparse.ArgumentParser:
        command = commands.add_parser(name, help=text, description=text)
        command.set_defaults(function=function)
        return command

    return add


def add_force(parser: argparse.ArgumentParser) -> None:
    """Add the flag --force, for `check_output`."""
    parser.add_argument("--force", action="store_true", help="overwrite the file that out= names")


def check_output(out: str | Path | None, force: bool, to: str = "", formats: Iterable[str] = ()) -> Path | None:
    """Return the path of a file to write, before minutes of work. Raise OSError if it cannot be written or exists
    already, and ConfigError if its suffix is not that of the format `to`, but one of `formats`, by default any."""
    if out is None:
        return None
    from slipstream.storage.files import check_writable

    path = Path(out)
    suffix = path.suffix[1:]
    if to and suffix != to and (suffix in formats or not formats):
        raise ConfigError(f"{path} would hold {to}: name it {path.with_suffix(f'.{to}')}")
    check_writable(path)
    if path.exists() and not force:
        raise FileExistsError(f"{path} exists already: name another file, or overwrite it with --force")
    return path


# -- inside ------------------------------------------------------------------------------------------------------------


def _run(argv: list[str]) -> int:
    """Run one command. This is the only place that turns errors into sentences and exit codes."""
    if argv[:1] == ["help"]:
        argv = [*argv[1:], "--help"]
    name = next((word for word in argv if not word.startswith("-")), "")
    title = f"slipstream {name}" if name in COMMANDS else "slipstream"
    try:
        if name and name not in COMMANDS:
            near = nearest(name, COMMANDS, OTHER_COMMANDS)
            raise ConfigError(f"unknown command '{name}'{near} (there are: {', '.join(COMMANDS)})")
        try:
            code = _run_command(title, name, argv) if name else _overview(argv)
        except SystemExit as done:  # argparse's own --help
            code = int(done.code or 0)
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        _complain(title, "interrupted")
        return 130
    except BrokenPipeError as error:
        try:
            print(flush=True)
        except BrokenPipeError:  # our own output, and not another pipe
            return BROKEN_PIPE
        return _failed(title, error, "--debug" in argv)
    except Exception as error:
        return _failed(title, error, "--debug" in argv)


def _run_command(title: str, name: str, argv: list[str]) -> int:
    """Run the command of a module."""
    argv.remove(name)
    module = import_module(f"slipstream.cli.{MODULES.get(name, name)}")
    takes_keys = name not in WITH_PATHS
    parser = Parser(prog=title, description=module.__doc__, add_help=not takes_keys)
    if takes_keys:
        parser.usage = f"{title} [key=value ...]"
        parser.add_argument("-h", "--help", action="store_true", help="show the keys and their defaults")
    if hasattr(module, "add_arguments"):
        module.add_arguments(parser)
    args, words = parser.parse_known_args(argv)
    args.words, args.command = words, name
    if not takes_keys:
        _refuse(args.words, parser)
        function = getattr(args, "function", None) or module.run
        return int(function(args, console()))
    if args.help:
        if hasattr(module, "help_text"):
            parser.description = module.help_text(args.words)
        print(parser.format_help().rstrip())
        return 0
    return int(module.run(args))


def _overview(argv: list[str]) -> int:
    parser = Parser(prog="slipstream", add_help=False)
    parser.add_argument("-h", "--help", action="store_true")
    parser.add_argument("--version", action="store_true")
    args, words = parser.parse_known_args(argv)
    _refuse(words, parser)
    commands = "\n".join(f"  {name:10} {summary}" for name, summary in COMMANDS.items())
    print(__version__ if args.version else f"usage: slipstream COMMAND [key=value ...]\n\n{commands}\n\n{FOOTER}")
    return 0


def _refuse(words: list[str], parser: argparse.ArgumentParser) -> None:
    """Raise ConfigError for words that a parser does not know."""
    if words:
        options = [option for action in parser._actions for option in action.option_strings]
        raise ConfigError(f"unknown argument '{words[0]}'{nearest(words[0], options)} (see {parser.prog} --help)")


def _failed(title: str, error: Exception, debug: bool) -> int:
    """Explain an error in one sentence on stderr; with --debug after its traceback."""
    if debug:
        traceback.print_exception(error)
    text = str(error.args[0]) if isinstance(error, KeyError) and len(error.args) == 1 else str(error)
    text = " ".join(line.strip() for line in text.splitlines() if line.strip())
    if isinstance(error, FileNotFoundError) and error.filename:
        text = f"there is no {error.filename}"
    expected = isinstance(error, ValueError | FloatingPointError | OSError | ImportError | SaveError)
    if not text or not (expected or (isinstance(error, KeyError) and " " in text)):  # our own KeyErrors are sentences
        text = f"{type(error).__name__}: {text[:MAX_ERROR]}" if text else type(error).__name__
        text += "" if debug else " (--debug shows where)"
    _complain(title, text)
    return 2


def _complain(title: str, text: str) -> None:
    with contextlib.suppress(OSError):
        print(f"{title}: {text}", file=sys.stderr)


@contextlib.contextmanager
def _safe_output() -> Iterator[None]:
    """Let no character and no closed stream stop a command, and no text from a file control the terminal. Warnings are
    sentences, without the line of code that gave them."""
    given = sys.stdout, sys.stderr, warnings.formatwarning
    warnings.formatwarning = lambda message, *place, **more: f"warning: {message}\n"
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # closed by whoever started us
            stream = open(os.devnull, "w")  # noqa: SIM115
        elif hasattr(stream, "reconfigure"):  # an ASCII stdout prints ? for what it cannot print
            stream.reconfigure(errors="replace" if name == "stdout" else "backslashreplace")
        setattr(sys, name, _PrintableStream(stream))
    try:
        yield
    finally:
        sys.stdout, sys.stderr, warnings.formatwarning = given


class _PrintableStream:
    """A text stream that shows control characters instead of sending them. It does not claim to be a terminal, so that
    other packages print no colors; the tables of rich go to `unfiltered`."""

    def __init__(self, stream: Any) -> None:
        self.unfiltered = stream

    def write(self, text: str) -> int:
        return int(self.unfiltered.write(printable(text)))

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def isatty(self) -> bool:
        return False

    def __getattr__(self, name: str) -> Any:
        return getattr(self.unfiltered, name)
