"""The demo: flights before and after training."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from slipstream.algorithms.base import build_network
from slipstream.algorithms.policy_file import load_policy
from slipstream.config.schema import EvalConfig, TrainConfig
from slipstream.envs.specs import Observation
from slipstream.recordings import SUFFIX, write_html
from slipstream.sim.devices import resolve_device
from slipstream.tasks.evaluation import Policy
from slipstream.tasks.navigation.evaluation import Flights, draw, evaluation_env, fly, rate_cells, record, summarize
from slipstream.ui.figures import learning_curve
from slipstream.ui.tables import TextTable, format_percent, progress_bar

# The maps of the final table. Evaluations during training, which select the best policy, use other maps.
FINAL_MAPS = list(range(101, 117))


class NavigationDemo:
    """Fly over unseen maps before and after a training."""

    def __init__(self, cfg: TrainConfig) -> None:
        self.cfg = cfg
        self.ranks = cfg.gpus if isinstance(cfg.gpus, int) else 1
        self.final = dataclasses.replace(cfg.eval, map_seeds=FINAL_MAPS)
        self.device = resolve_device(cfg.device)
        self.began = time.perf_counter()
        self.rows: list[dict[str, Any]] = []

    def before(self) -> None:
        """Fly straight, and with an untrained policy."""
        cfg = self.cfg
        torch.manual_seed(cfg.seed)
        self.env = env = evaluation_env(cfg.env, self.final, self.device)
        untrained = build_network(dataclasses.asdict(cfg.algo), env.observation_spec, env.action_spec, cfg.model)
        print(f"before: {len(FINAL_MAPS)} maps that training never sees, {self.final.num_drones} drones on each")
        steered = dataclasses.replace(cfg, env=dataclasses.replace(cfg.env, actions="continuous"))
        self.rows.append(evaluate("flying straight", steered, self.final, straight(cfg.env.max_speed_mps))[0])
        self.rows.append(evaluate("untrained policy", cfg, self.final, untrained.to(self.device))[0])
        drones, maps = self.ranks * cfg.env.num_envs, self.ranks * cfg.env.num_worlds
        print(f"\ntraining: {drones:,} drones over {maps:,} other maps, {cfg.max_time_s:.0f} s")

    def after(self, folder: Path, metrics: Sequence[Mapping[str, Any]]) -> None:
        """Fly the trained policy, print the table, write figures into the run folder."""
        print("\nafter:")
        trained = load_policy(folder)
        policy = trained.build(self.env, self.device)
        row, flights = evaluate("trained policy", self.cfg, self.final, policy)
        self.rows.append(row)
        table = [{"policy": row["name"]} | rate_cells(row) for row in self.rows]
        cells = [list(row.values()) for row in table]
        print(TextTable("maps not trained on", list(table[0]), cells, left=1).render())
        trained_s, total_s = metrics[-1]["time_s"], time.perf_counter() - self.began
        print(f"{metrics[-1]['frames']:,} frames in {trained_s:.0f} s on {self.cfg.device}, {total_s:.0f} s in all")
        paths = draw(flights, self.env, folder / "paths.png")
        curve = learning_curve(metrics, folder / "learning.png", "learning curve")
        recording = record(flights, self.env, "Slipstream demo: flights over an unseen map", trained)
        page = write_html(recording, recording.save(folder / f"flight{SUFFIX}").with_suffix(".html"))
        print(f"\nflights:  {page}\npictures: {paths}, {curve}")


def straight(speed_mps: float) -> Policy:
    """Return the policy that flies towards the goal with this speed, without regard to obstacles."""

    def policy(observation: Observation) -> torch.Tensor:
        action = torch.zeros(len(observation["state"]), 3, device=observation["state"].device)
        action[:, 0] = speed_mps
        return action

    return policy


def evaluate(name: str, cfg: TrainConfig, settings: EvalConfig, policy: Policy) -> tuple[dict[str, Any], Flights]:
    """Fly a policy over the unseen maps. Returns its row of the table, and the flights."""
    with progress_bar(f"flying: {name}") as progress:
        env = evaluation_env(cfg.env, settings, resolve_device(cfg.device))
        flights = fly(env, policy, settings.num_drones, progress)
    result = summarize(flights, settings.bootstrap)
    success, collision = format_percent(result["success"]), format_percent(result["collision"])
    print(f"  {name}: {success} reach the goal, {collision} collide")
    return {"name": name, **result}, flights
