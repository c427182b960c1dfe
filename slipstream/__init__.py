"""Slipstream trains flight policies in thousands of parallel PyTorch environments (public names: `__init__.pyi`)."""

from slipstream.sim import search_path  # before any other module: it may be searched for in somebody else's folder

if search_path.is_command():
    search_path.leave_out_current_folder()

import ast  # noqa: E402
import os  # noqa: E402
import sys  # noqa: E402
from importlib import import_module  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Any  # noqa: E402

__version__ = "0.1.0"

# Threads that wait by spinning (libgomp's default: for milliseconds) make a training beside one other busy process 25
# times slower; threads that sleep at once lose a third of the speed on a quiet machine. A spin of some microseconds
# loses neither. libgomp reads this when torch is imported. The user's own OMP_WAIT_POLICY or GOMP_SPINCOUNT is kept.
if sys.platform == "linux" and not {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT"} & set(os.environ):
    os.environ["GOMP_SPINCOUNT"] = "1000"
    if "torch" in sys.modules and sys.modules["torch"].get_num_threads() > 1:
        import_module("slipstream.sim.startup").shorten_waiting()

_MODULE_OF = {
    alias.name: str(line.module)
    for line in ast.parse(Path(__file__).with_suffix(".pyi").read_text()).body
    if isinstance(line, ast.ImportFrom)
    for alias in line.names
}
__all__ = sorted(_MODULE_OF)


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used: torch must be loaded after the command line has set up OpenMP, and
    `slipstream --help` does not need it."""
    if name == "train":  # slipstream.train.run(cfg)
        return import_module("slipstream.train")
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'slipstream' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_MODULE_OF[name]), name)
    return value


def __dir__() -> list[str]:
    return [*globals(), *__all__]
