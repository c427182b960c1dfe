"""One decision of all duels as a Triton kernel: commands, sub-steps, new starts, observation and facts.

It computes what `DuelEngine` computes, to float32 rounding. In the functions below `out` points to the rows of one
side's view, and `live` masks the duels that exist.
"""

from __future__ import annotations

import math

import torch
import triton
import triton.language as tl
from torch import Tensor

from slipstream.sim.random import LANE_STEP
from slipstream.tasks.aircombat.observation import (
    ABSENT,
    CLOSING_SCALE_MPS,
    POSITION_SCALE_M,
    RANGE_SCALE_M,
    SPEED_SCALE_MPS,
    TIME_SCALE_S,
    WIDTH,
)
from slipstream.tasks.aircombat.physics.duel import CARRIED, FIELD_M, HEAD_ON_MPS, HEAD_ON_X_M
from slipstream.tasks.aircombat.physics.engine import COMMAND_BOUNDS, COMMAND_SLACK, DuelConfig, DuelEngine
from slipstream.tasks.aircombat.physics.flight import (
    FIGHTER,
    HIT_RADIUS_M,
    LAUNCH_AHEAD_M,
    LEAST_SPEED_MPS,
    MISSILE,
    NAVIGATION_GAIN_S,
    SELF_DESTRUCT_MPS,
)
from slipstream.tasks.aircombat.reach.table import SPEED_LIMITS_MPS

LEAST = tl.constexpr(LEAST_SPEED_MPS)
TO_POSITION, TO_RANGE = tl.constexpr(1 / POSITION_SCALE_M), tl.constexpr(1 / RANGE_SCALE_M)
TO_SPEED, TO_CLOSING = tl.constexpr(1 / SPEED_SCALE_MPS), tl.constexpr(1 / CLOSING_SCALE_MPS)
TO_TIME, TO_SHARE = tl.constexpr(1 / TIME_SCALE_S), tl.constexpr(1 / CARRIED)
FAR = tl.constexpr(ABSENT[0])
SPEED_LOW, PER_SPEED = tl.constexpr(SPEED_LIMITS_MPS[0]), tl.constexpr(1 / (SPEED_LIMITS_MPS[1] - SPEED_LIMITS_MPS[0]))
WIDE = tl.constexpr(WIDTH)


@triton.jit
def speed_of(vx, vy):
    """Return the speed, at least LEAST."""
    return tl.maximum(tl.sqrt_rn(vx * vx + vy * vy), LEAST)


@triton.jit
def _pseudo_angle(cos, sin):
    share = 1.0 - cos / tl.maximum(tl.abs(cos) + tl.abs(sin), 1e-12)
    return tl.where(sin < 0, -share, share)


@triton.jit
def _place(share, count: tl.constexpr):
    """Return the grid point below, and the fraction of the way to the next."""
    place = tl.minimum(tl.maximum(share * (count - 1), 0.0), count - 1.0)
    first = tl.minimum(place.to(tl.int32), count - 2)
    return first, place - first.to(tl.float32)


@triton.jit
def _lookup(table, own, target, bearing, aspect, A: tl.constexpr, B: tl.constexpr, C: tl.constexpr, D: tl.constexpr):
    """Look up the first channel; see `ReachTable.lookup`."""
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
def write_facts(
    facts, n, num, live, side: tl.constexpr, winner, alive, enemy_alive, elapsed, step_s, shots, hits, was_hit, fired
):
    """Write one side's facts, in the order of FACTS."""
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
def write_view(
    out, live, table, x, y, vx, vy, tx, ty, tvx, tvy, left, in_flight, cool, rudder, time_left, alive, enemy_alive, going, per_cool,
    A: tl.constexpr, B: tl.constexpr, C: tl.constexpr, D: tl.constexpr,
):  # fmt: skip
    """Write one side's observation except incoming missiles. Returns its heading."""
    speed, their_speed = speed_of(vx, vy), speed_of(tvx, tvy)
    hx, hy, thx, thy = vx / speed, vy / speed, tvx / their_speed, tvy / their_speed
    ox, oy = tx - x, ty - y
    distance = tl.sqrt_rn(ox * ox + oy * oy)
    lx, ly = ox / tl.maximum(distance, LEAST), oy / tl.maximum(distance, LEAST)
    sin_b, cos_b = hx * ly - hy * lx, hx * lx + hy * ly
    sin_a, cos_a = thy * lx - thx * ly, -(thx * lx + thy * ly)
    reach = _lookup(table, speed, their_speed, _pseudo_angle(cos_b, sin_b), _pseudo_angle(cos_a, sin_a), A, B, C, D)
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
def write_absent(out, missing):
    """Write the row of a missile that does not exist."""
    for c in tl.static_range(7):
        value = FAR if c == 0 else (1.0 if c == 4 else 0.0)
        tl.store(out + c, value, mask=missing)


