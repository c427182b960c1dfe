"""How fast the envs step, beside their plain eager-PyTorch form in the same process.

python benchmarks/env.py                           1,024 drones beside the plain form, then 64 to 16,384
python benchmarks/env.py env.num_obstacles=700     any key of env.* but num_envs and backend
python benchmarks/env.py device=cuda               on a GPU
python benchmarks/env.py task=aircombat            duels at several lengths of a decision, then 256 to 262,144
python benchmarks/env.py out=table.md              write the table as Markdown too
"""

from __future__ import annotations

import dataclasses
import statistics
import sys
from collections.abc import Callable, Sequence
from itertools import cycle
from pathlib import Path

import torch
from torch.utils.benchmark import Timer

from slipstream.algorithms.execution.graphs import GraphedFunction
from slipstream.cli.bench import describe_device
from slipstream.config.compose import load_train
from slipstream.config.overrides import split_keys
from slipstream.sim.devices import resolve_device, set_threads
from slipstream.tasks.aircombat.env import AirCombatConfig, AirCombatEnv
from slipstream.tasks.navigation.env import NavigationConfig, NavigationEnv
from slipstream.ui.tables import TextTable, progress_bar

REPEATS = 7
SECONDS = 0.4  # at least, of one measurement
MAIN = 1024
DRONES = (64, 256, 1024, 4096, 16384)
SCALES = (1.0, 4.0, 8.0)  # sub-steps per decision, at 1,024 duels
DUELS = (256, 1024, 4096, 16384, 65536, 262144)
PLAIN_MOST = 65536  # duels; with more, a plain step on a CPU takes seconds
ACTIONS = 8  # different actions, in turn; on a GPU one graph holds as many steps
SETTLED_S = 6.0  # game time before measuring: most missiles are in flight then
Progress = Callable[[float], None]


def main(argv: Sequence[str]) -> None:
    own, words = split_keys(argv, ("out",))
    cfg = load_train(words)
    device = resolve_device(cfg.device)
    set_threads(cfg.threads)
    with progress_bar("measuring") as progress:
        table = {"navigation": drones, "aircombat": duels}[cfg.task](cfg.env, device, progress)
    print(table.render())
    if "out" in own:
        Path(own["out"]).write_text(table.markdown())


def time_forms(
    cells: list[str], frames: int, forms: dict[str, Callable[[], object]], steps: int = 1
) -> list[list[str]]:
    """Time our form of a step and, if given, the plain one, alternately, so that other work on the machine hits both.
    Returns one row per form.

    Its further cells: the form, µs per step, frames per second, and how many times as fast as the plain form ours is:
    the median ratio.

    Args:
        cells: the first cells of each row.
        frames: per step.
        forms: by name, ours first; a call takes `steps` steps.
        steps: per call.
    """
    threads = torch.get_num_threads()
    timers = {form: Timer("step()", globals={"step": step}, num_threads=threads) for form, step in forms.items()}
    times: dict[str, list[float]] = {form: [] for form in forms}
    for _ in range(REPEATS):
        for form, timer in timers.items():
            times[form].append(timer.blocked_autorange(min_run_time=SECONDS).median)
    first, last = list(times.values())[0], list(times.values())[-1]
    ratio = statistics.median(b / a for a, b in zip(first, last, strict=True))
    rows = []
    for form, measured in times.items():
        seconds = statistics.median(measured)
        times_plain = f"{ratio:.1f}" if form == "ours" and len(times) > 1 else ""
        rows.append([*cells, form, f"{seconds / steps * 1e6:,.0f}", f"{frames * steps / seconds:,.0f}", times_plain])
    return rows


# -- navigation --------------------------------------------------------------------------------------------------------


def drones(config: NavigationConfig, device: torch.device, progress: Progress) -> TextTable:
    """Measure both forms at 1,024 drones, alternately; then ours from 64 to 16,384."""
    both = {"ours": "auto", "plain PyTorch": "torch"}
    runs = [(MAIN, both), *((count, {"ours": "auto"}) for count in DRONES)]
    rows = []
    for k, (count, forms) in enumerate(runs):
        steps = {form: fly(config, count, device, backend) for form, backend in forms.items()}
        rows += time_forms([f"{count:,}"], count, steps)
        progress((k + 1) / len(runs))
    obstacles = f"{config.num_obstacles} + {config.dyn.count} obstacles"
    title = f"NavigationEnv.step on {describe_device(device)}: {obstacles}, LiDAR included"
    return TextTable(title, ["drones", "form", "µs per step", "frames/s", "times the plain form"], rows)


