"""slipstream demo: trains a drone policy in a small world on the CPU, flies it over maps it has never seen, and draws the result.

slipstream demo                  about 4 minutes on two cores
slipstream demo max_time_s=60    any key of `slipstream train` can be given; the demo's own are in conf/preset/demo.yaml
"""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path
from typing import Any

import torch
from rich.table import Table

from slipstream import train
from slipstream.algorithms.learner import build_network
from slipstream.config.compose import load_train
from slipstream.config.help import ConfigError
from slipstream.config.overrides import value_of
from slipstream.config.schema import EvalConfig, TrainConfig
from slipstream.envs.specs import Observation
from slipstream.sim.devices import resolve_device
from slipstream.training.console import progress_bar, render
from slipstream.training.evaluate import Flights, Policy, draw, evaluation_env, fly, summarise
from slipstream.training.metrics_log import read_metrics
from slipstream.training.plots import learning_curve, success_bars
from slipstream.training.policies import load_policy
from slipstream.training.report import write_report

# The maps of the final table. The evaluations while training fly over others: the best policy is chosen by them.
JUDGED_ON = list(range(101, 117))


def run(overrides: list[str]) -> int:
    """The whole demo; its files go to the run folder."""
    if value_of("task", overrides) not in (None, "navigation"):
        raise ConfigError(
            "the demo flies task=navigation; train your own env with slipstream train task=my_module:MyEnv"
        )
    cfg = load_train(["preset=demo", *overrides])
    judged = dataclasses.replace(cfg.eval, map_seeds=JUDGED_ON)
    device = resolve_device(cfg.device)
    began = time.perf_counter()
    torch.manual_seed(cfg.seed)
    env = evaluation_env(cfg.env, judged, device)
    untrained = build_network(dataclasses.asdict(cfg.algo), env.observation_spec, env.action_spec, cfg.model).to(device)
    print(f"before: {len(JUDGED_ON)} maps that training never sees, {judged.num_drones} drones on each")
    steered = dataclasses.replace(cfg, env=dataclasses.replace(cfg.env, actions="continuous"))
    rows = [
        judge("flying straight", steered, judged, straight)[0],
        judge("untrained policy", cfg, judged, untrained)[0],
    ]

    print(f"\ntraining: {cfg.env.num_envs} drones over {cfg.env.num_worlds} other maps, {cfg.max_time_s:.0f} s")
    folder = train.run(cfg)

    print("\nafter:")
    row, flights = judge(
        "trained policy", cfg, judged, load_policy(folder.path).build(env.observation_spec, env.action_spec, device)
    )
    rows.append(row)
    print(table(rows))
    figures = {
        "Paths over the first unseen map": draw(flights, env, folder.path / "paths.png"),
        "Success while training": learning_curve(
            read_metrics(folder.path), folder.path / "learning.png", "learning curve"
        ),
        "Before and after": success_bars(folder.path / "success.png", rows),
    }
    report = write_report(
        folder.path, "Slipstream demo", [shown(row) for row in rows], figures, facts(cfg, overrides, folder.path, began)
    )
    print(f"\nreport:   {report}\npictures: {', '.join(str(path) for path in figures.values())}")
    print(f"evaluate: slipstream eval checkpoint={folder.path}")
    return 0


def straight(observation: Observation) -> torch.Tensor:
    """Full speed towards the goal, whatever stands there."""
    action = torch.zeros(len(observation["state"]), 3, device=observation["state"].device)
    action[:, 0] = 2.0
    return action


def judge(name: str, cfg: TrainConfig, judged: EvalConfig, policy: Policy) -> tuple[dict[str, Any], Flights]:
    """One row of the table: the policy flown over the unseen maps."""
    env = evaluation_env(cfg.env, judged, resolve_device(cfg.device))
    with progress_bar(f"flying: {name}") as progress:
        flights = fly(env, policy, judged.num_drones, progress)
    result = summarise(flights, judged.bootstrap)
    print(f"  {name}: {result['success']:.1%} reach the goal, {result['collision']:.1%} collide")
    return {"name": name, **result}, flights


def table(rows: list[dict[str, Any]]) -> str:
    """Before and after, as text."""
    out = Table(title="maps not trained on", title_justify="left")
    for name in shown(rows[0]):
        out.add_column(name, justify="left" if name == "policy" else "right")
    for row in rows:
        out.add_row(*map(str, shown(row).values()))
    return render(out)


def shown(row: dict[str, Any]) -> dict[str, str]:
    """What the tables show of a row."""
    time_s = row["time_to_goal_s"]
    return {
        "policy": row["name"],
        "success": f"{row['success']:.3f}",
        "95 % interval": f"{row['success_low']:.3f} … {row['success_high']:.3f}",
        "collision": f"{row['collision']:.3f}",
        "timeout": f"{row['timeout']:.3f}",
        "time to goal": "–" if time_s is None else f"{time_s:.1f} s",
    }


def facts(cfg: TrainConfig, overrides: list[str], folder: Path, began: float) -> dict[str, Any]:
    """What the report says of the run."""
    rows = read_metrics(folder)
    return {
        "training": f"{rows[-1]['frames']:,} frames in {rows[-1]['time_s']:.0f} s, evaluations included, on {cfg.device}",
        "whole demo": f"{time.perf_counter() - began:.0f} s",
        "world": f"{2 * cfg.env.map_half_m:.0f} × {2 * cfg.env.map_half_m:.0f} m, {cfg.env.num_obstacles} standing and "
        f"{cfg.env.dyn.num_obstacles} moving obstacles, {cfg.env.decision_interval} physics steps a decision",
        "maps": f"trained on {cfg.env.num_worlds}, chosen on {len(cfg.eval.map_seeds)} others, judged on {len(JUDGED_ON)} others again",
        "command": " ".join(["slipstream demo", *overrides]),
    }
