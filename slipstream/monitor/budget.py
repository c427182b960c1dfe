"""The advisor's time: what a try will take, what is left, and what must be kept for the tries that are still to come."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from slipstream.monitor.comparing import FEWEST_PAIRS, PAIRS

LONGEST_STRETCH_S = 1.0  # more time answers more questions, not the same ones in longer stretches


class TimeBudget:
    """`seconds` from now on, spent on tries: each sets up a state and runs it and the present one in pairs of stretches."""

    def __init__(self, seconds: float, clock: Callable[[], float]) -> None:
        self.seconds = seconds
        self.stretch_s = stretch_for(seconds)
        self.run_s = self.stretch_s  # what a stretch takes: longer, where a few iterations do
        self.set_up_s = 0.0  # of the present state: what is tried on top of it takes at least as long
        self._clock = clock
        self._began_s = clock()

    @property
    def gone_s(self) -> float:
        """Since the beginning."""
        return self._clock() - self._began_s

    @property
    def left_s(self) -> float:
        """Until the end; below 0 after it."""
        return self.seconds - self.gone_s

    def cost_s(self, set_up_s: float, pairs: int = FEWEST_PAIRS) -> float:
        """What a try takes whose change is known to take `set_up_s`."""
        return max(set_up_s, self.set_up_s) + 2 * pairs * self.run_s

    def fits(self, set_up_s: float, kept_s: float = 0.0) -> bool:
        """Whether a try can still be made, and `kept_s` be left after it."""
        return self.cost_s(set_up_s) + kept_s <= self.left_s

    def plan(self, others: Sequence[float] = ()) -> Callable[[int], int]:
        """How many pairs it shall be, from those done: all, where that leaves the others (their set-ups) their time, or the fewest.

        Others for which there is no time anyway are left out. Nothing lies between: eight or nine must all be won, as seven must,
        while one of ten may be lost. Call it when the set-up is over.
        """
        kept_s, left_s = 0.0, self.left_s - 2 * FEWEST_PAIRS * self.run_s
        for cost_s in sorted(map(self.cost_s, others)):
            kept_s += cost_s if kept_s + cost_s <= left_s else 0.0
        return lambda done: PAIRS if 2 * (PAIRS - done) * self.run_s <= self.left_s - kept_s else FEWEST_PAIRS

    def all_s(self, set_ups: Sequence[float]) -> float:
        """About how many seconds would let all of them be tried, with all pairs."""
        run_s, needed_s = self.run_s, self.seconds
        for _ in range(20):  # with more time the stretches are longer, up to the longest
            run_s = max(run_s, stretch_for(needed_s))
            needed_s = self.gone_s + sum(max(set_up_s, self.set_up_s) + 2 * PAIRS * run_s for set_up_s in set_ups)
        return needed_s


def stretch_for(seconds: float) -> float:
    """The length of one run: a try takes 20 of them, a sixth of the time."""
    return min(seconds / 120, LONGEST_STRETCH_S)
