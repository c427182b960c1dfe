"""The viewer's scene of the task: the field with its obstacles, and the flights over one map."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import torch
from torch import Tensor

from slipstream.recordings import Recording
from slipstream.tasks.navigation.env import NavigationConfig, NavigationEnv
from slipstream.tasks.recording import body_group, describe_policy

POSITION_STEP_M, ACTION_STEP, VALUE_STEP = 0.001, 0.01, 0.01
OUTCOMES = ("timed out", "goal reached", "collided")


class FlightRows:
    """The rows of a recording while drones fly, kept on the device: `drones` over the first map of the env."""

    def __init__(self, env: NavigationEnv, drones: int) -> None:
        self.env, self.drones = env, drones
        self.times_s: list[float] = []
        self.positions: list[Tensor] = []
        self.movers: list[Tensor] = []
        self.actions: list[Tensor] = []
        self.values: list[Tensor] = []
        self.terms: list[Tensor] = []  # of the reward, with env.reward.own

    def add_state(self, time_s: float, over: Tensor) -> None:
        """Keep all positions; NaN for the drones whose flight is `over` [N]."""
        n = self.drones
        self.times_s.append(time_s)
        self.positions.append(torch.where(over[:n, None], torch.nan, self.env.drone.pos[:n]))
        self.movers.append(self.env.movers.pos[0].clone())

    def add_decision(self, action: Tensor, value: Tensor | None) -> None:
        """Keep the action and the value for the state that was added last."""
        env, n = self.env, self.drones
        chosen = env.action_table[action[:n]] if env.config.actions == "discrete" else action[:n]
        self.actions.append(chosen.clone())
        if value is not None:
            self.values.append(value[:n].clone())
        if env.rules is not None and env.rules.names:
            self.terms.append(env.rules.terms[:, :n].T.clone())

    def paths(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the positions of drones [T, N, 3] and moving obstacles [T, K, 3]."""
        if not self.positions:
            return np.zeros((0, self.drones, 3), np.float32), np.zeros((0, 0, 3), np.float32)
        return torch.stack(self.positions).cpu().numpy(), torch.stack(self.movers).cpu().numpy()


def flight_recording(
    rows: FlightRows, outcome: np.ndarray, goals: np.ndarray, title: str, policy: Any = None, trained: Any = None
) -> Recording:
    """Return the recording of flights.

    Args:
        rows: what was kept while they flew.
        outcome: [N] 0 timed out, 1 goal reached, 2 collided.
        goals: [N, 3] m.
        title: of the recording.
        policy: the network, whose value is shown in units of returns.
        trained: the `LoadedPolicy`, for the recording's facts.
    """
    env, n = rows.env, rows.drones
    config = env.config
    positions, movers = rows.paths()
    recording = Recording("flight", title, {"": np.array(rows.times_s)}, {"drone.position": positions})
    recording.precision["drone.position"] = POSITION_STEP_M
    recording.columns["drone.action"] = torch.stack(rows.actions).float().cpu().numpy()
    recording.precision["drone.action"] = ACTION_STEP
    if rows.values:
        values = torch.stack(rows.values).float()
        norm = getattr(policy, "value_norm", None)
        recording.columns["drone.value"] = (values if norm is None else norm.denormalize(values)).cpu().numpy()
        recording.precision["drone.value"] = VALUE_STEP
    if rows.terms and env.rules is not None:
        recording.columns["drone.reward"] = torch.stack(rows.terms).cpu().numpy()  # [T, N, terms]
        recording.precision["drone.reward"] = VALUE_STEP
    starts = positions[0]
    recording.arrays = {
        "box": env.grid.boxes_of_world(0),  # [M, 5 or 6] x, y, half sides, top, bottom
        "drone.goal": goals.astype(np.float32),
        "drone.outcome": outcome.astype(np.uint8),
        "drone.yaw": np.arctan2(goals[:, 1] - starts[:, 1], goals[:, 0] - starts[:, 0]).astype(np.float32),
    }
    if env.swarm is not None:
        recording.arrays["drone.group"] = env.swarm.group_of[:n].cpu().numpy().astype(np.int32)
    recording.groups = [body_group("drone", [f"drone {k + 1}" for k in range(n)], "Air+Rotorcraft", "Cyan")]
    if env.movers.count:
        recording.columns["mover.position"] = movers
        recording.precision["mover.position"] = POSITION_STEP_M
        recording.arrays["mover.size"] = torch.stack((env.movers.width, env.movers.height), -1).cpu().numpy()
        labels = [f"mover {k + 1}" for k in range(env.movers.count)]
        recording.groups.append(body_group("mover", labels, "Misc+Decoy", "Violet"))
    _add_events(recording, outcome)
    rates = {name: int((outcome == k).sum()) for k, name in enumerate(OUTCOMES)}
    recording.meta = {
        "summary": ", ".join(f"{rates[name]} {name}" for name in ("goal reached", "collided", "timed out")),
        "outcomes": rates,
        "map_seed": int(env.world_seeds[0]),
        "reward_terms": [] if env.rules is None else list(env.rules.names),
        **field_facts(config),
        **describe_policy(trained, config),
    }
    return recording


def field_facts(config: NavigationConfig) -> dict[str, Any]:
    """Return what the page must know of a field besides its obstacles."""
    names = ("map_half_m", "body_radius_m", "goal_radius_m", "max_speed_mps")
    lidar = dataclasses.asdict(config.lidar) | {"sees_moving": config.lidar_sees_moving}
    return {name: getattr(config, name) for name in names} | {"lidar": lidar}


def _add_events(recording: Recording, outcome: np.ndarray) -> None:
    """Add where each drone's flight ends."""
    times, there = recording.clocks[""], np.isfinite(recording.columns["drone.position"][..., 0])
    for k, kind in enumerate(outcome):
        if kind:
            last = int(np.flatnonzero(there[:, k])[-1]) if there[:, k].any() else 0
            what = ("goal", "reached its goal") if kind == 1 else ("collision", "collided")
            event = {"time": float(times[last]), "kind": what[0], "text": f"drone {k + 1} {what[1]}"}
            recording.events.append(event | {"body": f"drone {k + 1}"})
    recording.events.sort(key=lambda event: event["time"])
