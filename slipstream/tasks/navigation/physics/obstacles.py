"""Moving obstacles: floating boxes and pillars that roam around their origins, one set per world, never reset with a
drone."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from slipstream.config.help import show
from slipstream.config.validation import check_range
from slipstream.sim.devices import pick_backend
from slipstream.sim.processes import map_in_processes
from slipstream.sim.random import CounterRandom, derive_seed
from slipstream.tasks.navigation.physics.maps import place_moving

WIDTHS_M = (0.25, 0.5, 0.75, 1.0)  # in equal shares; the index is the width class a drone observes
BOX_HEIGHT_M, PILLAR_HEIGHT_M = 1.0, 5.0
TOP_M = 4.5  # maximum height of boxes
ARRIVAL_M = 0.5  # distance from its goal at which an obstacle gets a new one
MAX_MOVING = 2000  # placing more takes minutes
SEEN_COLUMNS = (
    *("unit_x", "unit_y", "unit_z", "distance", "height_offset"),
    *("vel_x", "vel_y", "vel_z", "width_class", "floats"),
)


@dataclass
class MovingObstaclesConfig:
    """The settings of `env.dyn.*`."""

    num_obstacles: int = 80  # rounded down to a multiple of 8; 0: none
    speed_mps: tuple[float, float] = (0.5, 1.5)  # slowest and fastest, m/s; drawn anew every redraw_s
    roam_m: tuple[float, float, float, float] = (5.0, 5.0, 5.0, 4.0)  # goals around the origin: ±x, ±y, down, up
    redraw_s: float = 2.0  # time between changes of speed and heading

    def __post_init__(self) -> None:
        check_range(self, "num_obstacles", minimum=0, maximum=MAX_MOVING, section="env_dyn.")
        if 0 < self.num_obstacles < 8:
            raise ValueError(f"env_dyn.num_obstacles must be 0 or at least 8, not {self.num_obstacles}")
        if not 0 <= self.speed_mps[0] <= self.speed_mps[1]:
            raise ValueError(f"env.dyn.speed_mps={show(self.speed_mps)} must be 0 or more, the smaller one first")

    @property
    def count(self) -> int:
        """The number of obstacles in the world: `num_obstacles` rounded down."""
        return self.num_obstacles // 8 * 8


class SeenObstacles(NamedTuple):
    """The k nearest obstacles as a drone's detector reports them."""

    rows: Tensor  # [N, k, 10], the columns of SEEN_COLUMNS; zeros where one is out of range or missing
    clearance: Tensor  # [N, k] m, distance minus half the width; the range where one is out of range or missing
    hit: Tensor  # [N] bool: one of them is within the margin


class Obstacles:
    """Boxes and pillars in each of K spaces, as a drone's detector finds them."""

    pos: Tensor  # [K, M, 3] m
    vel: Tensor  # [K, M, 3] m/s
    worlds: int  # K
    count: int  # M
    _fixed: Tensor  # [K * M, 4] width, height, width class, 1 for one that floats
    _backend: str

    def sense(
        self, pos: Tensor, heading: Tensor, world_of: Tensor, k: int, range_m: float, margin_m: float
    ) -> SeenObstacles:
        """Return the k nearest obstacles by horizontal distance, for drones at `pos` [N, 3] in the frame of `heading`
        [N, 2]."""
        if self._backend == "native":
            from slipstream.tasks.navigation.physics import sensors_native

            drones, things = (pos, heading, world_of), (self.properties(), self.count)
            return SeenObstacles(*sensors_native.sense(*drones, *things, k, range_m, margin_m))
        index, across = self.nearest(pos, world_of, min(k, self.count))
        place = self.properties().index_select(0, (index + world_of[:, None] * self.count).flatten())
        columns = place.view(*index.shape, -1).unbind(-1)  # [N, k] each
        x, y, z, vel_x, vel_y, vel_z, width, height, width_class, floats = columns
        x, y, z = x - pos[:, 0:1], y - pos[:, 1:2], (z - pos[:, 2:3]) * floats  # a pillar counts as 2-D
        distance = torch.sqrt(across.square() + z.square())
        near = across <= range_m
        clearance = torch.where(near, distance - width / 2, range_m)
        hit = (near & (across <= width / 2 + margin_m) & (z.abs() <= height / 2 + margin_m)).any(1)
        cos, sin = heading[:, 0:1], heading[:, 1:2]
        inverse = 1 / distance.clamp(min=1e-6)
        unit = ((cos * x + sin * y) * inverse, (cos * y - sin * x) * inverse, z * inverse)
        moves = cos * vel_x + sin * vel_y, cos * vel_y - sin * vel_x, vel_z
        rows = torch.stack((*unit, across, z, *moves, width_class, floats), -1)
        missing = k - index.shape[1]
        rows = torch.nn.functional.pad(torch.where(near[..., None], rows, 0.0), (0, 0, 0, missing))
        return SeenObstacles(rows, torch.nn.functional.pad(clearance, (0, missing), value=range_m), hit)

    def nearest(self, pos: Tensor, world_of: Tensor, k: int) -> tuple[Tensor, Tensor]:
        """Return indices and horizontal distances [N, k] of the k nearest obstacles, nearest first."""
        if self._backend == "triton":
            from slipstream.tasks.navigation.physics import sensors_triton

            return sensors_triton.nearest(pos, world_of, self.pos, k)
        return self.nearest_torch(pos, world_of, k)

    def nearest_torch(self, pos: Tensor, world_of: Tensor, k: int) -> tuple[Tensor, Tensor]:
        """The reference form of `nearest`."""
        there = self.pos[world_of, :, :2] if self.worlds > 1 else self.pos[..., :2]
        distance, index = torch.linalg.vector_norm(there - pos[:, None, :2], dim=-1).topk(k, dim=1, largest=False)
        return index, distance

    def properties(self) -> Tensor:
        """Return one row per obstacle [K * M, 10]: position, velocity, width, height, width class, 1 for a floating
        box."""
        return torch.cat((self.pos.view(-1, 3), self.vel.view(-1, 3), self._fixed), 1)


