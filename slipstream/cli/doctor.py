"""Check this installation: versions, devices, what is missing and how to get it.

  slipstream doctor

Exit code 1 if something that every command needs does not work.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import shutil
import tempfile
from collections.abc import Iterator
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

PACKAGE = "slipstream-rl"
NOT_FOR_USERS = ("bench", "dev", "docs")  # extras for work on this package itself
FREE_GB = 5  # on the disk, below which a training may not be able to save


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags."""
    parser.set_defaults(function=doctor)


def doctor(args: argparse.Namespace, console: Any) -> int:
    """Print a line per check."""
    broken = False
    for title, check in (("versions", _versions), ("devices", _devices), ("works", _works), ("extras", _extras)):
        console.print(title, style="bold")
        try:
            for good, text in check():
                console.print(f"  {'ok' if good else 'no':7}{text}", style=None if good else "yellow")
        except Exception as error:  # any: finding them is what this command is for
            if args.debug:
                raise
            broken = True
            console.print(f"  broken {type(error).__name__}: {error}", style="red")
    return int(broken)


def _versions() -> Iterator[tuple[bool, str]]:
    names = (PACKAGE, "torch", "tensordict", "numpy", "numba")
    yield True, ", ".join([f"python {platform.python_version()}", *(f"{n} {metadata.version(n)}" for n in names)])
    yield True, f"{platform.system()} {platform.release()}, {platform.machine()}"


def _devices() -> Iterator[tuple[bool, str]]:
    import torch

    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    yield True, f"{cores} CPU cores, torch uses {torch.get_num_threads()} threads"
    free = shutil.disk_usage(".").free / 1e9
    yield free >= FREE_GB, f"{free:,.0f} GB free on the disk of this folder"
    if not torch.cuda.is_available():
        built = f"torch is built for CUDA {torch.version.cuda}: check the driver"
        yield False, f"no GPU ({built if torch.version.cuda else 'torch is a CPU build'})"
        return
    for number in range(torch.cuda.device_count()):
        facts = torch.cuda.get_device_properties(number)
        if float(torch.ones(1000, device=f"cuda:{number}").sum()) != 1000:
            raise RuntimeError(f"cuda:{number} computes wrong results: reinstall its driver")
        yield True, f"cuda:{number}: {facts.name}, {facts.total_memory / 2**30:.0f} GB"
    yield find_spec("triton") is not None, "triton, for fast sensors and duels on a GPU (comes with torch for CUDA)"


def _works() -> Iterator[tuple[bool, str]]:
    from slipstream.algorithms.policy_file import load_policy
    from slipstream.config import registry
    from slipstream.config.compose import load_train, preset_files

    for name in registry.names("task"):
        try:
            weights = registry.find_task(name).weights
        except ImportError as error:
            if f"{PACKAGE}[" not in str(error):  # not one that an extra installs
                raise
            yield False, str(error)
            continue
        for path in sorted(weights.parent.glob("*.pt")) if weights else ():
            load_policy(path)  # raises if its bytes are not those that were shipped
        yield True, f"task {name}" + (", and the policy that ships with it" if weights else "")
    for preset in preset_files():
        load_train([f"preset={preset}"])
    yield True, f"{len(preset_files())} presets"
    with tempfile.TemporaryDirectory(dir=".") as folder:
        Path(folder, "x").write_bytes(b"x")
    yield True, "this folder can be written to"


def _extras() -> Iterator[tuple[bool, str]]:
    from slipstream.ui.film import find_ffmpeg

    for extra, names in _requirements().items():
        missing = [name for name in names if not _installed(name)]
        remedy = f": pip install '{PACKAGE}[{extra}]'" if missing else ""
        yield not missing, f"{extra} ({', '.join(missing or names)}){remedy}"
    compiler = next((name for name in ("cc", "gcc", "clang") if shutil.which(name)), None)
    yield compiler is not None, "a C compiler, for compile=on" + ("" if compiler else " (install gcc)")
    ffmpeg = find_ffmpeg()
    yield ffmpeg is not None, "ffmpeg, for out=NAME.mp4"


def _requirements() -> dict[str, list[str]]:
    """Return the packages of each extra."""
    found: dict[str, list[str]] = {}
    for line in metadata.requires(PACKAGE) or []:
        extra = re.search(r"""extra == ['"]([\w-]+)['"]""", line)
        name = re.match(r"[\w.-]+", line)
        if extra and name and name[0] != PACKAGE and extra[1] not in NOT_FOR_USERS:
            found.setdefault(extra[1], []).append(name[0])
    return found


def _installed(distribution: str) -> bool:
    try:
        metadata.version(distribution)
        return True
    except metadata.PackageNotFoundError:
        return False