BLOCK, WARPS = 2, 1  # two duels of 16 missile slots fill the 32 threads of a warp: no barriers

F_DRAG, F_TURN, F_THRUST = map(tl.constexpr, (FIGHTER.drag, FIGHTER.turn_drag, FIGHTER.thrust_mps2))
M_DRAG, M_TURN, M_THRUST = map(tl.constexpr, (MISSILE.drag, MISSILE.turn_drag, MISSILE.thrust_mps2))
F_RADIUS, M_RADIUS = tl.constexpr(FIGHTER.min_radius_m), tl.constexpr(MISSILE.min_radius_m)
GAIN, AHEAD = tl.constexpr(NAVIGATION_GAIN_S), tl.constexpr(LAUNCH_AHEAD_M)
HIT_SQUARED, SLOW_SQUARED = tl.constexpr(HIT_RADIUS_M**2), tl.constexpr(SELF_DESTRUCT_MPS**2)
SLACK = tl.constexpr(COMMAND_SLACK)
RUDDER_LOW, RUDDER_HIGH = tl.constexpr(COMMAND_BOUNDS[0][0]), tl.constexpr(COMMAND_BOUNDS[0][1])
MOST = tl.constexpr(CARRIED)
SLOT_COUNT = tl.constexpr(2 * CARRIED)
COLUMNS = tl.constexpr(16)
HALF_COLUMNS = tl.constexpr(8)
MIDDLE, TURN = tl.constexpr(FIELD_M / 2), tl.constexpr(2 * math.pi)
HEAD_ON_1, HEAD_ON_2, HEAD_ON_V = tl.constexpr(HEAD_ON_X_M[0]), tl.constexpr(HEAD_ON_X_M[1]), tl.constexpr(HEAD_ON_MPS)
LANE = tl.constexpr(LANE_STEP)
INFINITE = tl.constexpr(1e30)


@triton.jit
def advance(
    vx, vy, rudder, thrust, drag: tl.constexpr, turn_drag: tl.constexpr, full: tl.constexpr, radius: tl.constexpr, dt
):
    """Return a body's new velocity; unchanged where `dt` is 0."""
    speed = speed_of(vx, vy)
    along = (full * thrust / speed - (drag + turn_drag * rudder * rudder) * speed) * dt
    across = speed * rudder * (dt * (1.0 / radius))
    return vx + along * vx - across * vy, vy + along * vy + across * vx


@triton.jit
def pronav(ox, oy, dx, dy, dt):
    """Return the rudder for a target at offset o that drifted by d in the last sub-step."""
    cross = ox * dy - oy * dx
    dot = ox * ox + oy * oy - (ox * dx + oy * dy)
    ahead = dot > tl.abs(cross)
    stop = tl.where(cross > 0, 0.5, tl.where(cross < 0, -0.5, 0.0))
    tangent = tl.where(ahead, cross / tl.where(ahead, dot, 1.0), stop)
    tangent = tl.minimum(tl.maximum(tangent, -0.5), 0.5)
    return tl.minimum(tl.maximum(tangent * (1.0 - tangent * tangent * (1.0 / 3.0)) * (GAIN / dt), -1.0), 1.0)


