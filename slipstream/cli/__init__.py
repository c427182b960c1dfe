"""The command line: one parser tree, and one place where errors become a sentence.

A command is one module of this folder. It is imported only when it is called, so that `slipstream --help` stays fast.
The module has `run(args) -> int` and, if it has flags of its own, `add_arguments(parser)`; its docstring is the help
text. There are two kinds of commands:

- `key=value` commands (train, eval, validate, demo, bench, advise, export, config, sweep, play): everything that is not
  a common flag is in `args.words`. `OWN_KEYS` names the keys that the command has besides those of a training.
- commands with paths (compare, view, ckpt, rollouts, recording): `add_arguments` adds arguments or subparsers.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import select
import sys
import threading
import traceback
import warnings
from collections.abc import Iterable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from slipstream import __version__
from slipstream.config.help import ConfigError, nearest
from slipstream.storage.errors import SaveError, printable

if TYPE_CHECKING:
    from rich.console import Console

COMMANDS = {
    "train": "train a policy:            slipstream train env.num_envs=1024 env.num_obstacles=350",
    "eval": "evaluate a policy:         slipstream eval checkpoint=runs/NAME eval.map_seeds=101-116",
    "validate": "fly a policy in MuJoCo too: slipstream validate checkpoint=runs/NAME",
    "demo": "train, evaluate and draw a small world on the CPU (about 4 minutes)",
    "bench": "measure the speed:         slipstream bench env | train",
    "advise": "find faster settings:      slipstream advise preset=demo --apply advice.yaml",
    "export": "write a policy file:       slipstream export checkpoint=runs/NAME --to onnx",
    "config": "print the composed config: slipstream config preset=demo algo.epochs=2",
    "sweep": "search settings:           slipstream sweep preset=demo 'algo.learning_rate=log(1e-4,3e-3)' trials=30",
    "compare": "compare runs:              slipstream compare runs/A runs/B",
    "play": "fly against the agents:    slipstream play opponent=crank",
    "view": "watch runs and flights:    slipstream view [RUN | FOLDER | RECORDING]",
    "doctor": "check the installation:    slipstream doctor",
    "completion": "complete words in a shell:  slipstream completion bash | zsh | fish",
    "ckpt": "work with checkpoints:     slipstream ckpt info | verify | export",
    "rollouts": "work with saved batches:   slipstream rollouts record | ls | show | verify | export",
    "recording": "work with recordings:      slipstream recording export flight.rec --to html | acmi | csv",
}
OTHER_COMMANDS = {  # what people who come from elsewhere type
    "evaluate": "eval",
    "evaluation": "eval",
    "enjoy": "eval",
    "resume": "train",
    "continue": "train",
    "tune": "sweep",
    "optimize": "sweep",
    "benchmark": "bench",
    "plot": "compare",
    "watch": "view",
    "visualize": "view",
    "tensorboard": "view",
    "checkpoint": "ckpt",
}
# The commands with paths; the others take key=value.
WITH_PATHS = ("compare", "view", "doctor", "completion", "ckpt", "rollouts", "recording")
BROKEN_PIPE = 141  # 128 + SIGPIPE, as any program whose reader went away
FOOTER = (
    "slipstream COMMAND --help lists the keys of a command and their defaults; --debug shows the traceback of an error."
)
DEBUG_HELP = "show the traceback of an error"
TOO_LARGE = (  # in the errors of NumPy and torch
    *("allocate", "out of memory", "Overflow when unpacking", "without overflow", "cannot be represented as a SymInt"),
    *("overflowed", "Maximum allowed", "out of bounds for int64"),
)
FILE_WIDTH = 140  # characters per line if stdout is not a terminal


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Returns:
        The exit code: 0 done, 1 a file is broken or different, 2 an error, 130 interrupted, 141 nobody reads the
        output.
    """
    with _safe_output(), _plain_warnings():
        code = _run(list(sys.argv[1:] if argv is None else argv))
        try:
            sys.stdout.flush()
        except BrokenPipeError:
            code = BROKEN_PIPE
        except OSError as error:
            _complain("slipstream", f"cannot write the output: {error}")
            code = 2
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

    def error(self, message: str) -> NoReturn:
        """Raise instead of exiting."""
        raise ConfigError(f"{message} (see {self.prog} --help)")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            known = [str(choice) for choice in action.choices]
            what = "command" if isinstance(action, argparse._SubParsersAction) else action.option_strings[0]
            other_names = {name: own for name, own in OTHER_COMMANDS.items() if own in known}
            near = nearest(str(value), known, other_names)
            raise ConfigError(f"unknown {what} '{value}'{near} (there are: {', '.join(known)})")


