"""How a training iteration is made fast: kernels compiled, the rollout one CUDA graph, the whole update another.

All of it is wrapped around collector and algorithm here, from outside: what users read in collect/ and algo/ stays plain PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

import torch
from tensordict import TensorDictBase
from torch import Tensor

from slipstream.algorithms.execution.compiled import TRIES
from slipstream.algorithms.execution.graphs import Captured, HostSynchronisation
from slipstream.algorithms.execution.verify import Env, TrustedStep
from slipstream.algorithms.ppo import PPO
from slipstream.envs.specs import Step
from slipstream.models.rollout_copy import RolloutCopy

Collect = Callable[[], TensorDictBase]
Learn = Callable[[TensorDictBase, float], dict[str, Tensor]]
Capture = Callable[
    [Callable[[], Any], str, Callable[[str], None]], Callable[[], Any]
]  # a function, its name, whom to tell

FORMS = ("plain", "graphs", "compiled")


class Collector(Protocol):
    """What capture needs of a collector: `SyncDataCollector` has it."""

    @property
    def acting(self) -> Any:
        """The policy whose weights act: the one that learns, or its copy."""

    def act_with(self, policy: Any) -> None:
        """Lets `policy`, another form of `acting`, act."""

    def rollout(self, check: bool = True) -> TensorDictBase:
        """The next batch."""

    def capture_with(self, capture: Callable[[Callable[[], None]], Callable[[], None]]) -> None:
        """Lets `capture` wrap the device's work of a rollout."""

    def compile_with(self, compile: Callable[[Step, Env], Step]) -> None:
        """Lets `compile` wrap the device's work of a step of an env."""


def capture_training(
    collector: Collector, algo: PPO, form: str, tell: Callable[[str], None], capture: Capture | None = None
) -> tuple[Collect, Learn]:
    """`collect()` and `learn(batch, progress)`: plain, as CUDA graphs, or as CUDA graphs of compiled kernels.

    The collector must write every batch to the same memory (`return_same_td=True, ring_size=1`), from which the update reads.
    One that collects beside the update (`PipelinedDataCollector`) needs an algorithm with a generator of its own (`algo.generator`).
    Where there is no GPU, `compiled` compiles the update and captures nothing, unless `capture` says how.
    """
    if form not in FORMS:
        raise ValueError(f"unknown form '{form}': use one of {', '.join(FORMS)}")
    if form == "compiled":
        tell("compiling kernels: about a minute before the first iterations, less when they were compiled before")
        algo.compile(tell)

    def collect() -> TensorDictBase:
        return collector.rollout(check=False)

    if form == "plain" or (algo.device.type != "cuda" and capture is None):
        return collect, algo.update
    captured_update = capture or partial(Captured, generator=algo.generator)
    capture = capture or Captured
    acting = RolloutCopy(collector.acting)
    collector.act_with(acting)
    if form == "compiled":
        collector.compile_with(partial(_compile_step, tell=tell))

    def with_present_weights(fill: Callable[[], None]) -> Callable[[], None]:
        def run() -> None:
            acting.refresh()
            fill()

        return run

    collector.capture_with(lambda fill: capture(with_present_weights(fill), "the rollout", tell))
    current: dict[str, Any] = {}
    update = captured_update(lambda: algo.learn(algo.prepare(current["batch"])), "the update", tell)

    def collect_again() -> TensorDictBase:
        while True:  # a rollout that is broken off half way begins anew: the collector resets the env
            try:
                return collect()
            except HostSynchronisation:
                continue  # captured no more from here on

    def learn(batch: TensorDictBase, progress: float) -> dict[str, Tensor]:
        algo.set_progress(progress)
        current["batch"] = batch
        try:
            return update()
        except HostSynchronisation:  # broken off half way: the batch is learned from once more, plainly
            return update()

    return collect_again, learn


def _compile_step(step: Step, env: Env, tell: Callable[[str], None]) -> Step:
    """`step`, compiled where it can be compared with the plain one: all that it changes must be named by the env."""
    if not env.supports_state_restore:
        tell(
            "the env's step is not compiled: not all of its state is in tensors that it names (state_names), so it could not be checked"
        )
        return step
    return TrustedStep(step, (torch.compile(step, dynamic=False, options=options) for options in TRIES), env, tell)
