"""slipstream sweep: search for better settings with Optuna.

    slipstream sweep preset=demo 'algo.learning_rate=log(1e-4,3e-3)' 'model.trunk=choice([128,128],[256,256])' \\
        trials=30 objective=eval/success budget_s=60

Any key of `slipstream train` may have a range: log(LOW,HIGH), uniform(LOW,HIGH), int(LOW,HIGH) or choice(A,B,...).
Every trial is a run folder in ROOT/NAME. The same command with the same name= continues an interrupted search, and
started twice it searches with two workers. The results are best.yaml (slipstream train config=best.yaml), history.png
and importances.png.

  trials=30               number of trials
  objective=eval/success  metric of the log; its last value counts
  direction=max           or min
  budget_s=0              training time per trial in seconds; 0 leaves it to max_time_s and total_frames
  repeats=3               seeds with which the three best settings and the given ones are trained again
  prune=true              stop trials that are worse than the median of the others at the same time
  storage=URL             an Optuna storage, such as sqlite:///sweep.db (default: a journal file in the folder)
  --jobs N                trials at a time (1)
"""

from __future__ import annotations

import argparse
import shlex
from datetime import datetime
from pathlib import Path
from typing import Any

from slipstream.config.help import ConfigError
from slipstream.config.overrides import split_keys, value_of
from slipstream.config.values import UnfitError, convert

OWN_KEYS = ("trials", "objective", "direction", "budget_s", "repeats", "prune", "storage", "name", "root")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Everything else is a key."""
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="trials at a time (1)")


def run(args: argparse.Namespace) -> int:
    """Search, and print the best settings."""
    from slipstream.cli import console
    from slipstream.distributed.sweep import Sweep, import_optuna

    own, words = split_keys(args.words, OWN_KEYS)
    if value_of("resume", words):
        raise ConfigError("resume= continues one run: repeat the command of a sweep with its name= instead")
    direction = own.get("direction", "max")
    if direction not in ("max", "min"):
        raise ConfigError(f"direction must be max or min, not '{direction}'")
    if args.jobs < 1:
        raise ConfigError(f"--jobs must be at least 1, not {args.jobs}")
    import_optuna()
    sweep = Sweep(
        words,
        Path(own.get("root") or "runs") / (own.get("name") or f"{datetime.now():%Y-%m-%d_%H-%M-%S}_sweep"),
        trials=_count(own, "trials", 30, 1),
        objective=own.get("objective") or "eval/success",
        budget_s=_budget(own),
        minimize=direction == "min",
        prune=_value(own, "prune", True),
        repeats=_count(own, "repeats", 3, 0),
        storage=own.get("storage"),
        parallel=args.jobs,
    )
    print(f"sweep folder: {sweep.folder}", flush=True)
    if sweep.run():
        for table in sweep.tables():
            print(table.render(console().width))
        print(f"best settings: slipstream train {shlex.quote(f'config={sweep.folder}/best.yaml')}")
        print(f"compare runs:  slipstream compare {shlex.quote(str(sweep.folder))}")
    return 0


def _value(own: dict[str, str], key: str, default: Any) -> Any:
    """Return the value of a key of this command, of the type of its default."""
    try:
        return convert(own.get(key, default), type(default))
    except UnfitError as error:
        raise ConfigError(f"{key} must be {error.expected}, not '{own[key]}'") from None


def _count(own: dict[str, str], key: str, default: int, least: int) -> int:
    value = int(_value(own, key, default))
    if value < least:
        raise ConfigError(f"{key}={value} must be at least {least}")
    return value


def _budget(own: dict[str, str]) -> float:
    value = float(_value(own, "budget_s", 0.0))
    if not 0 <= value < 1e9:
        raise ConfigError(f"budget_s={value:g} must be a number of seconds, 0 or more")
    return value