def add_subcommands(parser: argparse.ArgumentParser, doc: str | None) -> Any:
    """Add the subparsers of a command like `ckpt`; return a function that adds one subcommand: `add(name, function,
    help)`."""
    parser.description = doc
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def add(name: str, function: Any, text: str) -> argparse.ArgumentParser:
        command = commands.add_parser(name, help=text, description=text)
        command.add_argument("--debug", action="store_true", help=DEBUG_HELP)
        command.set_defaults(function=function)
        return command

    return add


def add_force(parser: argparse.ArgumentParser) -> None:
    """Add the flag --force, for `check_output`."""
    parser.add_argument("--force", action="store_true", help="overwrite the file that out= names")


def check_output(out: str | Path | None, force: bool) -> Path | None:
    """Return the path of a file to write, before minutes of work. Raise OSError if it cannot be written or exists
    already."""
    if out is None:
        return None
    from slipstream.storage.files import check_writable

    path = Path(out)
    check_writable(path)
    if path.exists() and not force:
        raise FileExistsError(f"{path} exists already: name another file, or overwrite it with --force")
    return path


# -- inside ------------------------------------------------------------------------------------------------------------


def _run(argv: list[str]) -> int:
    """Run one command. This is the only place that turns errors into sentences and exit codes."""
    if argv[:1] == ["help"]:
        argv = [*argv[1:], "--help"]
    first = next((word for word in argv if not word.startswith("-")), "")
    name = first if first in COMMANDS else ""
    title = f"slipstream {name}".strip()
    try:
        parser, command, module = _build_parser(name)
        args, words = parser.parse_known_args(argv)
        if module is None or command is None:
            return _overview(parser, args, words)
        if name in WITH_PATHS:
            if words:
                raise ConfigError(
                    f"unknown argument '{words[0]}'{nearest(words[0], _options(command))} (see {title} --help)"
                )
            return int(args.function(args, console()))
        args.words = words
        if args.help:
            help_text = getattr(module, "help_text", lambda words: module.__doc__)
            command.description = help_text(words)
            print(command.format_help().rstrip())
            return 0
        return int(module.run(args))
    except SystemExit as done:  # argparse's own --help
        return int(done.code or 0)
    except KeyboardInterrupt:
        _complain(title, "interrupted")
        return 130
    except BrokenPipeError as error:
        if _reader_is_gone():
            return BROKEN_PIPE
        return _failed(title, error, "--debug" in argv)
    except Exception as error:
        return _failed(title, error, "--debug" in argv)


def _build_parser(chosen: str) -> tuple[Parser, argparse.ArgumentParser | None, Any]:
    """Return the parser tree, and the parser and module of the chosen command; the arguments of the others are left
    out."""
    parser = Parser(prog="slipstream", add_help=False)
    for flag, text in (("--help", "list the commands"), ("--version", "print the version"), ("--debug", DEBUG_HELP)):
        parser.add_argument(flag, *(["-h"] if flag == "--help" else []), action="store_true", help=text)
    commands = parser.add_subparsers(metavar="COMMAND")
    found: tuple[argparse.ArgumentParser | None, Any] = (None, None)
    for name, summary in COMMANDS.items():
        takes_keys = name not in WITH_PATHS
        command = commands.add_parser(name, help=summary, add_help=not takes_keys)
        if takes_keys:
            command.usage = f"slipstream {name} [key=value ...]"
            command.add_argument("-h", "--help", action="store_true", help="show the keys and their defaults")
            command.add_argument("--debug", action="store_true", help=DEBUG_HELP)
        if name == chosen:
            found = command, import_module(f"slipstream.cli.{name}")
            if hasattr(found[1], "add_arguments"):
                found[1].add_arguments(command)
    return parser, *found


