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

from slipstream.sim.random_triton import mix, uniform
from slipstream.tasks.aircombat import observation as obs
from slipstream.tasks.aircombat.physics import flight
from slipstream.tasks.aircombat.physics.duel import CARRIED, FIELD_M, HEAD_ON_MPS, HEAD_ON_X_M
from slipstream.tasks.aircombat.physics.engine import COMMAND_BOUNDS, COMMAND_SLACK, DuelConfig, DuelEngine
from slipstream.tasks.aircombat.physics.flight import FIGHTER, MISSILE
from slipstream.tasks.aircombat.reach.table import SPEED_LIMITS_MPS

LEAST = tl.constexpr(flight.LEAST_SPEED_MPS)
TO_POSITION, TO_RANGE = tl.constexpr(1 / obs.POSITION_SCALE_M), tl.constexpr(1 / obs.RANGE_SCALE_M)
TO_SPEED, TO_CLOSING = tl.constexpr(1 / obs.SPEED_SCALE_MPS), tl.constexpr(1 / obs.CLOSING_SCALE_MPS)
TO_TIME, TO_SHARE = tl.constexpr(1 / obs.TIME_SCALE_S), tl.constexpr(1 / CARRIED)
FAR = tl.constexpr(obs.ABSENT[0])
SPEED_LOW, PER_SPEED = tl.constexpr(SPEED_LIMITS_MPS[0]), tl.constexpr(1 / (SPEED_LIMITS_MPS[1] - SPEED_LIMITS_MPS[0]))
WIDE = tl.constexpr(obs.WIDTH)


@triton.jit
def speed_of(vx, vy):
    """Return the speed, at least LEAST."""
    return tl.maximum(tl.sqrt_rn(vx * vx + vy * vy), LEAST)


@triton.jit
def load_pair(at, live, first_other, other):
    """Return the numbers at `at` and behind it; the others where not `live`."""
    return tl.load(at, mask=live, other=first_other), tl.load(at + 1, mask=live, other=other)


@triton.jit
def _store_pair(at, one, two, live):
    tl.store(at, one, mask=live)
    tl.store(at + 1, two, mask=live)


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
    _store_pair(out, x * TO_POSITION - 1.0, y * TO_POSITION - 1.0, live)
    _store_pair(out + 2, hy, hx, live)
    _store_pair(out + 4, speed * TO_SPEED, left.to(tl.float32) * TO_SHARE, live)
    _store_pair(out + 6, in_flight.to(tl.float32) * TO_SHARE, cool.to(tl.float32) * per_cool, live)
    _store_pair(out + 8, rudder, time_left, live)
    _store_pair(out + 10, alive.to(tl.float32), distance * TO_RANGE, live)
    _store_pair(out + 12, sin_b, cos_b, live)
    _store_pair(out + 14, sin_a, cos_a, live)
    _store_pair(out + 16, ((vx - tvx) * lx + (vy - tvy) * ly) * TO_CLOSING, their_speed * TO_SPEED, live)
    _store_pair(out + 18, reach * TO_RANGE, enemy_alive.to(tl.float32), live)
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
GAIN, AHEAD = tl.constexpr(flight.NAVIGATION_GAIN_S), tl.constexpr(flight.LAUNCH_AHEAD_M)
HIT_SQUARED, SLOW_SQUARED = tl.constexpr(flight.HIT_RADIUS_M**2), tl.constexpr(flight.SELF_DESTRUCT_MPS**2)
SLACK = tl.constexpr(COMMAND_SLACK)
RUDDER_LOW, RUDDER_HIGH = tl.constexpr(COMMAND_BOUNDS[0][0]), tl.constexpr(COMMAND_BOUNDS[0][1])
MOST = tl.constexpr(CARRIED)
SLOT_COUNT = tl.constexpr(2 * CARRIED)
COLUMNS = tl.constexpr(16)
HALF_COLUMNS = tl.constexpr(8)
MIDDLE, TURN = tl.constexpr(FIELD_M / 2), tl.constexpr(2 * math.pi)
HEAD_ON_1, HEAD_ON_2, HEAD_ON_V = tl.constexpr(HEAD_ON_X_M[0]), tl.constexpr(HEAD_ON_X_M[1]), tl.constexpr(HEAD_ON_MPS)
INFINITE = tl.constexpr(1e30)


