"""Check numbers in a config one by one, so that the error names the key and the value that was given."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any


def check_range(
    config: Any,
    *names: str,
    minimum: float | None = None,
    maximum: float | None = None,
    above: float | None = None,
    section: str = "",
    hint: str = "",
) -> None:
    """Raise ValueError if a setting is out of range, not a number, or a fraction where the field is an int; a setting
    that is None is skipped.

    Args:
        minimum, maximum: Limits that are allowed values themselves.
        above: A limit that is not an allowed value.
        section: Prefix of the names in the message, such as `algo.`.
        hint: What the message ends with.
    """
    for name in names:
        value = getattr(config, name)
        if value is None:
            continue
        declared = getattr(type(config).__init__, "__annotations__", {}).get(name, "")  # of a dataclass, too
        is_whole = getattr(declared, "__name__", str(declared)).startswith("int")
        is_number = isinstance(value, Integral if is_whole else Real) and not isinstance(value, bool)
        if not is_number:
            raise ValueError(f"{section}{name} must be {'a whole number' if is_whole else 'a number'}, not {value!r}")
        low = value >= minimum if minimum is not None else value > above if above is not None else True
        if not (low and (value <= maximum if maximum is not None else True)):
            raise ValueError(f"{section}{name} must {_wording(minimum, maximum, above)}, not {value}{hint}")


def _wording(minimum: float | None, maximum: float | None, above: float | None) -> str:
    if maximum is not None:
        return f"be in {'(' if minimum is None else '['}{above if minimum is None else minimum}, {maximum}]"
    if minimum is None:
        return "be positive" if above == 0 else f"be more than {above}"
    return "be 0 or more" if minimum == 0 else f"be at least {minimum}"