@triton.jit
def is_hit(ox, oy, dx, dy):
    """Return whether a target at offset o, which drifted by d in the last sub-step, came within the hit radius."""
    length = tl.maximum(dx * dx + dy * dy, 1e-12)
    back = tl.minimum(tl.maximum((ox * dx + oy * dy) / length, 0.0), 1.0)
    nx, ny = ox - back * dx, oy - back * dy
    return nx * nx + ny * ny <= HIT_SQUARED


@triton.jit
def _clip(x, low, high):
    """Return a command clipped to its bounds, and whether it was invalid."""
    slack = SLACK * (high - low)
    bad = ~((x >= low - slack) & (x <= high + slack))
    x = tl.where(tl.abs(x) < float("inf"), x, 0.0)
    return tl.minimum(tl.maximum(x, low), high), bad


@triton.jit
def _mix(x):
    x = (x ^ (x >> 16)) * 0x7FEB352D
    x = (x ^ (x >> 15)) * 0x846CA68B
    return x ^ (x >> 16)


@triton.jit
def _uniform(state, lane: tl.constexpr):
    return (_mix(state + ((lane * LANE) & 0xFFFFFFFF)) >> 8).to(tl.float32) * (2.0**-24)


@triton.jit
def _direction(share):
    """Return the unit vector at a share of a full turn."""
    angle = TURN * share
    return tl.cos(angle), tl.sin(angle)


