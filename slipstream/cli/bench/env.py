"""slipstream bench env: how fast the environment steps, beside its plain eager-PyTorch form in the same process.

slipstream bench env                       1,024 drones beside the plain form, and growth from 64 to 16,384 drones
slipstream bench env env.num_obstacles=700 any key of env.* but num_envs and backend
slipstream bench env device=cuda           on a GPU; each step is launched eagerly, without graph capture
slipstream bench env out=table.md          writes the table as Markdown too
slipstream bench env task=aircombat        duels, counted in physics sub-steps; from 256 to 262,144; CUDA graphs on a GPU
"""

from __future__ import annotations

import dataclasses
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch
from rich.table import Table
from torch import Tensor

from slipstream.config.compose import load_train
from slipstream.config.help import ConfigError
from slipstream.sim.devices import resolve_device, set_threads
from slipstream.tasks.navigation.env import NavigationConfig, NavigationEnv
from slipstream.training.console import progress_bar, render

MAIN = 1024
GROWTH = (64, 256, 1024, 4096, 16384)
REPEATS = 7
SECONDS = 0.4  # at least, of one measurement


def run(argv: list[str]) -> int:
    """`slipstream bench env [key=value ...]`."""
    out = [text.removeprefix("out=") for text in argv if text.startswith("out=")]
    cfg = load_train([text for text in argv if not text.startswith("out=")])
    device = resolve_device(cfg.device)
    set_threads(cfg.threads)
    if cfg.task == "navigation":
        header = ["drones", "form", "ms a step", "frames/s", "times the plain form"]
        with progress_bar("measuring") as progress:
            rows = bench_env(cfg.env, device, progress)
        what = f"NavigationEnv.step on {describe(device)}: {cfg.env.num_obstacles} + {cfg.env.dyn.num_obstacles} obstacles, LiDAR and all"
    elif cfg.task == "aircombat":
        from slipstream.cli.bench import aircombat

        header = aircombat.HEADER
        with progress_bar("measuring") as progress:
            rows = aircombat.bench_aircombat(cfg.env, device, progress)
        what = f"AirCombatEnv.step on {describe(device)}: both sides random, fire and resets included"
    else:
        raise ConfigError(f"slipstream bench env measures task=navigation and task=aircombat, not {cfg.task}")
    table = Table(title=what, title_justify="left")
    for name in header:
        table.add_column(name, justify="right")
    for row in rows:
        table.add_row(*row)
    print(render(table))
    if out:
        lines = [
            "| " + " | ".join(header) + " |",
            "|" + "---|" * len(header),
            *("| " + " | ".join(row) + " |" for row in rows),
        ]
        Path(out[0]).write_text("\n".join(lines) + "\n")
    return 0


def bench_env(config: NavigationConfig, device: torch.device, progress: Callable[[float], None]) -> list[list[str]]:
    """The rows of the table: at 1,024 drones both forms, measured in turns; then ours from 64 to 16,384."""
    parts = REPEATS + len(GROWTH)
    ours, plain = stepper(config, MAIN, device, "auto"), stepper(config, MAIN, device, "torch")
    times: dict[str, list[float]] = {"ours": [], "plain": []}
    for repeat in range(REPEATS):  # in turns: what else the machine does hits both
        times["ours"].append(seconds_per_call(ours, device))
        times["plain"].append(seconds_per_call(plain, device))
        progress((repeat + 1) / parts)
    ours_s, plain_s = (statistics.median(times[name]) for name in ("ours", "plain"))
    ratio = statistics.median(p / o for p, o in zip(times["plain"], times["ours"], strict=True))
    rows = [row(MAIN, "plain eager PyTorch", plain_s, "1.0"), row(MAIN, "ours", ours_s, f"{ratio:.1f}")]
    for k, drones in enumerate(GROWTH):
        step = stepper(config, drones, device, "auto")
        rows.append(row(drones, "ours", statistics.median(seconds_per_call(step, device) for _ in range(3)), ""))
        progress((REPEATS + k + 1) / parts)
    return rows


def stepper(config: NavigationConfig, drones: int, device: torch.device, backend: str) -> Callable[[], None]:
    """One step of `drones` drones that are spread over the field and fly through it, resets included."""
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
        action[:, 0] += 1.0  # forwards, weaving
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


def seconds_per_call(step: Callable[[], None], device: torch.device) -> float:
    """The mean over about SECONDS, after two calls that do not count.

    A GPU is given twice as many calls at a time until they take that long: calls queued against the clock of the host would pile up
    there for minutes.
    """
    step()
    step()
    synchronise(device)
    calls = 1
    while True:
        began = time.perf_counter()
        for _ in range(calls):
            step()
        synchronise(device)
        seconds = time.perf_counter() - began
        if seconds >= SECONDS and calls >= 3:
            return seconds / calls
        calls *= 2


def synchronise(device: torch.device) -> None:
    """Waits for a GPU; nothing on a CPU."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def row(drones: int, form: str, seconds: float, ratio: str) -> list[str]:
    """One line of the table."""
    return [f"{drones:,}", form, f"{seconds * 1e3:.2f}", f"{drones / seconds:,.0f}", ratio]


def describe(device: torch.device) -> str:
    """The device in words."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"{torch.get_num_threads()} CPU threads ({platform.machine()})"
