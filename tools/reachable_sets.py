"""The reachable set of a missile: all places where it can be some seconds after its launch, for any rudder.
`python tools/reachable_sets.py` writes the shipped table of them.

Its boundary is the envelope of three families of flights (compared with random rudders in
tests/aircombat/test_reachable.py):
- turns to any heading with a rudder proportional to the angle left: soft turns cost less speed than hard ones, so these
  reach farthest;
- turns at full rudder to any heading, then straight: the tips of the set;
- full rudder one way, then the other: the slowest flights, the inner side.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from slipstream.tasks.aircombat.physics.flight import (
    BURN_TICKS,
    LAUNCH_AHEAD_M,
    MISSILE,
    PHYSICS_DT_S,
    SOUND_MPS,
    advance,
    speed_of,
)
from slipstream.tasks.aircombat.reach.table import SET_UNITS, SETS

SPEEDS_MPS = range(50, 601, 10)  # of the carriers in the table
CORNERS = slice(None, None, 2)  # every second corner is enough for figures

TIMES_S = (5.0, 10.0, 15.0, 20.0)
GAINS = (0.25, 0.35, 0.5, 0.7, 1.0, 1.6, 3.0, math.inf)  # rudder per rad left to turn; inf: full rudder to the end
TURNS = 49  # headings from straight to a full turn
RAYS = 49  # directions of the boundary of one half
MIRROR = torch.tensor([1.0, -1.0, 1.0])  # of x, y, speed


@dataclass
class Boundary:
    """The boundary at one time in the carrier's frame: x ahead, y to the left (m), and the missile's Mach number."""

    time_s: float
    outer: Tensor  # [2 * RAYS - 1, 3]: the far side, from the rightmost direction over straight ahead to the leftmost
    inner: Tensor  # the near side, likewise

    @property
    def polygon(self) -> Tensor:
        """The set as one closed polygon [corners, 2], with a seam where it closes behind the carrier."""
        return torch.cat((self.outer, self.inner.flip(0)))[:, :2]

    @property
    def mach(self) -> Tensor:
        """The missile's Mach number at each corner of the polygon."""
        return torch.cat((self.outer, self.inner.flip(0)))[:, 2]


