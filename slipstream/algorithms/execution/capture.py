"""Make a training iteration fast: compile its kernels, capture the rollout as one CUDA graph and the update as another.

All of it wraps the collector and the algorithm from outside; collectors/ and algorithms/ stay plain PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

import torch
from tensordict import TensorDictBase
from torch import Tensor

from slipstream.algorithms.base import Learner
from slipstream.algorithms.execution.compile import compile_step, compile_update
from slipstream.algorithms.execution.graphs import CaptureFailed, GraphedFunction
from slipstream.envs.base import TensorEnv
from slipstream.envs.specs import Step
from slipstream.models.rollout_copy import RolloutCopy

Collect = Callable[[], TensorDictBase]
Learn = Callable[[TensorDictBase, float], dict[str, Tensor]]
Log = Callable[[str], None]
Capture = Callable[[Callable[[], Any], str, Log], Callable[[], Any]]  # function, its name, log

EXECUTION_MODES = ("plain", "graphs", "compiled")


class Collector(Protocol):
    """What capturing needs of a collector: `SyncDataCollector` and `PipelinedDataCollector` have it."""

    @property
    def acting(self) -> Any:
        """The policy that acts: the one that learns, or its copy."""

    def act_with(self, policy: Any) -> None:
        """Act with `policy`, another form of `acting`."""

    def rollout(self, check: bool = True) -> TensorDictBase:
        """Return the next batch."""

    def capture_with(self, capture: Callable[[Callable[[], None]], Callable[[], None]]) -> None:
        """Wrap the device work of a rollout with `capture`."""

    def compile_with(self, compile: Callable[[Step, TensorEnv], Step]) -> None:
        """Wrap the device work of one step with `compile`."""


def capture_training(
    collector: Collector,
    learner: Learner,
    mode: str,
    log: Log,
    capture: Capture | None = None,
    agree: Callable[[bool], bool] = bool,
) -> tuple[Collect, Learn]:
    """Return `collect()` and `learn(batch, progress)`, run as `mode` says.

    Args:
        collector: must write every batch to the same memory (`return_same_td=True, ring_size=1`), which the captured
            update reads.
        learner: needs a generator of its own (`learner.generator`) if the collector collects beside the update.
        mode: "plain", "graphs" (CUDA graphs) or "compiled" (CUDA graphs of compiled kernels). Without a GPU, "compiled"
            compiles the update and captures nothing, unless `capture` is given.
        log: receives one line per part that cannot be compiled or captured.
        capture: replaces `GraphedFunction`, for tests.
        agree: see `GraphedFunction`.
    """
    if mode not in EXECUTION_MODES:
        raise ValueError(f"unknown execution mode '{mode}': use one of {', '.join(EXECUTION_MODES)}")
    if mode != "plain" and not learner.supports_capture:
        raise ValueError(f"the update of {type(learner).__name__} cannot be captured: use mode='plain'")
    if mode == "compiled":
        log("compiling kernels: about a minute before the first iterations, less when they were compiled before")
        # Dynamo caches programs per code object, for the lifetime of the process. Those of earlier trainings would
        # count against its recompile limit, past which it silently runs eagerly, and be guarded in every step.
        torch.compiler.reset()
        compile_update(learner, log)
    if mode == "plain" or (learner.device.type != "cuda" and capture is None):
        return partial(collector.rollout, check=False), learner.update
    if mode == "compiled":
        collector.compile_with(partial(compile_step, log=log))
    captured_update = capture or partial(GraphedFunction, generator=learner.generator, agree=agree)
    return _capture_rollout(collector, log, capture or GraphedFunction), _capture_update(learner, log, captured_update)


def _capture_rollout(collector: Collector, log: Log, capture: Capture) -> Collect:
    acting = RolloutCopy(collector.acting)
    collector.act_with(acting)

    def with_present_weights(fill: Callable[[], None]) -> None:
        acting.refresh()
        fill()

    collector.capture_with(lambda fill: capture(partial(with_present_weights, fill), "the rollout", log))

    def collect() -> TensorDictBase:
        while True:
            try:
                return collector.rollout(check=False)
            except CaptureFailed:  # the next rollout resets the env and runs eagerly
                continue

    return collect


def _capture_update(learner: Any, log: Log, capture: Capture) -> Learn:
    """Capture the update of a learner with `supports_capture`."""
    current: dict[str, Any] = {}
    update = capture(lambda: learner.learn(learner.prepare(current["batch"])), "the update", log)

    def learn(batch: TensorDictBase, progress: float) -> dict[str, Tensor]:
        learner.set_progress(progress)
        current["batch"] = batch
        try:
            return update()
        except CaptureFailed:  # repeat the interrupted update, eagerly
            return update()

    return learn
