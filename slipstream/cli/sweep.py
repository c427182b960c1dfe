"""slipstream sweep: search for better settings with Optuna.

    slipstream sweep preset=demo 'algo.learning_rate=log(1e-4,3e-3)' 'model.trunk=choice([128,128],[256,256])' \\
        trials=30 objective=eval/success max_time_s=60

Any key of `slipstream train` may have a range: log(LOW,HIGH), uniform(LOW,HIGH), int(LOW,HIGH) or choice(A,B,...).
Every trial is a run folder in ROOT/NAME. The same command with the same name= continues an interrupted search. The
result is best.yaml (slipstream train config=best.yaml).

  trials=30               number of trials
  objective=eval/success  metric of the log; its last value counts
  direction=max           or min
  prune=true              stop trials that are worse than the median of the others at the same time
  storage=URL             a database, such as sqlite:///sweep.db, that the same command shares with other workers
  --jobs N                trials at a time (1)
"""

from __future__ import annotations

import argparse
import shlex
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Literal

from slipstream.config.compose import split_options
from slipstream.config.help import ConfigError
from slipstream.config.overrides import value_of


@dataclass
class SweepOptions:
    """The keys of this command; the others are those of a training."""

    trials: int = 30
    objective: str = "eval/success"
    direction: Literal["max", "min"] = "max"
    prune: bool = True
    storage: str | None = None
    name: str | None = None
    root: str = "runs"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Everything else is a key."""
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="trials at a time (1)")


def run(args: argparse.Namespace) -> int:
    """Search, and print the best settings."""
    from slipstream.cli import console
    from slipstream.distributed.sweep import Sweep, import_optuna

    own, words = split_options(SweepOptions, args.words)
    if value_of("resume", words):
        raise ConfigError("resume= continues one run: repeat the command of a sweep with its name= instead")
    if own.trials < 1 or args.jobs < 1:
        raise ConfigError(f"trials={own.trials} and --jobs {args.jobs} must be at least 1")
    import_optuna()
    sweep = Sweep(
        words,
        Path(own.root) / (own.name or f"{datetime.now():%Y-%m-%d_%H-%M-%S}_sweep"),
        trials=own.trials,
        objective=own.objective,
        minimize=own.direction == "min",
        prune=own.prune,
        storage=own.storage,
        parallel=args.jobs,
    )
    print(f"sweep folder: {sweep.folder}", flush=True)
    sweep.run()
    print(sweep.table().render(console().width))
    again = shlex.join([f"config={sweep.folder}/best.yaml", "seed=1,2,3"])
    print(f"the best value is too good by chance; with other seeds: slipstream train {again}")
    return 0
