"""Which steps are drawn. A sampler sees step numbers only; it is called under the buffer's lock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from slipstream.replay.index.step_index import StepIndex
from slipstream.replay.sampling.permutation import permute


class Sampler:
    """Draws step numbers in [head, tail). Subclasses say how; all of them begin from the seed the buffer gives."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng(0)

    @property
    def nbytes(self) -> int:
        """Memory it takes."""
        return 0

    def start(self, seed: int) -> None:
        """The state of a new buffer with this seed."""
        self.rng = np.random.default_rng(seed)

    def restart(self) -> None:
        """The buffer is empty and its step numbers begin anew; the generator goes on."""

    def draw(self, number: int, head: int, tail: int) -> tuple[np.ndarray, np.ndarray | None]:
        """(steps int64 [number], weights float32 [number] or None)."""
        raise NotImplementedError

    def added(self, head: int, tail: int, first: int) -> None:
        """Steps [first, tail) have come; [head, tail) are there."""

    def evicted(self, before: int, head: int) -> None:
        """Steps [before, head) have gone."""

    def goals(self, index: StepIndex, steps: np.ndarray) -> Any:
        """What `relabel` will need for these steps; None: they stay as they are."""
        return None

    def relabel(
        self, arrays: dict[Any, np.ndarray], goals: Any, rows_of: Callable[[Any, np.ndarray], np.ndarray]
    ) -> None:
        """Changes a batch before it is handed out; `rows_of(key, rows)` reads observations."""

    def update_priority(self, steps: np.ndarray, priority: np.ndarray) -> None:
        """New priorities, for samplers that have some."""
        raise TypeError(f"{type(self).__name__} has no priorities: build the buffer with sampler=PrioritizedSampler()")

    def state_dict(self) -> dict[str, Any]:
        """Everything the next draws depend on."""
        return {"kind": type(self).__name__, "rng": self.rng.bit_generator.state}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes on from `state`."""
        if state["kind"] != type(self).__name__:
            raise ValueError(
                f"the state is of a {state['kind']}, this buffer has a {type(self).__name__}: build it with that sampler"
            )
        self.rng.bit_generator.state = state["rng"]

    def check(self, head: int, tail: int) -> None:
        """Raises ValueError where a loaded state does not fit a buffer that holds steps [head, tail)."""


class UniformSampler(Sampler):
    """Every step with the same probability, each draw on its own."""

    def draw(self, number: int, head: int, tail: int) -> tuple[np.ndarray, None]:
        """See `Sampler`."""
        return self.rng.integers(head, tail, number), None


class WithoutReplacementSampler(Sampler):
    """Every step once before any comes again. Steps added meanwhile come in the next round; steps evicted meanwhile are left out.

    A round is a pseudo-random permutation, computed and not stored: it costs the same for any size of buffer.
    """

    def __init__(self) -> None:
        super().__init__()
        self._head = self._size = self._position = (
            0  # of the round: the first step, how many, how many places were used
        )
        self._key = 0

    def restart(self) -> None:
        """See `Sampler`."""
        self._head = self._size = self._position = 0

    def draw(self, number: int, head: int, tail: int) -> tuple[np.ndarray, None]:
        """See `Sampler`. A batch larger than what is left of a round takes the rest and begins the next one."""
        steps = np.empty(number, np.int64)
        filled = 0
        while filled < number:
            if self._position >= self._size or not head < self._head + self._size <= tail:
                self._head, self._size, self._position = head, tail - head, 0
                self._key = int(self.rng.integers(0, 2**63))
            places = np.arange(self._position, min(self._position + number - filled, self._size))
            drawn = permute(places, self._size, self._key) + self._head
            drawn = drawn[drawn >= head]
            steps[filled : filled + len(drawn)] = drawn
            filled += len(drawn)
            self._position += len(places)
        return steps, None

    def state_dict(self) -> dict[str, Any]:
        """See `Sampler`."""
        return {**super().state_dict(), "round": [self._head, self._size, self._position, self._key]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """See `Sampler`."""
        super().load_state_dict(state)
        if len(state["round"]) != 4 or any(type(n) is not int for n in state["round"]):
            raise ValueError(f"a round is four integers, not {state['round']}")
        self._head, self._size, self._position, self._key = state["round"]

    def check(self, head: int, tail: int) -> None:
        """See `Sampler`."""
        if not (0 <= self._head <= self._head + self._size <= tail and self._position >= 0 and 0 <= self._key < 2**63):
            raise ValueError(
                f"the saved round of steps {self._head} to {self._head + self._size} does not fit the buffer"
            )
        if self._size > 65536 + 4096 * (tail - head):  # almost all of it has left: searching for the rest would not end
            self._position = self._size


def sampler_from(sampler: str | Sampler) -> Sampler:
    """A sampler by name, or the one given."""
    if isinstance(sampler, Sampler):
        return sampler
    from slipstream.replay.sampling.prioritized import PrioritizedSampler

    kinds = {
        "uniform": UniformSampler,
        "without_replacement": WithoutReplacementSampler,
        "prioritized": PrioritizedSampler,
    }
    if sampler not in kinds:
        raise ValueError(f"sampler {sampler!r} is not known: take one of {', '.join(kinds)}, or give a Sampler")
    return kinds[sampler]()