@triton.jit
def _advance(
    vx, vy, rudder, thrust, drag: tl.constexpr, turn_drag: tl.constexpr, full: tl.constexpr, radius: tl.constexpr, dt
):
    speed = speed_of(vx, vy)
    along = (full * thrust / speed - (drag + turn_drag * rudder * rudder) * speed) * dt
    across = speed * rudder * (dt * (1.0 / radius))
    return vx + along * vx - across * vy, vy + along * vy + across * vx


@triton.jit
def advance_fighter(vx, vy, rudder, throttle, dt):
    """Return a fighter's new velocity; unchanged where `dt` is 0."""
    return _advance(vx, vy, rudder, throttle, F_DRAG, F_TURN, F_THRUST, F_RADIUS, dt)


@triton.jit
def advance_missile(vx, vy, rudder, thrust, dt):
    """Return a missile's new velocity; unchanged where `dt` is 0."""
    return _advance(vx, vy, rudder, thrust, M_DRAG, M_TURN, M_THRUST, M_RADIUS, dt)


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
def _take_command(at, bad, live):
    """Return rudder, throttle and fire of one side; clips them in place and flags invalid ones in `bad`."""
    rudder, bad_rudder = _clip(tl.load(at, mask=live, other=0.0), RUDDER_LOW, RUDDER_HIGH)
    throttle, bad_throttle = _clip(tl.load(at + 1, mask=live, other=0.0), 0.0, 1.0)
    fire, bad_fire = _clip(tl.load(at + 2, mask=live, other=0.0), 0.0, 1.0)
    tl.store(bad, 1, mask=live & (bad_rudder | bad_throttle | bad_fire))
    tl.store(at, rudder, mask=live)
    _store_pair(at + 1, throttle, fire, live)
    return rudder, throttle, fire


