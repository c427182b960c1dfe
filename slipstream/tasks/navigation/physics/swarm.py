"""Groups of drones that share a space: to each other they are cylinders that move."""

from __future__ import annotations

import torch
from torch import Tensor

from slipstream.sim.devices import pick_backend
from slipstream.tasks.navigation.physics.lidar import FAR_M, Rays, Things
from slipstream.tasks.navigation.physics.obstacles import WIDTHS_M, Obstacles, SeenObstacles

JOINS_AFTER_S = 1.0  # of an episode: it may begin where another drone is


class Swarm(Obstacles):
    """The drones of N / K groups of K, one after the other. In `sense` each drone has a space of its own, with the
    K - 1 others of its group.

    A drone joins its group one second after its start: until then the others do not meet it.
    """

    state_names = ("gone",)

    def __init__(self, size: int, num: int, radius_m: float, device: torch.device, backend: str) -> None:
        self._backend = pick_backend(device, backend)
        self.worlds, self.count, self.size = num, size - 1, size
        drone = torch.arange(num, device=device)
        self.group_of, self._slot = drone // size, drone % size
        other = torch.arange(size - 1, device=device).expand(num, -1)
        self._others = (drone - self._slot)[:, None] + other + (other >= self._slot[:, None])  # [N, K - 1]
        self._own_space = drone
        width_class = min(sum(width < 2 * radius_m for width in WIDTHS_M), len(WIDTHS_M) - 1)  # not narrower than it is
        kind = torch.tensor((2 * radius_m, 2 * radius_m, float(width_class), 1.0), device=device)
        self._fixed = kind.repeat(num * self.count, 1)
        self._outline = torch.tensor((radius_m, radius_m, radius_m, 1.0), device=device).expand(num, -1)
        self.gone = torch.zeros(num, dtype=torch.bool, device=device)  # drones that left: nobody meets them

    def see(self, pos: Tensor, vel: Tensor, flown_s: Tensor) -> None:
        """Take the places and velocities [N, 3] of all drones, and how long they have flown [N]."""
        self._absent = self.gone | (flown_s < JOINS_AFTER_S)
        there = torch.where(self._absent[:, None], FAR_M, pos)
        self.pos, self.vel = there[self._others], vel[self._others]  # [N, K - 1, 3]
        self._things = torch.cat((there, self._outline), -1).view(-1, self.size, 7)

    def sense_others(self, pos: Tensor, heading: Tensor, k: int, range_m: float, radius_m: float) -> SeenObstacles:
        """Return the k nearest others as `sense` does; a drone that is absent hits nobody."""
        seen = self.sense(pos, heading, self._own_space, k, range_m, radius_m)
        return seen._replace(hit=seen.hit & ~self._absent)

    def cast(self, pos: Tensor, rotation: Tensor, rays: Rays, range_m: float) -> Tensor:
        """Return the distances [N, R] (m) along rays to the others."""
        things = Things(self._things, self._backend)
        return things.cast(pos, rotation, rays, self.group_of, range_m, self._slot)


def nearest_of(a: SeenObstacles, b: SeenObstacles) -> SeenObstacles:
    """Return the k nearest of two times k obstacles, by horizontal distance."""
    rows, clearance = torch.cat((a.rows, b.rows), 1), torch.cat((a.clearance, b.clearance), 1)
    across = torch.where((rows != 0).any(-1), rows[..., 3], torch.inf)  # rows of zeros are missing
    first = across.topk(a.rows.shape[1], dim=1, largest=False).indices
    rows = rows.gather(1, first[..., None].expand(-1, -1, rows.shape[-1]))
    return SeenObstacles(rows, clearance.gather(1, first), a.hit | b.hit)