def _overview(parser: Parser, args: argparse.Namespace, words: list[str]) -> int:
    if words:
        raise ConfigError(f"unknown argument '{words[0]}'{nearest(words[0], _options(parser))} (see slipstream --help)")
    if args.version:
        print(__version__)
    else:
        commands = "\n".join(f"  {name:10} {summary}" for name, summary in COMMANDS.items())
        print(f"usage: slipstream COMMAND [key=value ...]\n\n{commands}\n\n{FOOTER}")
    return 0


def _options(parser: argparse.ArgumentParser) -> list[str]:
    return [option for action in parser._actions for option in action.option_strings]


def _failed(title: str, error: Exception, debug: bool) -> int:
    """Explain an error in one sentence on stderr; with --debug after its traceback."""
    if debug:
        traceback.print_exception(error)
    text = str(error.args[0]) if isinstance(error, KeyError) and len(error.args) == 1 else str(error)
    text = " ".join(line.strip() for line in text.splitlines() if line.strip())
    if isinstance(error, FileNotFoundError) and error.filename:
        text = f"there is no {error.filename}"
    expected = isinstance(error, ValueError | FloatingPointError | OSError | ImportError | SaveError)
    if _is_too_large(error, text):
        text = (
            f"this takes more memory than there is, or a number is too large ({_first_part(text)}): use smaller numbers"
        )
    elif not text or not (expected or (isinstance(error, KeyError) and " " in text)):  # our own KeyErrors are sentences
        text = f"{type(error).__name__}: {_first_part(text)}" if text else type(error).__name__
        text += "" if debug else " (--debug shows where)"
    _complain(title, text)
    return 2


@contextlib.contextmanager
def _plain_warnings() -> Iterator[None]:
    """Print warnings as a sentence, without the line of code that gave them."""
    before, warnings.formatwarning = warnings.formatwarning, lambda message, *place, **more: f"warning: {message}\n"
    try:
        yield
    finally:
        warnings.formatwarning = before


def _is_too_large(error: Exception, text: str) -> bool:
    """Return whether an error is one of the many with which Python, NumPy and torch refuse a size."""
    if isinstance(error, SaveError | ConfigError):  # they say it better
        return False
    return isinstance(error, MemoryError | OverflowError) or any(words in text for words in TOO_LARGE)


def _first_part(text: str) -> str:
    """Return the beginning of an error of torch, without its C++ stack."""
    text = text.partition(" Exception raised from ")[0]
    return text if len(text) <= 300 else f"{text[:300]} …"


def _complain(title: str, text: str) -> None:
    with contextlib.suppress(OSError):
        print(f"{title}: {text}", file=sys.stderr)


@contextlib.contextmanager
def _safe_output() -> Iterator[None]:
    """Let no character and no closed stream stop a command, and no text from a file control the terminal."""
    given = sys.stdout, sys.stderr, threading.excepthook
    threading.excepthook = _thread_failed
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
        sys.stdout, sys.stderr, threading.excepthook = given


def _thread_failed(args: threading.ExceptHookArgs) -> None:
    """Say in a sentence that a thread of another package failed, such as TensorBoard's writer on a full disk."""
    _complain("slipstream", f"a thread ended with {type(args.exc_value).__name__}: {args.exc_value}")


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


def _reader_is_gone() -> bool:
    """Return whether the pipe that broke is our own stdout, and not another one."""
    if not hasattr(select, "poll"):
        return True
    try:
        output = sys.stdout.fileno()
    except OSError:  # not a file of the system
        return False
    poll = select.poll()
    poll.register(output, select.POLLERR)
    return any(events & select.POLLERR for _, events in poll.poll(0))
