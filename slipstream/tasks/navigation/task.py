"""The navigation task: drones cross a field of standing and moving obstacles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch

from slipstream.config.compose import flat_settings, read_options
from slipstream.config.help import ConfigError, show
from slipstream.tasks.base import Game, Task
from slipstream.tasks.evaluation import Policy, TrainingEvaluation
from slipstream.tasks.navigation import deployment, evaluation
from slipstream.tasks.navigation.demo import NavigationDemo
from slipstream.tasks.navigation.env import NavigationConfig, NavigationEnv
from slipstream.tasks.navigation.mujoco import validation

ONLY_PLAIN = (  # settings of env.* that the page which flies by itself has at their defaults alone
    *("map", "swarm", "drone", "goals", "terminate", "observe", "shield", "lidar.fov_deg", "camera.yaws_deg"),
    *("body_radius_m", "goal_radius_m", "min_height_m", "max_height_m"),
)


class NavigationTask(Task):
    """NavRL's problem and its evaluation: a row of drones on each of several maps, flown once."""

    env = NavigationEnv
    EvaluateConfig = evaluation.NavigationEvaluateConfig
    set_by_evaluation = {
        "env.num_envs": "eval.num_drones",
        **dict.fromkeys(("env.num_worlds", "env.world_seeds"), "eval.map_seeds"),
        **dict.fromkeys(("env.max_episode_steps", "env.random_clock", "env.goal_ends_episode"), "eval.max_steps"),
        "eval.static_too": "env.dyn.num_obstacles=0",
    }
    export_settings = {"num_worlds": 1, "world_seeds": [], "random_clock": False}
    game_help = "race a learned drone; opponent=learned or runs/NAME; start=easy, medium or navrl; seconds=90; seed=0"
    shown_info = ("drone_collision",)  # success, collision and timeout are shown for every env
    evaluate = staticmethod(evaluation.evaluate)
    validate = staticmethod(validation.validate)
    record = staticmethod(evaluation.record_flight)
    make_demo = staticmethod(NavigationDemo)
    deployment = staticmethod(deployment.facts)

    def check_page(self, env_config: Any) -> None:
        """Raise ConfigError for an env that the page does not have: it has the boxes, sensors and dynamics."""
        given, plain = (flat_settings(asdict(config)) for config in (env_config, NavigationConfig()))
        others = [f"env.{name}={show(given[name])}" for name in ONLY_PLAIN if given[name] != plain[name]]
        others = [word for word in others if word != "env.goals=opposite"]  # goals of the training
        if others or env_config.needs_voxels:
            what = f"not with {', '.join(others) or 'steep beams'}: flight.html of slipstream eval shows this"
            raise ConfigError(f"the page flies among boxes with the plain LiDAR, {what}")

    def show_map(self, env_config: Any, out: Path) -> None:
        """Draw the maps of `env.map`."""
        from slipstream.tasks.navigation.show_map import show_map

        show_map(env_config, out)

    def make_evaluation(self, cfg: Any, policy: Policy, device: torch.device) -> TrainingEvaluation:
        """Return the rates over maps not trained on; with eval.static_too also without moving obstacles."""
        worlds = {"": cfg.env}
        if cfg.eval.static_too:
            worlds["static_"] = replace(cfg.env, dyn=replace(cfg.env.dyn, num_obstacles=0))
        return evaluation.RepeatedEvaluation(worlds, cfg.eval, policy, device)

    def serve_vehicle(self, cfg: Any, trained: Any, link: Any, words: Sequence[str]) -> dict[str, Any]:
        """Fly the MuJoCo drone."""
        from slipstream.tasks.navigation.mujoco.vehicle import VehicleOptions, serve

        return serve(cfg, trained, link, read_options(VehicleOptions, words), lambda text: print(text, flush=True))

    def make_game(self, words: Sequence[str]) -> Game:
        """Return a race against the shipped policy, or `opponent=RUN`."""
        from slipstream.tasks.navigation.game import RaceGame, RaceOptions

        return RaceGame(read_options(RaceOptions, words), self.weights)