@triton.jit
def _by_side(first_side, one, two):
    """Return per missile [duels, slots] the value of side 1 or side 2 [duels]."""
    return tl.where(first_side, one[:, None], two[:, None])


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
    r0, t0, f0 = _take_command(command + n * 3, bad + n, live)
    r1, t1, f1 = _take_command(command + (num + n) * 3, bad + num + n, live)

    x0, y0 = load_pair(pos + n * 4, live, 0.0, 0.0)
    x1, y1 = load_pair(pos + n * 4 + 2, live, 1e6, 0.0)
    vx0, vy0 = load_pair(vel + n * 4, live, 1.0, 0.0)
    vx1, vy1 = load_pair(vel + n * 4 + 2, live, 1.0, 0.0)
    rud0, rud1 = load_pair(rudder + n * 2, live, 0.0, 0.0)
    alive0, alive1 = load_pair(alive + n * 2, live, 1, 1)
    alive0, alive1 = alive0.to(tl.int32), alive1.to(tl.int32)
    left0, left1 = load_pair(left + n * 2, live, 0, 0)
    cool0, cool1 = load_pair(cooldown + n * 2, live, 0, 0)
    fired0, fired1 = load_pair(fired + n * 2, live, 0, 0)
    time = tl.load(clock + n, mask=live, other=0)
    won = tl.load(winner + n, mask=live, other=0)
    mx, my = load_pair(m_pos + slot * 2, used, 0.0, 0.0)
    mvx, mvy = load_pair(m_vel + slot * 2, used, 0.0, 0.0)
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
        own_vx, own_vy = _by_side(first_side, vx0, vx1), _by_side(first_side, vy0, vy1)
        launch_x = _by_side(first_side, x0 + vx0 * ahead0, x1 + vx1 * ahead1)
        launch_y = _by_side(first_side, y0 + vy0 * ahead0, y1 + vy1 * ahead1)
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
        tx, ty = _by_side(first_side, x1, x0), _by_side(first_side, y1, y0)
        tvx, tvy = _by_side(first_side, vx1, vx0), _by_side(first_side, vy1, vy0)
        steer = pronav(tx - mx, ty - my, (tvx - mvx) * dt, (tvy - mvy) * dt, dt)
        steer = tl.where(age > 0, steer, 0.0)
        # move
        flies = (age >= 0) & going[:, None]
        burns = tl.where(age < burn, 1.0, 0.0)
        m_flow = tl.where(flies, dt, 0.0)
        mvx, mvy = advance_missile(mvx, mvy, steer, burns, m_flow)
        mx += mvx * m_flow
        my += mvy * m_flow
        age += flies.to(tl.int32)
        vx0, vy0 = advance_fighter(vx0, vy0, r0, t0, flow)
        vx1, vy1 = advance_fighter(vx1, vy1, r1, t1, flow)
        x0 += vx0 * flow
        y0 += vy0 * flow
        x1 += vx1 * flow
        y1 += vy1 * flow
        rud0, rud1 = tl.where(going, r0, rud0), tl.where(going, r1, rud1)
        cool0 = tl.where(going, tl.maximum(cool0 - 1, 0), cool0)
        cool1 = tl.where(going, tl.maximum(cool1 - 1, 0), cool1)
        time += going.to(tl.int32)
        # events
        tx, ty = _by_side(first_side, x1, x0), _by_side(first_side, y1, y0)
        tvx, tvy = _by_side(first_side, vx1, vx0), _by_side(first_side, vy1, vy0)
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
            state = mix(tl.load(stream + n, mask=live, other=0).to(tl.uint32) ^ began.to(tl.uint32))
            half = (range_low + (range_high - range_low) * uniform(state, 0)) * 0.5
            line_x, line_y = _direction(uniform(state, 1))
            nose0_x, nose0_y = _direction(uniform(state, 2))
            nose1_x, nose1_y = _direction(uniform(state, 3))
            ox, oy = half * line_x, half * line_y
            speed0 = speed_low + (speed_high - speed_low) * uniform(state, 4)
            speed1 = speed_low + (speed_high - speed_low) * uniform(state, 5)
            choices = missiles_high - missiles_low + 1
            x0, y0 = tl.where(resets, MIDDLE - ox, x0), tl.where(resets, MIDDLE - oy, y0)
            x1, y1 = tl.where(resets, MIDDLE + ox, x1), tl.where(resets, MIDDLE + oy, y1)
            vx0, vy0 = tl.where(resets, speed0 * nose0_x, vx0), tl.where(resets, speed0 * nose0_y, vy0)
            vx1, vy1 = tl.where(resets, speed1 * nose1_x, vx1), tl.where(resets, speed1 * nose1_y, vy1)
            left0 = tl.where(resets, missiles_low + (uniform(state, 6) * choices).to(tl.int32), left0)
            left1 = tl.where(resets, missiles_low + (uniform(state, 7) * choices).to(tl.int32), left1)
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

    _store_pair(pos + n * 4, x0, y0, live)
    _store_pair(pos + n * 4 + 2, x1, y1, live)
    _store_pair(vel + n * 4, vx0, vy0, live)
    _store_pair(vel + n * 4 + 2, vx1, vy1, live)
    _store_pair(rudder + n * 2, rud0, rud1, live)
    _store_pair(alive + n * 2, alive0.to(tl.uint8), alive1.to(tl.uint8), live)
    _store_pair(left + n * 2, left0, left1, live)
    _store_pair(cooldown + n * 2, cool0, cool1, live)
    _store_pair(fired + n * 2, fired0, fired1, live)
    _store_pair(shots + n * 2, shots0, shots1, live)
    _store_pair(hits + n * 2, hits0, hits1, live)
    tl.store(clock + n, time, mask=live)
    tl.store(winner + n, won, mask=live)
    _store_pair(m_pos + slot * 2, mx, my, used)
    _store_pair(m_vel + slot * 2, mvx, mvy, used)
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
    tx, ty = _by_side(first_side, x1, x0), _by_side(first_side, y1, y0)
    tvx, tvy = _by_side(first_side, vx1, vx0), _by_side(first_side, vy1, vy0)
    hx, hy = _by_side(first_side, hx1, hx0), _by_side(first_side, hy1, hy0)
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
            _store_pair(row + 1, hx * ly - hy * lx, hx * lx + hy * ly, chosen & used)
            _store_pair(row + 3, closing * TO_CLOSING, to_go, chosen & used)
            _store_pair(row + 5, tl.where(age < burn, 1.0, 0.0), closing * 0.0 + 1.0, chosen & used)
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
