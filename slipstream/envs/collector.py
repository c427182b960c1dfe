"""The interface of a collector: all that a training knows of it. Collectors and algorithms both build on it."""

# ruff: noqa: B027  a method that does nothing is a default

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, Self

from torch import Tensor

from slipstream.envs.base import TensorEnv
from slipstream.envs.specs import Step


class Collector(ABC):
    """Return batches [N, T] of a policy that acts in an env.

    An iteration of a training calls `collect_rollout`, updates the policy, and calls `publish`. Between two iterations
    it may call `settle`, `state_dict` and `shutdown`. A batch is valid until the next one is collected; clone what you
    keep. Methods that are not abstract do nothing here: most collectors need only some of them.

    The registry has a collector as a class with `build(env, policy, frames, settings, seed)`; `settings` is
    `CollectConfig`, whose `collector` chooses the class. `ray` makes its envs in other processes and has no `build`.
    """

    runs_ahead = False  # whether the next batch may be collected beside the caller
    frames_per_batch: int  # N × T
    policy: Any  # that learns
    episodes: Any  # the `EpisodeStatistics` of the batches returned
    _frames = 0
    _closed = False

    @abstractmethod
    def collect_rollout(self, check: bool = True) -> Any:
        """Return the next batch, a `Rollout` or what `Rollout.of` reads; with `check` after `check()`."""

    @abstractmethod
    def shutdown(self) -> None:
        """Free threads and memory. The env stays the caller's."""

    @property
    @abstractmethod
    def bad_actions(self) -> Tensor:
        """Whether `check` would raise: bool [], on the device."""

    def check(self) -> None:
        """Raise `BadActionError` if the policy returned invalid actions since the last check."""

    def publish(self) -> None:
        """Say that the update of the last batch is finished: its weights are final."""

    def settle(self) -> None:
        """Wait until nothing is collected beside the caller."""

    @property
    def frames(self) -> int:
        """Frames returned so far, invalid ones included."""
        return self._frames

    def metrics(self) -> dict[str, float]:
        """Return figures to log, by name."""
        return {}

    def _raise_if_closed(self) -> None:
        if self._closed:
            raise RuntimeError(f"this collector was shut down: build a new {type(self).__name__}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.shutdown()

    # -- resuming ------------------------------------------------------------------------------------------------------

    @abstractmethod
    def state_dict(self) -> dict[str, Any]:
        """Return everything that the next batches depend on, except the policy."""

    @abstractmethod
    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from `state`: on a CPU the next batches are the same bit for bit."""

    # -- for algorithms.execution --------------------------------------------------------------------------------------

    @property
    def inner(self) -> Collector:
        """The collector that steps the env: this one, or the base of a pipeline, whose policy is a copy that acts."""
        return self

    def act_with(self, policy: Any) -> None:
        """Act with `policy`, another form of the present one, from the next rollout on."""

    def capture_with(self, capture: Callable[[Callable[[], None]], Callable[[], None]]) -> None:
        """Wrap the device work of a rollout with `capture`."""

    def compile_with(self, compile: Callable[[Step, TensorEnv], Step]) -> None:
        """Wrap the device work of one step with `compile`."""
