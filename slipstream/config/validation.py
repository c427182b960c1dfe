"""Which numbers a setting may have: checked one by one, so that the error names the key and the value that was given."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

LIMITS: dict[str, Callable[[Any], bool]] = {  # not a number is in none of them
    "be at least 1": lambda x: x >= 1,
    "be positive": lambda x: x > 0,
    "be 0 or more": lambda x: x >= 0,
    "lie in (0, 1]": lambda x: 0 < x <= 1,
    "lie in [0, 1]": lambda x: 0 <= x <= 1,
}


def must(config: Any, limit: str, *names: str, section: str = "", hint: str = "") -> None:
    """Raises where a setting of `config` is out of `limit`; a setting that is None is left alone."""
    for name in names:
        value = getattr(config, name)
        if value is not None and not LIMITS[limit](value):
            raise ValueError(f"{section}{name} must {limit}, not {value}{hint}")
