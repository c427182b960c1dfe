"""The reach of a missile launched now: the ranges from which it hits, and from which no escape helps.

All numbers come from simulated flights (`time_of_hit`), not from formulas. For one launch geometry:

- r_max: the farthest launch that hits a target which keeps its present velocity.
- r_min: every such launch between r_min and r_max hits. Nearer, a missile may not turn tightly enough. At least the hit
  radius.
- time_quarter, time_half, time_full: flight times to such a target from these shares of r_max.
- r_ne: no escape of the family ESCAPES helps: turn to any heading at full rudder, then straight, at full throttle.
  It is the far end of the widest interval of ranges from which all of them are hit.

All are 0 where there is no such range. The search is coarse to fine with fixed shapes and without host synchronization.
`ReachTable` holds the same numbers on a grid, for thousands of duels per step. `python tools/reach_table.py` writes the
shipped table.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from slipstream.sim.devices import pick_backend
from slipstream.tasks.aircombat.physics.flight import HIT_RADIUS_M, launch
from slipstream.tasks.aircombat.reach.table import SHIPPED, SPEED_LIMITS_MPS, UNITS, ReachTable

TIMED_SHARES = (0.25, 0.5, 0.99)  # of r_max: the launches of the three times
HOLD = -1.0  # throttle of a target that keeps its present velocity
FARTHEST_M = 95_000.0  # two at 550 m/s, nose to nose, are hit from 90 km
ESCAPES = 25  # turns off the present heading, 15 degrees apart
COARSE = 96  # launches over all ranges, each 7.5 % farther than the last: finds gaps wider than that
ROUGH, CLOSE = 4, 20  # narrower gaps are searched at 4 places with 20 launches each
FRAYED = 1.15  # beyond a gap's far end hits and misses may alternate up to this factor
FINE, ROUNDS = 8, 2  # launches between two neighbors, in two rounds: edges to 0.1 %
ESCAPE_COARSE, ESCAPE_FINE = 20, 5  # the same for r_ne, each with all escapes: edges to 0.5 %
ESCAPE_FARTHEST_M = 30_000.0
SURE = 0.95  # a single miss beyond this share of r_max does not move r_min
NO_ESCAPE_DEPTH = 0.9  # r_ne is valid only if all escapes from this share of it are hit too
MIDDLING_MPS = 800.0
CHUNK = 4096  # pairs flown at once: 2 million missiles


@dataclass
class Geometry:
    """Launch geometries in the shooter's frame, [P] each, or [1] for all: the shooter flies along x."""

    own_speed: Tensor  # m/s
    target_speed: Tensor  # m/s
    bearing: Tensor  # rad, of the target off the shooter's nose, positive left
    aspect: Tensor  # rad, of the shooter off the target's nose, positive left; 0: it flies straight at the shooter

    def __post_init__(self) -> None:
        self.own_speed, self.target_speed, self.bearing, self.aspect = torch.broadcast_tensors(*vars(self).values())


def time_of_hit(
    pos: Tensor, vel: Tensor, target_pos: Tensor, target_vel: Tensor, turn: Tensor, throttle: Tensor
) -> Tensor:
    """Fly M missiles, launched now, to their ends. There is no time limit.

    Args:
        pos: of the shooters, [M, 2] m.
        vel: of the shooters, [M, 2] m/s.
        target_pos: [M, 2] m.
        target_vel: [M, 2] m/s.
        turn: [M] rad, positive left: a target turns by it at full rudder, then flies straight.
        throttle: [M] of the targets; with HOLD a target keeps its present velocity instead.

    Returns:
        [M] s to the hit; infinite where the missile gets too slow before it hits.
    """
    if pick_backend(pos.device) == "triton":
        import shots_triton as form
    else:
        import shots_native as form
    shots = [x.to(torch.float32).contiguous() for x in (*launch(pos, vel), target_pos, target_vel, turn, throttle)]
    return form.time_of_hit(*shots).to(turn)


class Envelope(NamedTuple):
    """The result of `envelope`, [P] each, 0 where there is no such range; in the order of CHANNELS."""

    r_max: Tensor  # m
    r_min: Tensor
    r_ne: Tensor
    time_quarter: Tensor  # s
    time_half: Tensor
    time_full: Tensor


def envelope(geometry: Geometry) -> Envelope:
    """Compute the envelope of P launch geometries by simulation; NaN where a geometry is not finite."""
    starts = range(0, max(len(geometry.own_speed), 1), CHUNK)
    parts = [_envelope(Geometry(*(x[first : first + CHUNK] for x in vars(geometry).values()))) for first in starts]
    return Envelope(*map(torch.cat, zip(*parts, strict=True)))