class MovingObstacles(Obstacles):
    """M obstacles in each of K worlds: boxes in the first half, pillars in the second, width classes in turn."""

    state_names = ("pos", "vel", "goal", "clock")

    def __init__(
        self,
        config: MovingObstaclesConfig,
        seeds: list[int],
        dt_s: float,
        map_half_m: float,
        device: torch.device | str = "cpu",
        backend: str = "auto",
    ) -> None:
        self.config = config
        self._backend = pick_backend(torch.device(device), backend)
        self.dt_s, self.map_half_m = dt_s, map_half_m
        self.device = torch.device(device)
        self.worlds = len(seeds)
        self.count = count = config.count
        if count != config.num_obstacles:
            rounded = f"env.dyn.num_obstacles={config.num_obstacles} is rounded down to {count}"
            warnings.warn(f"{rounded} (four widths of two kinds)", stacklevel=3)
        rank = torch.arange(count, device=device)
        self.pillar = rank >= count // 2
        self.width_class = rank % len(WIDTHS_M)
        self.width = torch.tensor(WIDTHS_M, device=device)[self.width_class]  # [M]
        self.height = torch.where(self.pillar, PILLAR_HEIGHT_M, BOX_HEIGHT_M)  # [M]
        self.outline = torch.stack((self.width, self.height, self.pillar.float()), -1)  # [M, 3], for a kernel

        places = [(derive_seed(seed, "moving obstacles"), count, map_half_m, TOP_M) for seed in seeds]
        origin = np.stack(map_in_processes(place_moving, places))
        origin[:, count // 2 :, 2] = PILLAR_HEIGHT_M / 2
        self.origin = torch.from_numpy(origin).to(device)
        self.pos = self.origin.clone()  # [K, M, 3]
        self.vel = torch.zeros_like(self.pos)
        self.goal = self.origin.clone()
        self.clock = torch.zeros((), dtype=torch.int64, device=device)  # physics steps
        self.random = CounterRandom([derive_seed(seed, "moving obstacles' goals") for seed in seeds], count, device)
        self.redraw_steps = max(1, round(config.redraw_s / dt_s))
        x, y, down, up = config.roam_m
        self.roam_low = torch.tensor((-x, -y, -down), device=device)
        self.roam_size = torch.tensor((2 * x, 2 * y, down + up), device=device)
        kinds = torch.stack((self.width, self.height, self.width_class.float(), (~self.pillar).float()), -1)
        self._fixed = kinds.repeat(self.worlds, 1)
        self.low = torch.tensor((-map_half_m, -map_half_m, 0.0), device=device)
        self.high = torch.tensor((map_half_m, map_half_m, TOP_M), device=device)

    def advance(self, steps: int = 1) -> None:
        """Take `steps` physics steps."""
        if not self.count:
            return
        if self._backend == "native":
            from slipstream.tasks.navigation.physics import sensors_native

            sensors_native.roam(self, steps, ARRIVAL_M)
        elif self._backend == "triton" and not torch.compiler.is_compiling():  # a compiler fuses the plain form
            from slipstream.tasks.navigation.physics import sensors_triton

            sensors_triton.roam(self, steps, TOP_M, ARRIVAL_M)
        else:
            for _ in range(steps):
                self.advance_torch()

    def advance_torch(self) -> None:
        """The reference form of one step."""
        u = self.random.uniform(self.clock, 4).view(self.worlds, self.count, 4)
        goal = torch.clamp(self.origin + u[..., :3] * self.roam_size + self.roam_low, self.low, self.high)
        goal[..., 2] = torch.where(self.pillar, PILLAR_HEIGHT_M / 2, goal[..., 2])
        arrived = torch.linalg.vector_norm(self.goal - self.pos, dim=-1, keepdim=True) < ARRIVAL_M
        self.goal.copy_(torch.where(arrived, goal, self.goal))
        way = self.goal - self.pos
        slow, fast = self.config.speed_mps
        length = torch.linalg.vector_norm(way, dim=-1, keepdim=True).clamp(min=1e-6)
        vel = (slow + (fast - slow) * u[..., 3:]) * way / length
        self.vel.copy_(torch.where(self.clock % self.redraw_steps == 0, vel, self.vel))
        self.pos.add_(self.vel, alpha=self.dt_s)
        self.clock.add_(1)
