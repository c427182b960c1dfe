"""slipstream bench env: the speed of a step, compared with plain eager PyTorch in the same process."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import torch
from torch import Tensor

from slipstream.tasks.bench import REPEATS, BenchTable, describe_device, time_alternating
from slipstream.tasks.navigation.env import NavigationConfig, NavigationEnv

MAIN = 1024
GROWTH = (64, 256, 1024, 4096, 16384)


def bench_env(config: NavigationConfig, device: torch.device, progress: Callable[[float], None]) -> BenchTable:
    """Measure both forms at 1,024 drones, alternately; then ours from 64 to 16,384."""
    ours, plain = stepper(config, MAIN, device, "auto"), stepper(config, MAIN, device, "torch")
    seconds, ratio = time_alternating({"ours": ours, "plain": plain}, device, REPEATS)
    rows = [
        row(MAIN, "plain eager PyTorch", seconds["plain"], "1.0"),
        row(MAIN, "ours", seconds["ours"], f"{ratio:.1f}"),
    ]
    for k, drones in enumerate(GROWTH):
        progress((k + 1) / (len(GROWTH) + 1))
        seconds, _ = time_alternating({"ours": stepper(config, drones, device, "auto")}, device, 3)
        rows.append(row(drones, "ours", seconds["ours"], ""))
    obstacles = f"{config.num_obstacles} + {config.dyn.num_obstacles} obstacles"
    title = f"NavigationEnv.step on {describe_device(device)}: {obstacles}, LiDAR and all"
    return BenchTable(title, ["drones", "form", "ms per step", "frames/s", "times the plain form"], rows)


def stepper(config: NavigationConfig, drones: int, device: torch.device, backend: str) -> Callable[[], None]:
    """Return a function that steps drones which fly through the field, resets included."""
    config = dataclasses.replace(config, num_envs=drones, backend=backend, num_worlds=min(config.num_worlds, drones))
    env = NavigationEnv(drones, device, 0, config)
    generator = torch.Generator().manual_seed(0)
    half = config.map_half_m
    inside = (torch.rand(drones, 3, generator=generator) * 2 - 1) * torch.tensor([half, half, 0.8]) + torch.tensor(
        [0, 0, 2.0]
    )
    goal = torch.stack((inside[:, 0], torch.full((drones,), -half - 4), torch.full((drones,), 2.0)), -1)
    env.place(inside, goal)
    actions = [(torch.rand(drones, 3, generator=generator) * 2 - 1).to(device) for _ in range(16)]
    for action in actions:
        action[:, 0] += 1.0  # forward, with weaving
    count = 0

    def step() -> None:
        nonlocal count
        env.step(_as_action(actions[count % 16], env))
        count += 1

    return step


def _as_action(action: Tensor, env: NavigationEnv) -> Tensor:
    if env.config.actions == "discrete":
        return (action[:, 0].abs() * 1000).long() % len(env.action_table)
    return action


def row(drones: int, form: str, seconds: float, ratio: str) -> list[str]:
    """Return one line of the table."""
    return [f"{drones:,}", form, f"{seconds * 1e3:.2f}", f"{drones / seconds:,.0f}", ratio]
