"""Check this installation: versions, devices, what is missing and how to get it.

  slipstream doctor

Exit code 1 if something that every command needs does not work.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
from collections import defaultdict
from collections.abc import Iterator
from importlib import metadata
from typing import Any

PACKAGE = "slipstream-rl"
NOT_FOR_USERS = ("bench", "dev", "docs")  # extras for work on this package itself


def run(args: argparse.Namespace, console: Any) -> int:
    """Print a line per check."""
    broken = False
    for check in (_machine, _tasks, _extras):
        try:
            for good, text in check():
                console.print(f"{'ok' if good else 'no':7}{text}", style=None if good else "yellow")
        except Exception as error:  # any: finding them is what this command is for
            if args.debug:
                raise
            broken = True
            console.print(f"broken {type(error).__name__}: {error}", style="red")
    return int(broken)


def _machine() -> Iterator[tuple[bool, str]]:
    import torch

    names = (PACKAGE, "torch", "tensordict", "numpy", "numba")
    yield True, ", ".join([f"python {platform.python_version()}", *(f"{n} {metadata.version(n)}" for n in names)])
    yield True, f"{platform.system()} {platform.release()}, {platform.machine()}, {os.cpu_count()} CPU cores"
    if not torch.cuda.is_available():
        built = f"torch is built for CUDA {torch.version.cuda}: check the driver"
        yield False, f"no GPU ({built if torch.version.cuda else 'torch is a CPU build'})"
    for number in range(torch.cuda.device_count()):
        facts = torch.cuda.get_device_properties(number)
        yield True, f"cuda:{number}: {facts.name}, {facts.total_memory / 2**30:.0f} GB"


def _tasks() -> Iterator[tuple[bool, str]]:
    from slipstream.algorithms.policy_file import load_policy
    from slipstream.config import registry

    for name in registry.names("task"):
        try:
            weights = registry.find_task(name).weights
        except ImportError as error:
            if "pip install -e" not in str(error):  # not one that an extra installs
                raise
            yield False, str(error)
            continue
        for path in sorted(weights.parent.glob("*.pt*")) if weights else ():
            load_policy(path)  # raises if its bytes are not those that were shipped
        yield True, f"task {name}" + (", and the policy that ships with it" if weights else "")


def _extras() -> Iterator[tuple[bool, str]]:
    extras = defaultdict(list)
    for line in metadata.requires(PACKAGE) or []:
        extra, name = re.search(r"""extra == ['"]([\w-]+)['"]""", line), re.match(r"[\w.-]+", line)
        if extra and name and name[0] != PACKAGE and extra[1] not in NOT_FOR_USERS:
            extras[extra[1]].append(name[0])
    for extra_name, names in extras.items():
        missing = [name for name in names if not any(metadata.distributions(name=name))]
        remedy = f": pip install -e '.[{extra_name}]'" if missing else ""
        yield not missing, f"{extra_name} ({', '.join(missing or names)}){remedy}"