def make_table(
    own_speeds: int = 9, target_speeds: int = 9, bearings: int = 13, aspects: int = 33, device: str = "cpu"
) -> ReachTable:
    """Compute the table of a grid: about 30 million missiles for the shipped size."""
    size = (own_speeds, target_speeds, bearings, aspects)
    points = [x.flatten().to(device, torch.float32) for x in grid(*size)]
    return ReachTable(torch.stack(envelope(Geometry(*points))).reshape(-1, *size).cpu())


def save_table(table: ReachTable, path: Path = SHIPPED) -> None:
    """Write a table to a file."""
    np.savez_compressed(path, values=np.round(table.values.cpu().numpy() / UNITS).astype(np.uint16))


def grid(own_speeds: int, target_speeds: int, bearings: int, aspects: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return own speed, target speed (m/s), bearing and aspect (rad) of every grid point, float64."""
    low, high = SPEED_LIMITS_MPS
    even = partial(torch.linspace, dtype=torch.float64)
    speeds = even(low, high, own_speeds), even(low, high, target_speeds)
    angles = angle_of(even(0, 2, bearings)), angle_of(even(-2, 2, aspects))
    own, target, bearing, aspect = torch.meshgrid(*speeds, *angles, indexing="ij")
    return own, target, bearing, aspect


def angle_of(pseudo: Tensor) -> Tensor:
    """Return the angle (rad) of a pseudo-angle: the inverse of `pseudo_angle`."""
    cos = 1 - pseudo.abs()
    return torch.atan2(torch.sign(pseudo) * (1 - cos.abs()), cos)


def placed(geometry: Geometry, distance: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return positions and velocities [P, ..., 2] of shooter and target at ranges [P, ...]."""
    ones = [1] * (distance.dim() - 1)
    target_pos = _polar(distance, geometry.bearing.view(-1, *ones).expand_as(distance))
    vel = _polar(geometry.own_speed, torch.zeros_like(geometry.own_speed))
    target_vel = _polar(geometry.target_speed, geometry.bearing + math.pi - geometry.aspect)
    vel, target_vel = (v.view(-1, *ones, 2).expand_as(target_pos) for v in (vel, target_vel))
    return torch.zeros_like(target_pos), vel, target_pos, target_vel


def _polar(size: Tensor, angle: Tensor) -> Tensor:
    return torch.stack((size * torch.cos(angle), size * torch.sin(angle)), -1)


def _envelope(geometry: Geometry) -> Envelope:
    r_max, r_min = _straight(geometry)
    found = (r_max, r_min, _no_escape(geometry, r_max), *_times(geometry, r_max))
    known = (geometry.own_speed + geometry.target_speed + geometry.bearing + geometry.aspect).isfinite()
    return Envelope(*(torch.where(known, x, torch.nan) for x in found))


def _times(geometry: Geometry, r_max: Tensor) -> tuple[Tensor, ...]:
    """Return the flight times to targets that keep their velocity, from the TIMED_SHARES of r_max."""
    distance = torch.stack([share * r_max for share in TIMED_SHARES], 1)
    times = _flight_times(geometry, distance)
    # Where such a launch does not hit (usually too near), use a middling closing speed.
    times = torch.where(times.isfinite(), times, distance / MIDDLING_MPS)
    return torch.where(r_max[:, None] > 0, times, 0.0).unbind(1)


def _straight(geometry: Geometry) -> tuple[Tensor, Tensor]:
    """Return r_max and r_min: the last hit, and the last miss below it."""

    def hits(distance: Tensor) -> Tensor:
        return _flight_times(geometry, distance).isfinite()

    like: dict[str, Any] = {"dtype": geometry.own_speed.dtype, "device": geometry.own_speed.device}
    ranges = torch.logspace(math.log10(HIT_RADIUS_M), math.log10(FARTHEST_M), COARSE, **like)
    ranges = ranges.expand(len(geometry.own_speed), -1)
    flight = _flight_times(geometry, ranges)
    last = _last(flight.isfinite())
    r_max, _ = _edge(hits, *_around(ranges, last))
    close = _rough_places(ranges, flight)
    ranges, order = torch.cat((ranges, close), 1).sort(1)
    hit = torch.cat((flight.isfinite(), hits(close)), 1).gather(1, order)
    missed = _last(~hit & (ranges < SURE * r_max[:, None]))
    _, r_min = _edge(lambda x: ~hits(x), *_around(ranges, missed))
    beyond = r_min[:, None] * torch.linspace(1, FRAYED, CLOSE + 1, **like)
    frayed = _last(~hits(beyond) & (beyond < SURE * r_max[:, None]))
    r_min = torch.where(frayed < 0, r_min, _around(beyond, frayed)[1])
    r_min = torch.where(missed < 0, HIT_RADIUS_M, r_min)
    none = last < 0
    return r_max.masked_fill(none, 0.0), torch.minimum(r_min, r_max).masked_fill(none, 0.0)


def _rough_places(ranges: Tensor, flight: Tensor) -> Tensor:
    """Return more launches [P, ROUGH * CLOSE] to try, where the flight time is concave over the range.

    Normally flight times are convex over the range. Where they are not, the missile hits on another pass, or just after
    burn-out, and there may be launches that miss, in gaps of 3 % and more.
    """
    times = torch.where(flight.isfinite(), flight, 0.0)
    seen = flight.isfinite().unfold(1, 3, 1).all(-1)
    bend = torch.where(seen, times.diff(n=2, dim=1), torch.inf)
    at = bend.topk(ROUGH, dim=1, largest=False).indices  # of the first of three launches
    low, high = ranges.gather(1, at), ranges.gather(1, at + 2)
    shares = torch.linspace(0, 1, CLOSE + 2, dtype=ranges.dtype, device=ranges.device)[1:-1]
    return (low[..., None] + (high - low)[..., None] * shares).flatten(1)


def _no_escape(geometry: Geometry, r_max: Tensor) -> Tensor:
    """Return the far end of the widest interval from which every escape is hit."""
    like: dict[str, Any] = {"dtype": r_max.dtype, "device": r_max.device}
    turns = torch.linspace(-math.pi, math.pi, ESCAPES, **like)

    def all_hit(distance: Tensor) -> Tensor:
        each = distance[..., None].expand(*distance.shape, ESCAPES)
        return _flight_times(geometry, each, turns, throttle=1.0).isfinite().all(-1)

    shares = torch.logspace(math.log10(0.05), 0, ESCAPE_COARSE, **like)
    ranges = r_max.clamp(HIT_RADIUS_M, ESCAPE_FARTHEST_M)[:, None] * shares
    hit = all_hit(ranges)
    begins = hit & ~torch.nn.functional.pad(hit, (1, 0))[:, :-1]
    start = torch.where(begins, ranges, 0.0).cummax(1).values  # of the interval that holds each range
    width = torch.where(hit, ranges - NO_ESCAPE_DEPTH * start, -1.0)
    last = torch.where(hit.any(1), width.argmax(1), -1)
    r_ne, _ = _edge(all_hit, *_around(ranges, last), points=ESCAPE_FINE)
    deep = all_hit((NO_ESCAPE_DEPTH * r_ne)[:, None])[:, 0]
    return torch.where((last >= 0) & deep & (r_max > 0), r_ne, 0.0)


def _flight_times(geometry: Geometry, distance: Tensor, turns: Tensor | float = 0.0, throttle: float = HOLD) -> Tensor:
    """Return the flight times [P, ...] (s) of missiles launched from `distance`; by default at straight targets."""
    pos, vel, target_pos, target_vel = (x.reshape(-1, 2) for x in placed(geometry, distance))
    zero = torch.zeros_like(distance)
    shots = pos, vel, target_pos, target_vel, (zero + turns).flatten(), (zero + throttle).flatten()
    return time_of_hit(*shots).view(distance.shape)


def _last(true: Tensor) -> Tensor:
    """Return the index [P] of the last True of each row [P, K], or -1."""
    index = torch.arange(true.shape[1], device=true.device)
    return torch.where(true, index, -1).amax(1)


def _around(ranges: Tensor, last: Tensor) -> tuple[Tensor, Tensor]:
    """Return the range at `last` and the next one, [P] each."""
    low = ranges.gather(1, last.clamp(min=0)[:, None])
    high = ranges.gather(1, (last + 1).clamp(max=ranges.shape[1] - 1)[:, None])
    return low[:, 0], high[:, 0]


def _edge(true: Callable[[Tensor], Tensor], low: Tensor, high: Tensor, points: int = FINE) -> tuple[Tensor, Tensor]:
    """Narrow [P] brackets, where `true` holds at `low` and not at `high`. Returns the last range where it holds, and
    the next."""
    shares = torch.linspace(0, 1, points + 2, dtype=low.dtype, device=low.device)
    for _ in range(ROUNDS):
        ranges = low[:, None] + (high - low)[:, None] * shares
        inside = true(ranges[:, 1:-1])
        low, high = _around(ranges, _last(inside) + 1)
    return low, high


if __name__ == "__main__":  # writes the shipped table
    save_table(make_table(device="cuda" if torch.cuda.is_available() else "cpu"))