def reachable(speed_mps: float, times_s: tuple[float, ...] = TIMES_S) -> list[Boundary]:
    """Return the boundaries of the reachable set, at each time, of a missile launched at `speed_mps`."""
    turns = torch.linspace(0, 2 * math.pi, TURNS)
    ticks = [round(t / PHYSICS_DT_S) for t in times_s]
    every = math.gcd(*ticks)
    soft = torch.tensor(GAINS).repeat_interleave(TURNS)
    zero = torch.zeros(len(ticks) * TURNS)
    flips = torch.cat([torch.linspace(0, t, TURNS).round() for t in ticks])  # full rudder one way until then
    flown = fly(
        speed_mps,
        torch.cat((torch.zeros_like(soft), zero + 1)),
        torch.cat((turns.repeat(len(GAINS)), zero)),
        torch.cat((soft, zero)),
        torch.cat((torch.zeros_like(soft), flips)),
        max(ticks),
        every,
    ).view(-1, TURNS, 1 + max(ticks) // every, 3)
    result = []
    for index, (time_s, tick) in enumerate(zip(times_s, ticks, strict=True)):
        now = flown[:, :, tick // every]
        woven = now[len(GAINS) + index]  # the one with switches over just this time
        result.append(_boundary(time_s, torch.stack((*now[: len(GAINS)], woven, woven * MIRROR))))
    return result


def fly(speed_mps: float, held: Tensor, turn: Tensor, gain: Tensor, flip: Tensor, ticks: int, every: int) -> Tensor:
    """Fly M missiles of a carrier with `speed_mps` that flies along x.

    Args:
        held: [M] rudder; its sign changes at tick `flip` [M].
        turn: [M] rad to turn, positive left.
        gain: [M] rudder per rad still to turn.

    Returns:
        Position and speed [M, 1 + ticks // every, 3].
    """
    pos = torch.tensor([LAUNCH_AHEAD_M, 0.0]).repeat(len(held), 1)
    vel = torch.tensor([float(speed_mps), 0.0]).repeat(len(held), 1)
    rows = []
    for tick in range(ticks + 1):
        speed = speed_of(vel)
        if tick % every == 0:
            rows.append(torch.cat((pos, speed[:, None]), -1))
        step = speed * (PHYSICS_DT_S / MISSILE.min_radius_m)
        turning = (turn * torch.minimum(gain, 1 / step)).clamp(-1, 1)
        turn = turn - turning * step
        thrust = torch.full_like(turn, float(tick < BURN_TICKS))
        rudder = torch.where(tick < flip, held, -held) + turning
        pos, vel = advance(MISSILE, pos, vel, rudder, thrust, PHYSICS_DT_S)
    return torch.stack(rows, 1)


def _boundary(time_s: float, curves: Tensor) -> Boundary:
    """Find the farthest and nearest crossing of every ray with curves [C, TURNS, 3] of places and speeds."""
    begin, end = curves[:, :-1].reshape(-1, 3), curves[:, 1:].reshape(-1, 3)
    angles = torch.linspace(0, 1, RAYS) * _widest(begin, end)
    ray = torch.stack((torch.cos(angles), torch.sin(angles)), -1)  # [RAYS, 2]
    normal = torch.stack((-ray[:, 1], ray[:, 0]), -1)
    side_begin, side_end = normal @ begin[:, :2].T, normal @ end[:, :2].T  # [RAYS, segments]: how far left of the ray
    part = side_begin / torch.where(side_begin == side_end, 1.0, side_begin - side_end)
    along = torch.lerp(ray @ begin[:, :2].T, ray @ end[:, :2].T, part)
    crosses = (side_begin * side_end <= 0) & (side_begin != side_end) & (along > 0)
    far, near = torch.where(crosses, along, -1.0).argmax(1), torch.where(crosses, along, 1e9).argmin(1)
    rows = torch.arange(RAYS)
    outer, inner = (torch.lerp(begin[at], end[at], part[rows, at, None]) for at in (far, near))
    outer[0, 1] = inner[0, 1] = 0
    for half in (outer, inner):
        half[:, 2] /= SOUND_MPS
    return Boundary(time_s, _mirrored(outer), _mirrored(inner))


def _widest(begin: Tensor, end: Tensor) -> float:
    """Return the widest direction (rad) of the left half, slightly inside; half a turn where the set closes behind."""
    closes = (begin[:, 1] > 0) & (end[:, 1] <= 0) & (end[:, 0] < 0)
    angle = torch.atan2(begin[:, 1], begin[:, 0])
    widest = torch.where(begin[:, 1] >= 0, angle, 0.0).amax()
    return math.pi * (1 - 1e-5) if bool(closes.any()) else float(widest) * (1 - 1e-5)


def _mirrored(half: Tensor) -> Tensor:
    """Complete the left half [RAYS, 3] of a boundary, which begins straight ahead, by its mirror image."""
    return torch.cat(((half * MIRROR).flip(0), half[1:]))


def write_table() -> None:
    """Write the reachable sets of carriers of all speeds."""
    sets = [reachable(float(speed)) for speed in SPEEDS_MPS]
    polygon = np.array([[boundary.polygon.numpy()[CORNERS] for boundary in each] for each in sets])
    mach = np.array([[boundary.mach.numpy()[CORNERS] for boundary in each] for each in sets])
    stored = [np.round(x / unit).astype(np.int16) for x, unit in zip((polygon, mach), SET_UNITS, strict=True)]
    speed, time = np.array(SPEEDS_MPS, np.float32), np.array(TIMES_S, np.float32)
    np.savez_compressed(SETS, speed=speed, time=time, polygon=stored[0], mach=stored[1])


if __name__ == "__main__":
    write_table()
