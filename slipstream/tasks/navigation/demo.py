"""The demo: flights before and after training, and a report."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from rich.table import Table

from slipstream.algorithms.base import build_policy
from slipstream.algorithms.policy_file import load_policy
from slipstream.config.schema import EvalConfig, TrainConfig
from slipstream.envs.specs import Observation
from slipstream.recordings import SUFFIX, write_html
from slipstream.sim.devices import resolve_device
from slipstream.tasks.evaluation import Policy
from slipstream.tasks.figures import learning_curve, success_bars
from slipstream.tasks.navigation.evaluation import Flights, draw, evaluation_env, fly, record, summarise
from slipstream.tasks.report import write_report
from slipstream.tasks.tables import progress_bar, render

# The maps of the final table. Evaluations during training, which select the best policy, use other maps.
JUDGED_ON = list(range(101, 117))


class NavigationDemo:
    """Fly over unseen maps before and after a training, and write the report."""

    def __init__(self, cfg: TrainConfig) -> None:
        self.cfg = cfg
        self.judged = dataclasses.replace(cfg.eval, map_seeds=JUDGED_ON)
        self.device = resolve_device(cfg.device)
        self.began = time.perf_counter()
        self.rows: list[dict[str, Any]] = []

    def before(self) -> None:
        """Fly straight, and with an untrained policy."""
        cfg = self.cfg
        torch.manual_seed(cfg.seed)
        self.env = env = evaluation_env(cfg.env, self.judged, self.device)
        untrained = build_policy(dataclasses.asdict(cfg.algo), env.observation_spec, env.action_spec, cfg.model)
        print(f"before: {len(JUDGED_ON)} maps that training never sees, {self.judged.num_drones} drones on each")
        steered = dataclasses.replace(cfg, env=dataclasses.replace(cfg.env, actions="continuous"))
        self.rows.append(judge("flying straight", steered, self.judged, straight)[0])
        self.rows.append(judge("untrained policy", cfg, self.judged, untrained.to(self.device))[0])
        print(f"\ntraining: {cfg.env.num_envs} drones over {cfg.env.num_worlds} other maps, {cfg.max_time_s:.0f} s")

    def after(self, folder: Path, metrics: Sequence[Mapping[str, Any]], command: str) -> None:
        """Fly the trained policy, print the table, write figures and report into the run folder."""
        print("\nafter:")
        trained = load_policy(folder)
        policy = trained.build(self.env.observation_spec, self.env.action_spec, self.device)
        row, flights = judge("trained policy", self.cfg, self.judged, policy)
        self.rows.append(row)
        print(table(self.rows))
        figures = {
            "Paths over the first unseen map": draw(flights, self.env, folder / "paths.png"),
            "Success while training": learning_curve(metrics, folder / "learning.png", "learning curve"),
            "Before and after": success_bars(folder / "success.png", self.rows),
        }
        facts = describe(self.cfg, metrics, time.perf_counter() - self.began, command)
        report = write_report(folder, "Slipstream demo", [shown(row) for row in self.rows], figures, facts)
        recording = record(flights, self.env, "Slipstream demo: flights over an unseen map", trained)
        page = write_html(recording, recording.save(folder / f"flight{SUFFIX}").with_suffix(".html"))
        print(f"\nflights:  {page}\nreport:   {report}\npictures: {', '.join(str(path) for path in figures.values())}")


def straight(observation: Observation) -> torch.Tensor:
    """Return full speed towards the goal, without regard to obstacles."""
    action = torch.zeros(len(observation["state"]), 3, device=observation["state"].device)
    action[:, 0] = 2.0
    return action


def judge(name: str, cfg: TrainConfig, judged: EvalConfig, policy: Policy) -> tuple[dict[str, Any], Flights]:
    """Fly a policy over the unseen maps. Returns its row of the table, and the flights."""
    env = evaluation_env(cfg.env, judged, resolve_device(cfg.device))
    with progress_bar(f"flying: {name}") as progress:
        flights = fly(env, policy, judged.num_drones, progress)
    result = summarise(flights, judged.bootstrap)
    print(f"  {name}: {result['success']:.1%} reach the goal, {result['collision']:.1%} collide")
    return {"name": name, **result}, flights


def table(rows: list[dict[str, Any]]) -> str:
    """Format the rows before and after training."""
    out = Table(title="maps not trained on", title_justify="left")
    for name in shown(rows[0]):
        out.add_column(name, justify="left" if name == "policy" else "right")
    for row in rows:
        out.add_row(*map(str, shown(row).values()))
    return render(out)


def shown(row: dict[str, Any]) -> dict[str, str]:
    """Return the columns of a row."""
    time_s = row["time_to_goal_s"]
    return {
        "policy": row["name"],
        "success": f"{row['success']:.3f}",
        "95 % interval": f"{row['success_low']:.3f} … {row['success_high']:.3f}",
        "collision": f"{row['collision']:.3f}",
        "timeout": f"{row['timeout']:.3f}",
        "time to goal": "–" if time_s is None else f"{time_s:.1f} s",
    }


def describe(cfg: TrainConfig, rows: Sequence[Mapping[str, Any]], seconds: float, command: str) -> dict[str, Any]:
    """Return the facts of the run for the report."""
    return {
        "training": f"{rows[-1]['frames']:,} frames in {rows[-1]['time_s']:.0f} s, evaluations included, on {cfg.device}",
        "total time": f"{seconds:.0f} s",
        "world": f"{2 * cfg.env.map_half_m:.0f} × {2 * cfg.env.map_half_m:.0f} m, {cfg.env.num_obstacles} standing and "
        f"{cfg.env.dyn.num_obstacles} moving obstacles, {cfg.env.decision_interval} physics steps per decision",
        "maps": f"trained on {cfg.env.num_worlds}, chosen on {len(cfg.eval.map_seeds)} others, judged on {len(JUDGED_ON)} others again",
        "command": command,
    }
