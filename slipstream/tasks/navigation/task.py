"""The navigation task: drones cross a field of standing and moving obstacles."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from slipstream.algorithms.policy_file import LoadedPolicy
from slipstream.tasks.base import Demo, EpisodeDrawing, Task
from slipstream.tasks.bench import BenchTable
from slipstream.tasks.evaluation import Policy
from slipstream.tasks.navigation import bench, evaluation
from slipstream.tasks.navigation.demo import NavigationDemo
from slipstream.tasks.navigation.env import NavigationEnv
from slipstream.tasks.navigation.figures.flight import FlightDrawing


class NavigationTask(Task):
    """NavRL's problem and its evaluation: a row of drones on each of several maps, flown once."""

    env = NavigationEnv
    set_by_evaluation = {
        "env.num_envs": "eval.num_drones",
        "env.num_worlds": "eval.map_seeds",
        "env.world_seeds": "eval.map_seeds",
        "env.max_episode_steps": "eval.max_steps",
        "env.random_clock": "eval.max_steps",
        "env.goal_ends_episode": "eval.max_steps",
    }
    export_settings = {"num_worlds": 1, "world_seeds": [], "random_clock": False}
    cpu_hint = "preset=demo is a world that a CPU learns in three minutes"

    def evaluate_in_training(self, cfg: Any, policy: Policy, device: torch.device) -> dict[str, float]:
        """Return the rates over maps not trained on; with eval.static_too also without moving obstacles."""
        found = evaluation.cross(policy, cfg.env, cfg.eval, device)
        if cfg.eval.static_too:
            still = replace(cfg.env, dyn=replace(cfg.env.dyn, num_obstacles=0))
            static = evaluation.cross(policy, still, cfg.eval, device)
            found |= {f"static_{key}": value for key, value in static.items()}
        return found

    def evaluate(
        self, cfg: Any, trained: LoadedPolicy, device: torch.device, log: Callable[[str], None]
    ) -> dict[str, Any]:
        """Fly over the maps of `eval.map_seeds`; a table of rates, and a picture of the paths."""
        return evaluation.evaluate(cfg, trained, device, log)

    def bench_env(self, config: Any, device: torch.device, progress: Callable[[float], None]) -> BenchTable:
        """Measure steps of drones that fly through the field, LiDAR and all."""
        return bench.bench_env(config, device, progress)

    def describe_env(self, config: Any) -> str:
        """Return the number of obstacles, and of physics steps per frame."""
        obstacles = f"{config.num_obstacles} + {config.dyn.num_obstacles} obstacles"
        return f"{obstacles}, {config.decision_interval} physics steps a frame"

    def make_demo(self, cfg: Any) -> Demo:
        """Return flights over unseen maps before and after training."""
        return NavigationDemo(cfg)

    def episode_drawing(self, shapes: Mapping[Any, Sequence[int]]) -> EpisodeDrawing | None:
        """Return flown paths around their goals."""
        is_ours = tuple(shapes.get(("observation", "state"), ())) == (8,)
        return FlightDrawing() if is_ours and tuple(shapes.get(("observation", "direction"), ()))[-1:] == (3,) else None
