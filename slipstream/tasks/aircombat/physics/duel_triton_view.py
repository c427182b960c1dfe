"""What the sides see and are told, for the kernel of `duel_triton`: `duel_view`, `ReachTable.lookup` and the facts of a step.

`out` are pointers to the rows of one side's view, `live` masks the duels that exist.
"""

from __future__ import annotations

import triton
import triton.language as tl

from slipstream.tasks.aircombat.observation import (
    ABSENT,
    CLOSING_SCALE_MPS,
    POSITION_SCALE_M,
    RANGE_SCALE_M,
    SPEED_SCALE_MPS,
    TIME_SCALE_S,
    WIDTH,
)
from slipstream.tasks.aircombat.physics.airframe import LEAST_SPEED_MPS
from slipstream.tasks.aircombat.physics.duel import CARRIED
from slipstream.tasks.aircombat.reach.reach_table import SPEED_LIMITS_MPS

LEAST = tl.constexpr(LEAST_SPEED_MPS)
TO_POSITION, TO_RANGE, TO_SPEED = (
    tl.constexpr(1 / POSITION_SCALE_M),
    tl.constexpr(1 / RANGE_SCALE_M),
    tl.constexpr(1 / SPEED_SCALE_MPS),
)
TO_CLOSING, TO_TIME, TO_SHARE = (
    tl.constexpr(1 / CLOSING_SCALE_MPS),
    tl.constexpr(1 / TIME_SCALE_S),
    tl.constexpr(1 / CARRIED),
)
FAR = tl.constexpr(ABSENT[0])
SPEED_LOW, PER_SPEED = tl.constexpr(SPEED_LIMITS_MPS[0]), tl.constexpr(1 / (SPEED_LIMITS_MPS[1] - SPEED_LIMITS_MPS[0]))
WIDE = tl.constexpr(WIDTH)


@triton.jit
def speed_of(vx, vy):
    """Never quite zero."""
    return tl.maximum(tl.sqrt_rn(vx * vx + vy * vy), LEAST)


@triton.jit
def _pseudo_angle(cos, sin):
    share = 1.0 - cos / tl.maximum(tl.abs(cos) + tl.abs(sin), 1e-12)
    return tl.where(sin < 0, -share, share)


@triton.jit
def _place(share, count: tl.constexpr):
    """The grid point below, and the part of the way to the next."""
    place = tl.minimum(tl.maximum(share * (count - 1), 0.0), count - 1.0)
    first = tl.minimum(place.to(tl.int32), count - 2)
    return first, place - first.to(tl.float32)


@triton.jit
def _reach(table, own, target, bearing, aspect, A: tl.constexpr, B: tl.constexpr, C: tl.constexpr, D: tl.constexpr):
    """`ReachTable.lookup` of the first channel."""
    aspect = tl.where(bearing < 0, -aspect, aspect)
    a, fa = _place((own - SPEED_LOW) * PER_SPEED, A)
    b, fb = _place((target - SPEED_LOW) * PER_SPEED, B)
    c, fc = _place(tl.abs(bearing) * 0.5, C)
    d, fd = _place((aspect + 2.0) * 0.25, D)
    total = own * 0.0
    for i in tl.static_range(2):
        wi = fa if i else 1.0 - fa
        for j in tl.static_range(2):
            wj = wi * (fb if j else 1.0 - fb)
            for k in tl.static_range(2):
                row = table + (((a + i) * B + b + j) * C + c + k) * D + d
                wk = wj * (fc if k else 1.0 - fc)
                total += wk * ((1.0 - fd) * tl.load(row) + fd * tl.load(row + 1))
    return total


