"""Make a training iteration fast: compile its kernels, capture the rollout as one CUDA graph and the update as another.

All of it wraps the collector and the algorithm from outside; collectors/ and algorithms/ stay plain PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from slipstream.algorithms.base import Learner
from slipstream.algorithms.execution.compile import compile_step, compile_update
from slipstream.algorithms.execution.graphs import CaptureFailed, GraphedFunction
from slipstream.envs.collector import Collector
from slipstream.models.rollout_copy import RolloutCopy

Collect = Callable[[], Any]  # a `Rollout`, or what `Rollout.of` reads
Learn = Callable[[Any, float], dict[str, Tensor]]
Log = Callable[[str], None]
Capture = Callable[[Callable[[], Any], str, Log], Callable[[], Any]]  # function, its name, log

EXECUTION_MODES = ("plain", "graphs", "compiled")


def capture_training(
    collector: Collector,
    learner: Learner,
    mode: str,
    log: Log,
    capture: Capture | None = None,
    agree: Callable[[bool], bool] = bool,
) -> tuple[Collect, Learn]:
    """Return `collect()` and `learn(batch, progress)`, run as `mode` says.

    The `update(batch, progress)` of a learner with `supports_capture` must be `set_progress(progress)`, which writes
    the tensors that schedules change, then `learn(prepare(batch))`. The second part is captured, and must keep the
    contract of `GraphedFunction`; the batch is in the same memory every time. `learn` calls `gradients(rows)`, which a
    compiled form may replace: a function of the rows and the policy's parameters that changes no state. With several
    processes it calls `clip_sums` as well, such a function of what `Learner.sums` returns.

    Args:
        collector: must write every batch to the same memory (`return_same_td=True`), which the captured
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
        log("compiling kernels: up to a minute before the next iteration, seconds if they are in the compiler's cache")
        # Dynamo caches programs per code object, for the lifetime of the process. Those of earlier trainings would
        # count against its recompile limit, past which it silently runs eagerly, and be guarded in every step.
        torch.compiler.reset()
        compile_update(learner, log)
    if mode == "plain" or (learner.device.type != "cuda" and capture is None):
        return partial(collector.collect_rollout, check=False), learner.update
    if mode == "compiled":
        collector.inner.compile_with(partial(compile_step, log=log))
    captured_update = capture or partial(GraphedFunction, generator=learner.generator, agree=agree)
    return _capture_rollout(collector, log, capture or GraphedFunction), _capture_update(learner, log, captured_update)


def _capture_rollout(collector: Collector, log: Log, capture: Capture) -> Collect:
    acting = collector.inner.policy
    if not isinstance(acting, RolloutCopy):  # it is one if the rollout was captured in another mode before
        acting = RolloutCopy(acting)
        collector.inner.act_with(acting)

    def with_present_weights(fill: Callable[[], None]) -> None:
        acting.refresh()
        fill()

    collector.inner.capture_with(lambda fill: capture(partial(with_present_weights, fill), "the rollout", log))

    def collect() -> Any:
        while True:
            try:
                return collector.collect_rollout(check=False)
            except CaptureFailed:  # the next rollout resets the env and runs eagerly
                continue

    return collect


def _capture_update(learner: Any, log: Log, capture: Capture) -> Learn:
    current: dict[str, Any] = {}
    update = capture(lambda: learner.learn(learner.prepare(current["batch"])), "the update", log)

    def learn(batch: Any, progress: float) -> dict[str, Tensor]:
        learner.set_progress(progress)
        current["batch"] = batch
        try:
            return update()
        except CaptureFailed:  # repeat the interrupted update, eagerly
            return update()

    return learn
