"""slipstream bench env: the speed of a step, compared with plain eager PyTorch in the same process."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from itertools import cycle

import torch

from slipstream.tasks.bench import describe_device, time_forms
from slipstream.tasks.navigation.env import NavigationConfig, NavigationEnv
from slipstream.ui.tables import TextTable

MAIN = 1024
GROWTH = (64, 256, 1024, 4096, 16384)


def bench_env(config: NavigationConfig, device: torch.device, progress: Callable[[float], None]) -> TextTable:
    """Measure both forms at 1,024 drones, alternately; then ours from 64 to 16,384."""
    both = {"ours": "auto", "plain PyTorch": "torch"}
    runs = [(MAIN, both), *((drones, {"ours": "auto"}) for drones in GROWTH)]
    rows = []
    for k, (drones, forms) in enumerate(runs):
        steps = {form: stepper(config, drones, device, backend) for form, backend in forms.items()}
        rows += time_forms([f"{drones:,}"], drones, steps)
        progress((k + 1) / len(runs))
    obstacles = f"{config.num_obstacles} + {config.dyn.count} obstacles"
    title = f"NavigationEnv.step on {describe_device(device)}: {obstacles}, LiDAR included"
    return TextTable(title, ["drones", "form", "µs per step", "frames/s", "times the plain form"], rows)


def stepper(config: NavigationConfig, drones: int, device: torch.device, backend: str) -> Callable[[], object]:
    """Return a function that steps drones which fly through the field, resets included."""
    config = dataclasses.replace(config, num_envs=drones, backend=backend)
    env = NavigationEnv(drones, device, 0, config)
    generator = torch.Generator().manual_seed(0)
    half = config.map_half_m
    size, center = torch.tensor([half, half, 0.8]), torch.tensor([0, 0, 2.0])
    inside = (torch.rand(drones, 3, generator=generator) * 2 - 1) * size + center
    goal = torch.stack((inside[:, 0], torch.full((drones,), -half - 4), torch.full((drones,), 2.0)), -1)
    env.place(inside, goal)
    forward = torch.tensor([1.0, 0.0, 0.0])  # with weaving
    actions = [(torch.rand(drones, 3, generator=generator) * 2 - 1 + forward).to(device) for _ in range(16)]
    if config.actions == "discrete":
        actions = [(action[:, 0].abs() * 1000).long() % len(env.action_table) for action in actions]
    turns = cycle(actions)
    return lambda: env.step(next(turns))