def fly(config: NavigationConfig, count: int, device: torch.device, backend: str) -> Callable[[], object]:
    """Return a function that steps drones which fly through the field, resets included."""
    config = dataclasses.replace(config, num_envs=count, backend=backend)
    env = NavigationEnv(count, device, 0, config)
    generator = torch.Generator().manual_seed(0)
    half = config.map_half_m
    size, center = torch.tensor([half, half, 0.8]), torch.tensor([0, 0, 2.0])
    inside = (torch.rand(count, 3, generator=generator) * 2 - 1) * size + center
    goal = torch.stack((inside[:, 0], torch.full((count,), -half - 4), torch.full((count,), 2.0)), -1)
    env.place(inside, goal)
    forward = torch.tensor([1.0, 0.0, 0.0])  # with weaving
    actions = [(torch.rand(count, 3, generator=generator) * 2 - 1 + forward).to(device) for _ in range(16)]
    if config.actions == "discrete":
        actions = [(action[:, 0].abs() * 1000).long() % len(env.action_table) for action in actions]
    turns = cycle(actions)
    return lambda: env.step(next(turns))


# -- air combat --------------------------------------------------------------------------------------------------------


def duels(config: AirCombatConfig, device: torch.device, progress: Progress) -> TextTable:
    """Measure both forms at 1,024 duels for some time scales, then from 256 to 262,144 duels at the config's own:
    physics sub-steps per second, with random actions and fire of both sides and resets. The native form (or one Triton
    kernel in a CUDA graph) is compared with plain PyTorch."""
    runs = dict.fromkeys([(MAIN, scale) for scale in SCALES] + [(count, config.time_scale) for count in DUELS])
    rows = []
    for k, (count, scale) in enumerate(runs):
        rows += both_forms(dataclasses.replace(config, time_scale=scale), count, device)
        progress((k + 1) / len(runs))
    title = f"AirCombatEnv.step on {describe_device(device)}: both sides random, fire and resets included"
    header = ["duels", "sub-steps per decision", "form", "µs per decision", "sub-steps/s", "times the plain form"]
    return TextTable(title, header, rows)


def both_forms(config: AirCombatConfig, count: int, device: torch.device) -> list[list[str]]:
    """Return a row of our form and, unless it is too slow, one of the plain form, measured in turns on the same duels:
    at random stages of their episodes, so that ends and resets are spread out, with missiles in flight."""
    config = dataclasses.replace(config, num_envs=count, sides=2, start="random")
    env = AirCombatEnv(count, device, 0, config)
    clock = torch.randint(env.engine.rules.limit, (count,), generator=torch.Generator().manual_seed(0))
    env.engine.duels.clock.copy_(clock)
    actions = torch.rand(ACTIONS, 2, count, 3, generator=torch.Generator().manual_seed(1))
    actions[..., 0] = 2 * actions[..., 0] - 1
    turns = list(actions.to(device).unbind(0))
    for action in turns * max(1, round(SETTLED_S / env.engine.rules.dt_s / env.engine.ticks / ACTIONS)):
        env.step(action)
    forms = {"ours": fight(env, turns)}
    if count <= PLAIN_MOST or device.type == "cuda":
        plain = AirCombatEnv(count, device, 0, dataclasses.replace(config, backend="torch"))
        plain.load_state_dict(env.state_dict())
        forms["plain PyTorch"] = fight(plain, turns)
    ticks, per_call = env.engine.ticks, ACTIONS if device.type == "cuda" else 1
    return time_forms([f"{count:,}", str(ticks)], count * ticks, forms, per_call)


def fight(env: AirCombatEnv, actions: list[torch.Tensor]) -> Callable[[], object]:
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


if __name__ == "__main__":
    main(sys.argv[1:])
