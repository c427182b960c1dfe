"""The command line: slipstream train | eval | demo | bench | advise | export | ckpt | rollouts."""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Callable, Sequence

COMMANDS = {
    "train": "train a policy:               slipstream train env.num_envs=1024 env.num_obstacles=350 env_dyn.num_obstacles=80",
    "eval": "fly a policy over unseen maps: slipstream eval checkpoint=runs/NAME 'eval.map_seeds=[101,102,103]'",
    "demo": "train, evaluate and draw a small world on this machine's CPU (about 4 minutes)",
    "bench": "measure:                       slipstream bench env | train",
    "advise": "what would make it faster:   slipstream advise preset=demo --apply advice.txt",
    "export": "write a policy for others:    slipstream export checkpoint=runs/NAME --to onnx",
    "ckpt": "look into checkpoints:         slipstream ckpt info | verify | diff | squash | export | repair",
    "rollouts": "look into saved batches:       slipstream rollouts ls | show | verify | export",
}


READER_GONE = 141  # 128 + SIGPIPE: the status of any command whose reader has gone away


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command; its exit code. A reader who goes away (`| head`) ends it quietly."""
    try:
        try:
            return _run(list(sys.argv[1:] if argv is None else argv))
        finally:
            sys.stdout.flush()  # here, where a reader who has gone can still be met
    except BrokenPipeError:
        os.dup2(
            os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno()
        )  # or the interpreter, when it leaves, would try again
        return READER_GONE


def _reader_is_gone() -> bool:
    """Whether it is our own output that nobody reads, and not some other pipe."""
    if not hasattr(select, "poll"):
        return True
    try:
        output = sys.stdout.fileno()
    except OSError:  # none that the system knows
        return False
    poll = select.poll()
    poll.register(output, select.POLLERR)
    return any(events & select.POLLERR for _, events in poll.poll(0))


def _run(argv: list[str]) -> int:
    """One command; errors of the user's making are told in one line, with the remedy."""
    # Threads that wait by spinning (libgomp's default: for milliseconds) make a training beside one other busy process 25 times
    # slower; threads that sleep at once lose a third of the speed on a quiet machine. A spin of some microseconds loses neither.
    # It must be said before torch is imported; OMP_WAIT_POLICY or GOMP_SPINCOUNT of one's own stay as they are.
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", "1000")
    if not argv or argv[0] in ("-h", "--help", "help"):
        print(_overview())
        return 0
    if argv[0] == "--version":
        from importlib.metadata import version

        print(version("slipstream-rl"))
        return 0
    name, rest = argv[0], argv[1:]
    if name not in COMMANDS:
        import difflib

        near = difflib.get_close_matches(name, COMMANDS, 1)
        hint = f": did you mean '{near[0]}'?" if near else ""
        print(f"slipstream: unknown command '{name}'{hint}\n\n{_overview()}", file=sys.stderr)
        return 2
    handlers: dict[str, Callable[[list[str]], int]] = {
        "train": _train,
        "eval": _evaluate,
        "demo": _demo,
        "bench": _bench,
        "advise": _advise,
        "export": _export,
        "ckpt": _checkpoint,
        "rollouts": _rollouts,
    }
    from slipstream.storage.errors import SaveError

    try:
        return handlers[name](rest)
    except (ValueError, FloatingPointError, OSError, ImportError, SaveError) as error:
        if isinstance(error, BrokenPipeError) and _reader_is_gone():
            raise
        print(f"slipstream {name}: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"slipstream {name}: interrupted", file=sys.stderr)
        return 130


def _overview() -> str:
    lines = "\n".join(f"  {name:8} {what}" for name, what in COMMANDS.items())
    return f"usage: slipstream COMMAND [key=value ...]\n\n{lines}\n\nslipstream COMMAND --help lists its keys and their defaults."


def _train(argv: list[str]) -> int:
    from slipstream import train
    from slipstream.config import compose as config

    if _wants_help(argv):
        print(_keys_help("train", argv))
        return 0
    folder = train.run(config.load_train(argv))
    shown = [path for name in ("report.html", "learning.png") if (path := folder.path / name).exists()]
    print(f"run folder: {folder.path}\n" + "".join(f"curves:     {path}\n" for path in shown[:1]), end="")
    print(f"evaluate:   slipstream eval checkpoint={folder.path}")
    return 0


def _evaluate(argv: list[str]) -> int:
    from slipstream.training import evaluate

    if _wants_help(argv):
        print(_keys_help("eval", argv))
        return 0
    evaluate.evaluate(*argv)
    return 0


def _demo(argv: list[str]) -> int:
    from slipstream.cli import demo

    if _wants_help(argv):
        print(demo.__doc__)
        return 0
    return demo.run(argv)


def _bench(argv: list[str]) -> int:
    from slipstream.cli import bench

    if _wants_help(argv):
        print(bench.help_text(argv))
        return 0
    return bench.run(argv)


def _advise(argv: list[str]) -> int:
    from slipstream.cli import advise

    if _wants_help(argv):
        print(advise.__doc__)
        return 0
    return advise.run(argv)


def _export(argv: list[str]) -> int:
    from slipstream.cli import export

    if _wants_help(argv):
        print(export.__doc__)
        return 0
    return export.run(argv)


def _checkpoint(argv: list[str]) -> int:
    from slipstream.cli import checkpoint as cli

    return cli.main(argv)


def _rollouts(argv: list[str]) -> int:
    from slipstream.cli import rollouts

    return rollouts.main(argv)


def _wants_help(argv: list[str]) -> bool:
    return any(word in ("-h", "--help") for word in argv)


def _keys_help(command: str, argv: list[str]) -> str:
    from slipstream.config.compose import help_text

    text = help_text(command, argv)
    return f"usage: slipstream {command} [key=value ...]\n\n{text}"