@triton.jit
def _decide(
    command, resetting, bad, stream, episode, table,
    pos, vel, rudder, alive, left, cooldown, m_pos, m_vel, m_age, clock, winner, fired, shots, hits, view, facts,
    num, ticks, dt, limit, cool, burn, range_low, range_high, speed_low, speed_high, missiles_low, missiles_high,
    DRAWN: tl.constexpr, A: tl.constexpr, B: tl.constexpr, C: tl.constexpr, D: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    n = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    live = n < num
    column = tl.arange(0, COLUMNS)[None, :]
    first_side = column < HALF_COLUMNS  # a missile of side 1
    k = column % HALF_COLUMNS
    used = live[:, None] & (k < MOST)
    slot = n[:, None] * SLOT_COUNT + tl.where(first_side, k, k + MOST)

    resets = tl.load(resetting + n, mask=live, other=0) != 0
    at = command + n * 3
    r0, bad_a = _clip(tl.load(at, mask=live, other=0.0), RUDDER_LOW, RUDDER_HIGH)
    t0, bad_b = _clip(tl.load(at + 1, mask=live, other=0.0), 0.0, 1.0)
    f0, bad_c = _clip(tl.load(at + 2, mask=live, other=0.0), 0.0, 1.0)
    tl.store(bad + n, 1, mask=live & (bad_a | bad_b | bad_c))
    tl.store(at, r0, mask=live)
    tl.store(at + 1, t0, mask=live)
    tl.store(at + 2, f0, mask=live)
    at = command + (num + n) * 3
    r1, bad_a = _clip(tl.load(at, mask=live, other=0.0), RUDDER_LOW, RUDDER_HIGH)
    t1, bad_b = _clip(tl.load(at + 1, mask=live, other=0.0), 0.0, 1.0)
    f1, bad_c = _clip(tl.load(at + 2, mask=live, other=0.0), 0.0, 1.0)
    tl.store(bad + num + n, 1, mask=live & (bad_a | bad_b | bad_c))
    tl.store(at, r1, mask=live)
    tl.store(at + 1, t1, mask=live)
    tl.store(at + 2, f1, mask=live)

    x0, y0 = tl.load(pos + n * 4, mask=live, other=0.0), tl.load(pos + n * 4 + 1, mask=live, other=0.0)
    x1, y1 = tl.load(pos + n * 4 + 2, mask=live, other=1e6), tl.load(pos + n * 4 + 3, mask=live, other=0.0)
    vx0, vy0 = tl.load(vel + n * 4, mask=live, other=1.0), tl.load(vel + n * 4 + 1, mask=live, other=0.0)
    vx1, vy1 = tl.load(vel + n * 4 + 2, mask=live, other=1.0), tl.load(vel + n * 4 + 3, mask=live, other=0.0)
    rud0, rud1 = tl.load(rudder + n * 2, mask=live, other=0.0), tl.load(rudder + n * 2 + 1, mask=live, other=0.0)
    alive0 = tl.load(alive + n * 2, mask=live, other=1).to(tl.int32)
    alive1 = tl.load(alive + n * 2 + 1, mask=live, other=1).to(tl.int32)
    left0, left1 = tl.load(left + n * 2, mask=live, other=0), tl.load(left + n * 2 + 1, mask=live, other=0)
    cool0, cool1 = tl.load(cooldown + n * 2, mask=live, other=0), tl.load(cooldown + n * 2 + 1, mask=live, other=0)
    fired0, fired1 = tl.load(fired + n * 2, mask=live, other=0), tl.load(fired + n * 2 + 1, mask=live, other=0)
    time = tl.load(clock + n, mask=live, other=0)
    won = tl.load(winner + n, mask=live, other=0)
    mx, my = tl.load(m_pos + slot * 2, mask=used, other=0.0), tl.load(m_pos + slot * 2 + 1, mask=used, other=0.0)
    mvx, mvy = tl.load(m_vel + slot * 2, mask=used, other=0.0), tl.load(m_vel + slot * 2 + 1, mask=used, other=0.0)
    age = tl.load(m_age + slot, mask=used, other=-1)
    before = time
    shots0, shots1, hits0, hits1 = left0 * 0, left0 * 0, left0 * 0, left0 * 0

    for _ in range(ticks):
        going = (won < 0) & ~resets
        flow = tl.where(going, dt, 0.0)  # no time passes where the duel is over
        # fire
        fires0 = going & (f0 > 0.5) & (left0 > 0) & (cool0 == 0)
        fires1 = going & (f1 > 0.5) & (left1 > 0) & (cool1 == 0)
        ahead0, ahead1 = AHEAD / speed_of(vx0, vy0), AHEAD / speed_of(vx1, vy1)
        fresh = tl.where(
            first_side, fires0[:, None] & (k == MOST - left0[:, None]), fires1[:, None] & (k == MOST - left1[:, None])
        )
        own_vx, own_vy = (
            tl.where(first_side, vx0[:, None], vx1[:, None]),
            tl.where(first_side, vy0[:, None], vy1[:, None]),
        )
        launch_x = tl.where(first_side, (x0 + vx0 * ahead0)[:, None], (x1 + vx1 * ahead1)[:, None])
        launch_y = tl.where(first_side, (y0 + vy0 * ahead0)[:, None], (y1 + vy1 * ahead1)[:, None])
        mx, my = tl.where(fresh, launch_x, mx), tl.where(fresh, launch_y, my)
        mvx, mvy = tl.where(fresh, own_vx, mvx), tl.where(fresh, own_vy, mvy)
        age = tl.where(fresh, 0, age)
        left0 -= fires0.to(tl.int32)
        left1 -= fires1.to(tl.int32)
        cool0, cool1 = tl.where(fires0, cool, cool0), tl.where(fires1, cool, cool1)
        fired0 += fires0.to(tl.int32)
        fired1 += fires1.to(tl.int32)
        shots0 += fires0.to(tl.int32)
        shots1 += fires1.to(tl.int32)
        # guide
        tx, ty = tl.where(first_side, x1[:, None], x0[:, None]), tl.where(first_side, y1[:, None], y0[:, None])
        tvx, tvy = tl.where(first_side, vx1[:, None], vx0[:, None]), tl.where(first_side, vy1[:, None], vy0[:, None])
        steer = pronav(tx - mx, ty - my, (tvx - mvx) * dt, (tvy - mvy) * dt, dt)
        steer = tl.where(age > 0, steer, 0.0)
        # move
        flies = (age >= 0) & going[:, None]
        burns = tl.where(age < burn, 1.0, 0.0)
        m_flow = tl.where(flies, dt, 0.0)
        mvx, mvy = advance(mvx, mvy, steer, burns, M_DRAG, M_TURN, M_THRUST, M_RADIUS, m_flow)
        mx += mvx * m_flow
        my += mvy * m_flow
        age += flies.to(tl.int32)
        vx0, vy0 = advance(vx0, vy0, r0, t0, F_DRAG, F_TURN, F_THRUST, F_RADIUS, flow)
        vx1, vy1 = advance(vx1, vy1, r1, t1, F_DRAG, F_TURN, F_THRUST, F_RADIUS, flow)
        x0 += vx0 * flow
        y0 += vy0 * flow
        x1 += vx1 * flow
        y1 += vy1 * flow
        rud0, rud1 = tl.where(going, r0, rud0), tl.where(going, r1, rud1)
        cool0 = tl.where(going, tl.maximum(cool0 - 1, 0), cool0)
        cool1 = tl.where(going, tl.maximum(cool1 - 1, 0), cool1)
        time += going.to(tl.int32)
        # events
        tx, ty = tl.where(first_side, x1[:, None], x0[:, None]), tl.where(first_side, y1[:, None], y0[:, None])
        tvx, tvy = tl.where(first_side, vx1[:, None], vx0[:, None]), tl.where(first_side, vy1[:, None], vy0[:, None])
        hit = flies & is_hit(tx - mx, ty - my, (tvx - mvx) * dt, (tvy - mvy) * dt)
        too_slow = flies & (age >= burn) & (mvx * mvx + mvy * mvy < SLOW_SQUARED)
        age = tl.where(hit | too_slow, -1, age)
        # one reduction for all: hits of side 1, hits of side 2, missiles in flight, in fields of 8 bits
        counts = tl.sum(tl.where(hit, tl.where(first_side, 1, 256), 0) + tl.where(age >= 0, 65536, 0), 1)
        kills0, kills1, flying = (counts & 255) > 0, ((counts >> 8) & 255) > 0, counts >> 16
        hits0 += kills0.to(tl.int32)
        hits1 += kills1.to(tl.int32)
        alive0, alive1 = tl.where(kills1, 0, alive0), tl.where(kills0, 0, alive1)
        draw = (left0 + left1 + flying == 0) | (time >= limit)
        result = tl.where((alive0 + alive1) == 2, tl.where(draw, 0, -1), alive0 + 2 * alive1)
        won = tl.where(going, result, won)

    if tl.max(resets.to(tl.int32), 0) > 0:
        began = tl.load(episode + n, mask=live, other=0)
        tl.store(episode + n, began + 1, mask=live & resets)
        if DRAWN:
            state = _mix(tl.load(stream + n, mask=live, other=0).to(tl.uint32) ^ began.to(tl.uint32))
            half = (range_low + (range_high - range_low) * _uniform(state, 0)) * 0.5
            line_x, line_y = _direction(_uniform(state, 1))
            nose0_x, nose0_y = _direction(_uniform(state, 2))
            nose1_x, nose1_y = _direction(_uniform(state, 3))
            ox, oy = half * line_x, half * line_y
            speed0 = speed_low + (speed_high - speed_low) * _uniform(state, 4)
            speed1 = speed_low + (speed_high - speed_low) * _uniform(state, 5)
            choices = missiles_high - missiles_low + 1
            x0, y0 = tl.where(resets, MIDDLE - ox, x0), tl.where(resets, MIDDLE - oy, y0)
            x1, y1 = tl.where(resets, MIDDLE + ox, x1), tl.where(resets, MIDDLE + oy, y1)
            vx0, vy0 = tl.where(resets, speed0 * nose0_x, vx0), tl.where(resets, speed0 * nose0_y, vy0)
            vx1, vy1 = tl.where(resets, speed1 * nose1_x, vx1), tl.where(resets, speed1 * nose1_y, vy1)
            left0 = tl.where(resets, missiles_low + (_uniform(state, 6) * choices).to(tl.int32), left0)
            left1 = tl.where(resets, missiles_low + (_uniform(state, 7) * choices).to(tl.int32), left1)
        else:
            x0, y0 = tl.where(resets, HEAD_ON_1, x0), tl.where(resets, MIDDLE, y0)
            x1, y1 = tl.where(resets, HEAD_ON_2, x1), tl.where(resets, MIDDLE, y1)
            vx0, vy0 = tl.where(resets, HEAD_ON_V, vx0), tl.where(resets, 0.0, vy0)
            vx1, vy1 = tl.where(resets, -HEAD_ON_V, vx1), tl.where(resets, 0.0, vy1)
            left0, left1 = tl.where(resets, MOST, left0), tl.where(resets, MOST, left1)
        rud0, rud1 = tl.where(resets, 0.0, rud0), tl.where(resets, 0.0, rud1)
        alive0, alive1 = tl.where(resets, 1, alive0), tl.where(resets, 1, alive1)
        cool0, cool1 = tl.where(resets, 0, cool0), tl.where(resets, 0, cool1)
        fired0, fired1 = tl.where(resets, 0, fired0), tl.where(resets, 0, fired1)
        time, won = tl.where(resets, 0, time), tl.where(resets, -1, won)
        restarted = resets[:, None]
        mx, my, age = tl.where(restarted, 0.0, mx), tl.where(restarted, 0.0, my), tl.where(restarted, -1, age)
        mvx, mvy = tl.where(restarted, 0.0, mvx), tl.where(restarted, 0.0, mvy)

    tl.store(pos + n * 4, x0, mask=live)
    tl.store(pos + n * 4 + 1, y0, mask=live)
    tl.store(pos + n * 4 + 2, x1, mask=live)
    tl.store(pos + n * 4 + 3, y1, mask=live)
    tl.store(vel + n * 4, vx0, mask=live)
    tl.store(vel + n * 4 + 1, vy0, mask=live)
    tl.store(vel + n * 4 + 2, vx1, mask=live)
    tl.store(vel + n * 4 + 3, vy1, mask=live)
    tl.store(rudder + n * 2, rud0, mask=live)
    tl.store(rudder + n * 2 + 1, rud1, mask=live)
    tl.store(alive + n * 2, alive0.to(tl.uint8), mask=live)
    tl.store(alive + n * 2 + 1, alive1.to(tl.uint8), mask=live)
    tl.store(left + n * 2, left0, mask=live)
    tl.store(left + n * 2 + 1, left1, mask=live)
    tl.store(cooldown + n * 2, cool0, mask=live)
    tl.store(cooldown + n * 2 + 1, cool1, mask=live)
    tl.store(fired + n * 2, fired0, mask=live)
    tl.store(fired + n * 2 + 1, fired1, mask=live)
    tl.store(shots + n * 2, shots0, mask=live)
    tl.store(shots + n * 2 + 1, shots1, mask=live)
    tl.store(hits + n * 2, hits0, mask=live)
    tl.store(hits + n * 2 + 1, hits1, mask=live)
    tl.store(clock + n, time, mask=live)
    tl.store(winner + n, won, mask=live)
    tl.store(m_pos + slot * 2, mx, mask=used)
    tl.store(m_pos + slot * 2 + 1, my, mask=used)
    tl.store(m_vel + slot * 2, mvx, mask=used)
    tl.store(m_vel + slot * 2 + 1, mvy, mask=used)
    tl.store(m_age + slot, age, mask=used)

    elapsed, step_s = time.to(tl.float32) * dt, tl.maximum(time - before, 0).to(tl.float32) * dt
    write_facts(facts, n, num, live, 0, won, alive0, alive1, elapsed, step_s, shots0, hits0, hits1, fired0)
    write_facts(facts, n, num, live, 1, won, alive1, alive0, elapsed, step_s, shots1, hits1, hits0, fired1)

    counts = tl.sum(tl.where(age >= 0, tl.where(first_side, 1, 256), 0), 1)
    time_left, per_cool, going = (limit - time).to(tl.float32) * (dt * TO_TIME), 1.0 / cool, won < 0
    out0, out1 = view + n * WIDE, view + (num + n) * WIDE
    hx0, hy0 = write_view(
        out0, live, table, x0, y0, vx0, vy0, x1, y1, vx1, vy1,
        left0, counts & 255, cool0, rud0, time_left, alive0, alive1, going, per_cool, A, B, C, D,
    )  # fmt: skip
    hx1, hy1 = write_view(
        out1, live, table, x1, y1, vx1, vy1, x0, y0, vx0, vy0,
        left1, counts >> 8, cool1, rud1, time_left, alive1, alive0, going, per_cool, A, B, C, D,
    )  # fmt: skip
    # Incoming missiles: each missile computes its row; the two nearest write theirs.
    tx, ty = tl.where(first_side, x1[:, None], x0[:, None]), tl.where(first_side, y1[:, None], y0[:, None])
    tvx, tvy = tl.where(first_side, vx1[:, None], vx0[:, None]), tl.where(first_side, vy1[:, None], vy0[:, None])
    hx, hy = tl.where(first_side, hx1[:, None], hx0[:, None]), tl.where(first_side, hy1[:, None], hy0[:, None])
    ox, oy = mx - tx, my - ty
    square = ox * ox + oy * oy
    distance = tl.sqrt_rn(square)
    lx, ly = ox / tl.maximum(distance, LEAST), oy / tl.maximum(distance, LEAST)
    closing = (tvx - mvx) * lx + (tvy - mvy) * ly
    to_go = tl.where(closing > 0, tl.minimum(distance / tl.maximum(closing, LEAST) * TO_TIME, 1.0), 1.0)
    for side in tl.static_range(2):
        out = out0 if side == 0 else out1
        comes = (age >= 0) & (first_side if side == 1 else column >= HALF_COLUMNS)
        order = tl.where(comes, square, INFINITE)
        for rank in tl.static_range(2):
            nearest = tl.argmin(order, 1)[:, None]
            chosen = comes & (column == nearest) & (order < INFINITE)
            row = out[:, None] + 20 + 7 * rank + column * 0
            tl.store(row, distance * TO_RANGE, mask=chosen & used)
            tl.store(row + 1, hx * ly - hy * lx, mask=chosen & used)
            tl.store(row + 2, hx * lx + hy * ly, mask=chosen & used)
            tl.store(row + 3, closing * TO_CLOSING, mask=chosen & used)
            tl.store(row + 4, to_go, mask=chosen & used)
            tl.store(row + 5, tl.where(age < burn, 1.0, 0.0), mask=chosen & used)
            tl.store(row + 6, closing * 0.0 + 1.0, mask=chosen & used)
            write_absent(out + 20 + 7 * rank, live & (tl.min(order, 1) >= INFINITE))
            order = tl.where(chosen, INFINITE, order)


class TritonEngine(DuelEngine):
    """`DuelEngine` for CUDA tensors."""

    backend = "triton"

    def __init__(self, num: int, config: DuelConfig, seed: int, device: torch.device | str = "cuda") -> None:
        super().__init__(num, config, seed, device)
        self._stream = self.random.stream.contiguous()
        self._bad = self.bad.view(torch.uint8)
        self._table = self.table.values[0].contiguous()
        state = self.duels.tensors() | {"alive": self.duels.alive.view(torch.uint8)}
        self._state = tuple(state.values())
        starts = config.starts
        self._limits = (*starts.range_m, *starts.speed_mps, *starts.missiles)

    # already one kernel; it writes bytes that are bools under other names, which compilers cannot follow
    @torch.compiler.disable
    def step(self, command: Tensor, resetting: Tensor, ticks: int | None = None) -> None:
        """Advance by one decision; see `DuelEngine.step`."""
        rules = self.rules
        a, b, c, d = self._table.shape
        _decide[(triton.cdiv(self.num, BLOCK),)](
            command, resetting.view(torch.uint8), self._bad, self._stream, self.episode, self._table, *self._state, self.view, self.facts,
            self.num, self.ticks if ticks is None else ticks, rules.dt_s, rules.limit, rules.cooldown, rules.burn, *self._limits,
            DRAWN=self.config.start == "random", A=a, B=b, C=c, D=d, BLOCK=BLOCK, num_warps=WARPS,
        )  # fmt: skip
