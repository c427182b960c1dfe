"""The safety shield in the env, for all drones at once: that of `slipstream.deploy`, on tensors."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from slipstream.sim.frames import to_goal_frame, to_world
from slipstream.tasks.navigation.deployment import describe
from slipstream.tasks.navigation.env import NEAREST
from slipstream.tasks.navigation.physics.obstacles import SEEN_COLUMNS

if TYPE_CHECKING:
    from slipstream.tasks.navigation.env import NavigationEnv

CHUNK = 4096  # drones at a time on a CPU, whose cache they fit into


class EnvShield:
    """Filters the commands of N drones by what they saw last. Its buffers are part of the env's state."""

    state_names = ("distance", "velocity", "rows", "turn", "changed")

    def __init__(self, env: NavigationEnv) -> None:
        config, device, n = env.config, env.device, env.num_envs
        numpy_shield = describe(config).shield()
        directions = torch.from_numpy(numpy_shield.directions).float().to(device)
        self.shield = replace(numpy_shield, directions=directions, xp=torch)
        self._heading, self._observes_moving = env.heading, config.observe_moving
        self.distance = torch.full((n, len(directions)), config.lidar.range_m, device=device)
        self.velocity = torch.zeros(n, 3, device=device)
        seen = NEAREST if config.observe_moving else 0
        self.rows = torch.zeros(n, seen, len(SEEN_COLUMNS), device=device)
        self.turn = torch.zeros(n, 2, device=device)  # from the goal frame to that of the LiDAR, as a unit vector
        self.changed = torch.zeros(n, dtype=torch.bool, device=device)  # by the last filter

    def see(self, distance: Tensor, velocity: Tensor, rows: Tensor, yaw: Tensor) -> None:
        """Keep an observation: distances [N, azimuths, elevations], velocity [N, 3] and rows of moving obstacles
        [N, K, 10] in the goal frame, and the yaw [N]."""
        self.turn.copy_(to_goal_frame(torch.stack((yaw.cos(), yaw.sin(), yaw), -1), self._heading)[:, :2])
        self.distance.copy_(distance.flatten(1))
        self.velocity.copy_(to_goal_frame(velocity, self.turn))
        if self._observes_moving:
            turn = self.turn[:, None]
            place, moves = to_goal_frame(rows[..., :3], turn), to_goal_frame(rows[..., 5:8], turn)
            self.rows.copy_(torch.cat((place, rows[..., 3:5], moves, rows[..., 8:]), -1))

    def filter(self, action: Tensor) -> Tensor:
        """Return the admissible velocities [N, 3], goal frame, nearest to `action`."""
        wanted = to_goal_frame(action, self.turn)
        size = CHUNK if action.device.type == "cpu" else len(action)
        parts = zip(*(x.split(size) for x in (wanted, self.distance, self.velocity, self.rows)), strict=True)
        flown = to_world(torch.cat([self.shield.filter(*part) for part in parts]), self.turn)
        self.changed.copy_((flown - action).abs().amax(1) > 1e-3)
        limit = self.shield.max_speed_mps
        return torch.where(self.changed[:, None], flown, action).clamp(-limit, limit)
