"""The docking task: its env, its evaluation by wind with a table and a figure, its preset."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from docking.env import DockingEnv
from slipstream.algorithms.policy_file import LoadedPolicy
from slipstream.config.schema import EvaluateConfig
from slipstream.tasks.base import Task
from slipstream.tasks.evaluation import fly_episodes, wilson
from slipstream.ui.figures import SERIES, new_figure, save_figure, style_axes
from slipstream.ui.tables import TextTable


@dataclass
class DockingEvaluateConfig(EvaluateConfig):
    """The config of an evaluation, with the winds."""

    winds: list[float] = field(default_factory=lambda: [0.0, 0.5, 1.0])  # m/s², each flown by all craft


class DockingTask(Task):
    """Judged by the share of craft that dock, for several winds."""

    env = DockingEnv
    EvaluateConfig = DockingEvaluateConfig
    set_by_evaluation = {"env.num_envs": "eval.num_drones", "env.wind_mps2": "winds"}

    def evaluate(
        self, cfg: Any, trained: LoadedPolicy, device: torch.device, log: Callable[[str], None]
    ) -> dict[str, Any]:
        """Fly the policy in each wind; a table of rates with intervals, and docking.png."""
        rows = []
        for wind in cfg.winds:
            torch.manual_seed(cfg.seed)
            env = self.make_env(replace(cfg.env, wind_mps2=wind), device, cfg.seed, cfg.eval.num_drones)
            found = fly_episodes(env, trained.build(env, device), cfg.eval.max_steps)
            low, high = wilson(round(found["success"] * env.num_envs), env.num_envs)
            rows.append({"wind_mps2": wind, "docked": found["success"], "low": low, "high": high})
        cells = [
            [f"{row['wind_mps2']:g} m/s²", f"{row['docked']:.3f}", f"{row['low']:.3f} … {row['high']:.3f}"]
            for row in rows
        ]
        title = f"{trained.name}: {cfg.eval.num_drones} craft per wind"
        log(TextTable(title, ["wind", "docked", "95 % interval"], cells, left=1).render())
        result: dict[str, Any] = {"winds": rows, "checkpoint": str(trained.path)}
        if cfg.eval.picture:
            result["picture"] = str(draw(rows, Path(cfg.out) if cfg.out else trained.beside("docking.png")))
        return result


def draw(rows: list[dict[str, float]], path: Path) -> Path:
    """Draw the share that docked against the wind."""
    figure = new_figure(6.0, 3.6)
    axes = figure.subplots()
    style_axes(axes, xlabel="wind (m/s²)", ylabel="docked")
    axes.plot([row["wind_mps2"] for row in rows], [row["docked"] for row in rows], color=SERIES[0], marker="o")
    axes.set_ylim(-0.03, 1.03)
    return save_figure(figure, path)
