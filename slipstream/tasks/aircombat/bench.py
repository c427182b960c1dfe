"""slipstream bench env task=aircombat: physics sub-steps per second, with random actions and fire of both sides and
resets.

The native form (or one Triton kernel in a CUDA graph) is compared with plain PyTorch, alternating in the same process.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from itertools import cycle

import torch

from slipstream.algorithms.execution.graphs import GraphedFunction
from slipstream.tasks.aircombat.env import AirCombatConfig, AirCombatEnv
from slipstream.tasks.bench import describe_device, time_forms
from slipstream.ui.tables import TextTable

MAIN = 1024
SCALES = (1.0, 4.0, 8.0)  # sub-steps per decision, at 1,024 duels
GROWTH = (256, 1024, 4096, 16384, 65536, 262144)
PLAIN_MOST = 65536  # duels; with more, a plain step on a CPU takes seconds
ACTIONS = 8  # different actions, in turn; on a GPU one graph holds as many steps
SETTLED_S = 6.0  # game time before measuring: most missiles are in flight then


def bench_env(config: AirCombatConfig, device: torch.device, progress: Callable[[float], None]) -> TextTable:
    """Measure both forms at 1,024 duels for some time scales, then from 256 to 262,144 duels at the config's own."""
    runs = dict.fromkeys([(MAIN, scale) for scale in SCALES] + [(duels, config.time_scale) for duels in GROWTH])
    rows = []
    for k, (duels, scale) in enumerate(runs):
        rows += both_forms(dataclasses.replace(config, time_scale=scale), duels, device)
        progress((k + 1) / len(runs))
    title = f"AirCombatEnv.step on {describe_device(device)}: both sides random, fire and resets included"
    header = ["duels", "sub-steps per decision", "form", "µs per decision", "sub-steps/s", "times the plain form"]
    return TextTable(title, header, rows)


def both_forms(config: AirCombatConfig, duels: int, device: torch.device) -> list[list[str]]:
    """Return a row of our form and, unless it is too slow, one of the plain form, measured in turns on the same duels:
    at random stages of their episodes, so that ends and resets are spread out, with missiles in flight."""
    config = dataclasses.replace(config, num_envs=duels, sides=2, start="random")
    env = AirCombatEnv(duels, device, 0, config)
    clock = torch.randint(env.engine.rules.limit, (duels,), generator=torch.Generator().manual_seed(0))
    env.engine.duels.clock.copy_(clock)
    actions = torch.rand(ACTIONS, 2, duels, 3, generator=torch.Generator().manual_seed(1))
    actions[..., 0] = 2 * actions[..., 0] - 1
    turns = list(actions.to(device).unbind(0))
    for action in turns * max(1, round(SETTLED_S / env.engine.rules.dt_s / env.engine.ticks / ACTIONS)):
        env.step(action)
    forms = {"ours": stepper(env, turns)}
    if duels <= PLAIN_MOST or device.type == "cuda":
        plain = AirCombatEnv(duels, device, 0, dataclasses.replace(config, backend="torch"))
        plain.load_state_dict(env.state_dict())
        forms["plain PyTorch"] = stepper(plain, turns)
    ticks, per_call = env.engine.ticks, ACTIONS if device.type == "cuda" else 1
    return time_forms([f"{duels:,}", str(ticks)], duels * ticks, forms, per_call)


def stepper(env: AirCombatEnv, actions: list[torch.Tensor]) -> Callable[[], object]:
    """Return a function that takes one step; on a GPU a captured graph with a step of each action."""
    if env.device.type == "cuda":

        def run() -> None:
            for action in actions:
                env.step(action)

        captured = GraphedFunction(run, "the steps")
        for _ in range(4):  # warm-up calls, then the capture
            captured()
        return captured
    turns = cycle(actions)
    return lambda: env.step(next(turns))
