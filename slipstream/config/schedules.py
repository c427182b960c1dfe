"""Numbers that change while a training runs, such as `env.dyn.speed_mps=ramp([0.5,1.0],[0.5,3.0],until=0.5)`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from slipstream.config.overrides import parse_value
from slipstream.config.values import convert

FORM = re.compile(r"\s*(ramp|steps)\s*\((.*)\)\s*", re.DOTALL)
RAMP_SPANS = 20  # a captured rollout is captured again for each
MAX_STAGES = 100
FOLLOWED = ("progress", "success")
EXPECTED = "ramp(FIRST, LAST) or steps(A, B, C), with until=0.5 or by=success at the end"


@dataclass(frozen=True)
class Schedule:
    """The values of one key, one after the other. The last one is in the config: evaluations take it.

    `ramp` changes in 20 equal parts, and has the last value from `until` on. `steps` gives each value an equal part of
    what is before `until`. Both follow the share of the run that is done, or the best success of an evaluation so far.
    """

    stages: tuple[Any, ...]
    spans: int  # equal parts of what is before `until`
    until: float = 1.0
    by: str = "progress"

    @classmethod
    def parse(cls, text: str, hint: Any) -> Schedule:
        """Return the schedule that a text means for a key of type `hint`. Raises ValueError with what it must be."""
        match = FORM.fullmatch(text)
        given = parse_value(f"[{match.group(2)}]") if match else []
        words = dict(item.split("=", 1) for item in given if isinstance(item, str) and "=" in item)
        values = [item for item in given if not (isinstance(item, str) and "=" in item)]
        until, by = convert(parse_value(words.pop("until", "1")), float), words.pop("by", "progress")
        is_ramp = match is not None and match.group(1) == "ramp"
        if words or not 2 <= len(values) <= (2 if is_ramp else MAX_STAGES) or not 0 < until <= 1 or by not in FOLLOWED:
            raise ValueError(EXPECTED)
        if not is_ramp:
            return cls(tuple(convert(value, hint) for value in values), len(values), until, by)
        first, last = (convert(value, hint) for value in values)
        parts = [_between(first, last, k / RAMP_SPANS, hint is int) for k in range(RAMP_SPANS)]
        return cls((*(convert(part, hint) for part in parts), last), RAMP_SPANS, until, by)

    def at(self, progress: float, success: float) -> Any:
        """Return the value after a share of the run, with this best success (-inf before an evaluation)."""
        done = max(progress if self.by == "progress" else success, 0.0) / self.until
        return self.stages[min(int(done * self.spans), len(self.stages) - 1)]


def _between(first: Any, last: Any, share: float, whole: bool) -> Any:
    """Return a number, or each of a list, `share` of the way from `first` to `last`."""
    if isinstance(first, list | tuple):
        if len(first) != len(last):
            raise ValueError(EXPECTED)
        return [_between(a, b, share, whole) for a, b in zip(first, last, strict=True)]
    if isinstance(first, bool) or not isinstance(first, int | float):
        raise ValueError("one that is a number to follow a ramp")
    value = first + (last - first) * share
    return round(value) if whole else value