@triton.jit
def tell(
    facts, n, num, live, side: tl.constexpr, winner, alive, enemy_alive, elapsed, step_s, shots, hits, was_hit, fired
):
    """One side's facts, in the order of FACTS."""
    at = facts + side * num + n
    tl.store(at, (winner == side + 1).to(tl.float32), mask=live)
    tl.store(at + 2 * num, (winner == 2 - side).to(tl.float32), mask=live)
    tl.store(at + 4 * num, (winner == 0).to(tl.float32), mask=live)
    tl.store(at + 6 * num, winner.to(tl.float32), mask=live)
    tl.store(at + 8 * num, alive.to(tl.float32), mask=live)
    tl.store(at + 10 * num, enemy_alive.to(tl.float32), mask=live)
    tl.store(at + 12 * num, elapsed, mask=live)
    tl.store(at + 14 * num, step_s, mask=live)
    tl.store(at + 16 * num, shots.to(tl.float32), mask=live)
    tl.store(at + 18 * num, hits.to(tl.float32), mask=live)
    tl.store(at + 20 * num, was_hit.to(tl.float32), mask=live)
    tl.store(at + 22 * num, fired.to(tl.float32), mask=live)


@triton.jit
def look(
    out, live, table, x, y, vx, vy, tx, ty, tvx, tvy, left, in_flight, cool, rudder, time_left, alive, enemy_alive, going, per_cool,
    A: tl.constexpr, B: tl.constexpr, C: tl.constexpr, D: tl.constexpr,
):  # fmt: skip
    """What one side sees, but for incoming missiles; gives its heading."""
    speed, their_speed = speed_of(vx, vy), speed_of(tvx, tvy)
    hx, hy, thx, thy = vx / speed, vy / speed, tvx / their_speed, tvy / their_speed
    ox, oy = tx - x, ty - y
    distance = tl.sqrt_rn(ox * ox + oy * oy)
    lx, ly = ox / tl.maximum(distance, LEAST), oy / tl.maximum(distance, LEAST)
    sin_b, cos_b = hx * ly - hy * lx, hx * lx + hy * ly
    sin_a, cos_a = thy * lx - thx * ly, -(thx * lx + thy * ly)
    reach = _reach(table, speed, their_speed, _pseudo_angle(cos_b, sin_b), _pseudo_angle(cos_a, sin_a), A, B, C, D)
    tl.store(out, x * TO_POSITION - 1.0, mask=live)
    tl.store(out + 1, y * TO_POSITION - 1.0, mask=live)
    tl.store(out + 2, hy, mask=live)
    tl.store(out + 3, hx, mask=live)
    tl.store(out + 4, speed * TO_SPEED, mask=live)
    tl.store(out + 5, left.to(tl.float32) * TO_SHARE, mask=live)
    tl.store(out + 6, in_flight.to(tl.float32) * TO_SHARE, mask=live)
    tl.store(out + 7, cool.to(tl.float32) * per_cool, mask=live)
    tl.store(out + 8, rudder, mask=live)
    tl.store(out + 9, time_left, mask=live)
    tl.store(out + 10, alive.to(tl.float32), mask=live)
    tl.store(out + 11, distance * TO_RANGE, mask=live)
    tl.store(out + 12, sin_b, mask=live)
    tl.store(out + 13, cos_b, mask=live)
    tl.store(out + 14, sin_a, mask=live)
    tl.store(out + 15, cos_a, mask=live)
    tl.store(out + 16, ((vx - tvx) * lx + (vy - tvy) * ly) * TO_CLOSING, mask=live)
    tl.store(out + 17, their_speed * TO_SPEED, mask=live)
    tl.store(out + 18, reach * TO_RANGE, mask=live)
    tl.store(out + 19, enemy_alive.to(tl.float32), mask=live)
    ready = going & (alive != 0) & (left > 0) & (cool == 0)
    tl.store(out + 34, ready.to(tl.float32), mask=live)
    return hx, hy


@triton.jit
def absent(out, missing):
    """The row of a missile that is not there."""
    for c in tl.static_range(7):
        value = FAR if c == 0 else (1.0 if c == 4 else 0.0)
        tl.store(out + c, value, mask=missing)
