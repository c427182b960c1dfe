"""One decision of all duels as parallel native code (numba): one pass over the duels for commands, sub-steps, starts,
view, facts.

It computes what `DuelEngine` computes, to float32 rounding. For speed, a missile far from its target skips the closest
approach, and a burnt-out missile skips the division by its speed.
"""

from __future__ import annotations

import math

import numba as nb
import numpy as np
import torch
from torch import Tensor

from slipstream.sim.random_native import mix, uniform
from slipstream.tasks.aircombat import observation as obs
from slipstream.tasks.aircombat.observation import INCOMING
from slipstream.tasks.aircombat.physics import flight
from slipstream.tasks.aircombat.physics.duel import CARRIED, FIELD_M, HEAD_ON_MPS, HEAD_ON_X_M, NUMBERS
from slipstream.tasks.aircombat.physics.engine import COMMAND_BOUNDS, COMMAND_SLACK, DuelConfig, DuelEngine
from slipstream.tasks.aircombat.physics.flight import FIGHTER, LEAST_SPEED_MPS, MISSILE
from slipstream.tasks.aircombat.reach.table import SPEED_LIMITS_MPS

# No 'nnan': invalid commands must be detected. No reordering of sums: a duel must not depend on the number of sub-steps
# per decision.
FAST = {"contract", "arcp", "nsz"}
ONE, ZERO, HALF, TWO = np.float32(1), np.float32(0), np.float32(0.5), np.float32(2)
THIRD = np.float32(1 / 3)
TURN = np.float32(2 * math.pi)
LEAST = np.float32(LEAST_SPEED_MPS)


def _floats(*numbers: float) -> np.ndarray:
    return np.array(numbers, np.float32)


# Constants of other modules are passed as arguments: compiled in, they would stay in numba's cache after a change.
PHYSICS = _floats(
    *(FIGHTER.drag, FIGHTER.turn_drag, FIGHTER.thrust_mps2, 1 / FIGHTER.min_radius_m),
    *(MISSILE.drag, MISSILE.turn_drag, MISSILE.thrust_mps2, 1 / MISSILE.min_radius_m),
    *(flight.NAVIGATION_GAIN_S, flight.LAUNCH_AHEAD_M, flight.HIT_RADIUS_M**2, flight.SELF_DESTRUCT_MPS**2),
)
HEAD_ON = _floats(*HEAD_ON_X_M, HEAD_ON_MPS, FIELD_M / 2)
BOUNDS = np.array([(low, high, COMMAND_SLACK * (high - low)) for low, high in COMMAND_BOUNDS], np.float32)
SCALES = _floats(
    *(1 / obs.POSITION_SCALE_M, 1 / obs.RANGE_SCALE_M, 1 / obs.SPEED_SCALE_MPS),
    *(1 / obs.CLOSING_SCALE_MPS, 1 / obs.TIME_SCALE_S, 1 / CARRIED),
    *(SPEED_LIMITS_MPS[0], SPEED_LIMITS_MPS[1] - SPEED_LIMITS_MPS[0]),
    *obs.ABSENT,
)


@nb.njit(inline="always", fastmath=FAST)
def advance(vx, vy, rudder, thrust, constants, dt):  # pragma: no cover
    """Return a body's new velocity."""
    drag, turn_drag, full_thrust, per_radius = constants
    speed = max(np.float32(math.sqrt(vx * vx + vy * vy)), LEAST)
    along = -(drag + turn_drag * rudder * rudder) * speed
    if thrust > ZERO:
        along += full_thrust * thrust / speed
    along *= dt
    across = speed * rudder * (dt * per_radius)
    return vx + along * vx - across * vy, vy + along * vy + across * vx


@nb.njit(inline="always", fastmath=FAST)
def pronav(ox, oy, dx, dy, gain):  # pragma: no cover
    """Return the rudder for a target at offset o that drifted by d in the last sub-step."""
    cross = ox * dy - oy * dx
    dot = ox * ox + oy * oy - (ox * dx + oy * dy)
    tangent = HALF if cross > ZERO else (-HALF if cross < ZERO else ZERO)
    if dot > abs(cross):
        tangent = min(max(cross / dot, -HALF), HALF)
    return min(max(tangent * (ONE - tangent * tangent * THIRD) * gain, -ONE), ONE)


@nb.njit(inline="always", fastmath=FAST)
def is_hit(ox, oy, dx, dy, hit_squared):  # pragma: no cover
    """Return whether a target at offset o, which drifted by d in the last sub-step, came within the hit radius."""
    length = max(dx * dx + dy * dy, np.float32(1e-12))
    back = min(max((ox * dx + oy * dy) / length, ZERO), ONE)
    nx, ny = ox - back * dx, oy - back * dy
    return nx * nx + ny * ny <= hit_squared


@nb.njit(fastmath=FAST)
def _fly(n, command, ticks, dt, times, physics, duels):  # pragma: no cover
    """Advance one duel through the sub-steps of a decision, or until it ends."""
    pos, vel, rudder, alive, left, cooldown, m_pos, m_vel, m_age, clock, winner, fired, shots, hits = duels
    limit, cool, burn = times
    fighter = (physics[0], physics[1], physics[2], physics[3])
    missile = (physics[4], physics[5], physics[6], physics[7])
    gain, launch_ahead, hit_squared, slow_squared = physics[8] / dt, physics[9], physics[10], physics[11]
    near = np.float32(1e6)  # m²: beyond it, no sub-step of 1/60 s can come within the hit radius
    if dt > np.float32(0.02):
        near = np.float32(1e12)
    for _ in range(ticks):
        if winner[n] >= 0:
            return
        for s in range(2):  # fire
            if command[s, n, 2] > HALF and left[n, s] > 0 and cooldown[n, s] == 0:
                slot = s * 6 + 6 - left[n, s]
                vx, vy = vel[n, s, 0], vel[n, s, 1]
                ahead = launch_ahead / max(np.float32(math.sqrt(vx * vx + vy * vy)), LEAST)
                m_pos[n, slot, 0], m_pos[n, slot, 1] = pos[n, s, 0] + vx * ahead, pos[n, s, 1] + vy * ahead
                m_vel[n, slot, 0], m_vel[n, slot, 1] = vx, vy
                m_age[n, slot] = 0
                left[n, s] -= 1
                cooldown[n, s] = cool
                fired[n, s] += 1
                shots[n, s] += 1
        for m in range(12):  # guide and move missiles; the aircraft have not moved yet
            age = m_age[n, m]
            if age < 0:
                continue
            t = 1 - m // 6
            vx, vy = m_vel[n, m, 0], m_vel[n, m, 1]
            r = ZERO
            if age > 0:
                ox, oy = pos[n, t, 0] - m_pos[n, m, 0], pos[n, t, 1] - m_pos[n, m, 1]
                r = pronav(ox, oy, (vel[n, t, 0] - vx) * dt, (vel[n, t, 1] - vy) * dt, gain)
            vx, vy = advance(vx, vy, r, ONE if age < burn else ZERO, missile, dt)
            m_vel[n, m, 0], m_vel[n, m, 1] = vx, vy
            m_pos[n, m, 0] += vx * dt
            m_pos[n, m, 1] += vy * dt
            m_age[n, m] = age + 1
        for s in range(2):
            r = command[s, n, 0]
            vx, vy = advance(vel[n, s, 0], vel[n, s, 1], r, command[s, n, 1], fighter, dt)
            vel[n, s, 0], vel[n, s, 1] = vx, vy
            pos[n, s, 0] += vx * dt
            pos[n, s, 1] += vy * dt
            rudder[n, s] = r
            cooldown[n, s] = max(cooldown[n, s] - 1, 0)
        clock[n] += 1
        flying = 0
        for m in range(12):  # events
            age = m_age[n, m]
            if age < 0:
                continue
            s = m // 6
            t = 1 - s
            vx, vy = m_vel[n, m, 0], m_vel[n, m, 1]
            ox, oy = pos[n, t, 0] - m_pos[n, m, 0], pos[n, t, 1] - m_pos[n, m, 1]
            if ox * ox + oy * oy < near and is_hit(
                ox, oy, (vel[n, t, 0] - vx) * dt, (vel[n, t, 1] - vy) * dt, hit_squared
            ):
                hits[n, s] = 1
                alive[n, t] = False
                m_age[n, m] = -1
            elif age >= burn and vx * vx + vy * vy < slow_squared:
                m_age[n, m] = -1
            else:
                flying += 1
        if not (alive[n, 0] and alive[n, 1]):
            winner[n] = (1 if alive[n, 0] else 0) + (2 if alive[n, 1] else 0)
        elif (left[n, 0] + left[n, 1] + flying == 0) or clock[n] >= limit:
            winner[n] = 0


@nb.njit(fastmath=FAST)
def _start(n, stream, episode, drawn, limits, head_on, duels):  # pragma: no cover
    """Start a new duel."""
    pos, vel, rudder, alive, left, cooldown, m_pos, m_vel, m_age, clock, winner, fired, shots, hits = duels
    for s in range(2):
        rudder[n, s] = 0
        alive[n, s] = True
        cooldown[n, s], fired[n, s], shots[n, s], hits[n, s] = 0, 0, 0, 0
    for m in range(12):
        m_pos[n, m, 0], m_pos[n, m, 1], m_vel[n, m, 0], m_vel[n, m, 1], m_age[n, m] = 0, 0, 0, 0, -1
    clock[n], winner[n] = 0, -1
    middle = head_on[3]
    if not drawn:
        for s in range(2):
            pos[n, s, 0], pos[n, s, 1] = head_on[s], middle
            vel[n, s, 0], vel[n, s, 1] = head_on[2] if s == 0 else -head_on[2], ZERO
            left[n, s] = 6
        return
    state = mix(stream ^ (episode & 0xFFFFFFFF))
    half = line = ZERO
    for k in range(NUMBERS):
        u = uniform(state, k)
        if k == 0:
            half = (limits[0] + (limits[1] - limits[0]) * u) * HALF
        elif k == 1:
            line = TURN * u
            x, y = half * np.float32(math.cos(line)), half * np.float32(math.sin(line))
            pos[n, 0, 0], pos[n, 0, 1], pos[n, 1, 0], pos[n, 1, 1] = middle - x, middle - y, middle + x, middle + y
        elif k < 4:
            vel[n, k - 2, 0], vel[n, k - 2, 1] = math.cos(TURN * u), math.sin(TURN * u)
        elif k < 6:
            speed = limits[2] + (limits[3] - limits[2]) * u
            vel[n, k - 4, 0] *= speed
            vel[n, k - 4, 1] *= speed
        else:
            left[n, k - 6] = np.int32(limits[4]) + np.int32(u * (limits[5] - limits[4] + ONE))


@nb.njit(inline="always", fastmath=FAST)
def _pseudo_angle(cos, sin):  # pragma: no cover
    share = ONE - cos / max(abs(cos) + abs(sin), np.float32(1e-12))
    return -share if sin < ZERO else share


@nb.njit(inline="always", fastmath=FAST)
def _place(share, count):  # pragma: no cover
    """Return the grid point below, and the fraction of the way to the next."""
    place = min(max(share * np.float32(count - 1), ZERO), np.float32(count - 1))
    first = min(int(place), max(count - 2, 0))
    return first, place - np.float32(first)


@nb.njit(fastmath=FAST)
def _lookup(table, own, target, bearing, aspect, speeds):  # pragma: no cover
    """Look up the first channel; see `ReachTable.lookup`."""
    if bearing < ZERO:
        bearing, aspect = -bearing, -aspect
    a, fa = _place((own - speeds[0]) / speeds[1], table.shape[0])
    b, fb = _place((target - speeds[0]) / speeds[1], table.shape[1])
    c, fc = _place(bearing * HALF, table.shape[2])
    d, fd = _place((aspect + TWO) * np.float32(0.25), table.shape[3])
    total = ZERO
    for i in range(2):
        wi = fa if i else ONE - fa
        for j in range(2):
            wj = wi * (fb if j else ONE - fb)
            for k in range(2):
                row = table[
                    min(a + i, table.shape[0] - 1), min(b + j, table.shape[1] - 1), min(c + k, table.shape[2] - 1)
                ]
                wk = wj * (fc if k else ONE - fc)
                total += wk * ((ONE - fd) * row[d] + fd * row[min(d + 1, table.shape[3] - 1)])
    return total


@nb.njit(fastmath=FAST)
def _observe(n, view, dt, times, duels, table, scales):  # pragma: no cover
    """Write the observation of both sides of one duel."""
    pos, vel, rudder, alive, left, cooldown, m_pos, m_vel, m_age, clock, winner, fired, shots, hits = duels
    limit, cool, burn = times
    to_position, to_range, to_speed = scales[0], scales[1], scales[2]
    to_closing, to_time, to_share = scales[3], scales[4], scales[5]
    speeds, absent = scales[6:8], scales[8:]
    for s in range(2):
        out = view[s, n]
        t = 1 - s
        x, y, vx, vy = pos[n, s, 0], pos[n, s, 1], vel[n, s, 0], vel[n, s, 1]
        tx, ty, tvx, tvy = pos[n, t, 0] - x, pos[n, t, 1] - y, vel[n, t, 0], vel[n, t, 1]
        speed = max(np.float32(math.sqrt(vx * vx + vy * vy)), LEAST)
        their_speed = max(np.float32(math.sqrt(tvx * tvx + tvy * tvy)), LEAST)
        hx, hy, thx, thy = vx / speed, vy / speed, tvx / their_speed, tvy / their_speed
        in_flight = 0
        for m in range(s * 6, s * 6 + 6):
            if m_age[n, m] >= 0:
                in_flight += 1
        out[0], out[1] = x * to_position - ONE, y * to_position - ONE
        out[2], out[3], out[4] = hy, hx, speed * to_speed
        out[5], out[6] = np.float32(left[n, s]) * to_share, np.float32(in_flight) * to_share
        out[7], out[8] = np.float32(cooldown[n, s]) / np.float32(cool), rudder[n, s]
        out[9], out[10] = np.float32(limit - clock[n]) * (dt * to_time), ONE if alive[n, s] else ZERO
        distance = np.float32(math.sqrt(tx * tx + ty * ty))
        lx, ly = tx / max(distance, LEAST), ty / max(distance, LEAST)
        sin_b, cos_b = hx * ly - hy * lx, hx * lx + hy * ly
        sin_a, cos_a = thy * lx - thx * ly, -(thx * lx + thy * ly)
        out[11], out[12], out[13], out[14], out[15] = distance * to_range, sin_b, cos_b, sin_a, cos_a
        out[16], out[17] = ((vx - tvx) * lx + (vy - tvy) * ly) * to_closing, their_speed * to_speed
        reach = _lookup(table, speed, their_speed, _pseudo_angle(cos_b, sin_b), _pseudo_angle(cos_a, sin_a), speeds)
        out[18], out[19] = reach * to_range, ONE if alive[n, t] else ZERO
        first = second = -1
        d1 = d2 = np.float32(1e30)
        for m in range(t * 6, t * 6 + 6):
            if m_age[n, m] < 0:
                continue
            ox, oy = m_pos[n, m, 0] - x, m_pos[n, m, 1] - y
            d = ox * ox + oy * oy
            if d < d1:
                second, d2, first, d1 = first, d1, m, d
            elif d < d2:
                second, d2 = m, d
        for k in range(INCOMING):
            m = first if k == 0 else second
            row = out[20 + 7 * k : 27 + 7 * k]
            if m < 0:
                for c in range(len(absent)):
                    row[c] = absent[c]
                continue
            distance = np.float32(math.sqrt(d1 if k == 0 else d2))
            lx, ly = (m_pos[n, m, 0] - x) / max(distance, LEAST), (m_pos[n, m, 1] - y) / max(distance, LEAST)
            closing = (vx - m_vel[n, m, 0]) * lx + (vy - m_vel[n, m, 1]) * ly
            row[0], row[3] = distance * to_range, closing * to_closing
            row[1], row[2] = hx * ly - hy * lx, hx * lx + hy * ly
            row[4] = min(distance / max(closing, LEAST) * to_time, ONE) if closing > ZERO else ONE
            row[5], row[6] = ONE if m_age[n, m] < burn else ZERO, ONE
        ready = alive[n, s] and left[n, s] > 0 and cooldown[n, s] == 0 and winner[n] < 0
        out[34] = ONE if ready else ZERO


@nb.njit(fastmath=FAST)
def _write_facts(n, facts, before, dt, duels):  # pragma: no cover
    """Write the facts of one duel, in the order of FACTS."""
    pos, vel, rudder, alive, left, cooldown, m_pos, m_vel, m_age, clock, winner, fired, shots, hits = duels
    w = winner[n]
    for s in range(2):
        facts[0, s, n] = ONE if w == s + 1 else ZERO
        facts[1, s, n] = ONE if w == 2 - s else ZERO
        facts[2, s, n] = ONE if w == 0 else ZERO
        facts[3, s, n] = np.float32(w)
        facts[4, s, n] = ONE if alive[n, s] else ZERO
        facts[5, s, n] = ONE if alive[n, 1 - s] else ZERO
        facts[6, s, n] = np.float32(clock[n]) * dt
        facts[7, s, n] = np.float32(max(clock[n] - before, 0)) * dt
        facts[8, s, n] = np.float32(shots[n, s])
        facts[9, s, n] = np.float32(hits[n, s])
        facts[10, s, n] = np.float32(hits[n, 1 - s])
        facts[11, s, n] = np.float32(fired[n, s])


@nb.njit(parallel=True, fastmath=FAST, cache=True, nogil=True)
def _decide(
    command, resetting, bad, ticks, dt, times, physics, bounds, stream, episode, drawn, limits, head_on, table, scales,
    duels, view, facts,
):  # pragma: no cover  # fmt: skip
    clock, shots, hits = duels[9], duels[12], duels[13]
    for n in nb.prange(clock.shape[0]):
        for s in range(2):
            for c in range(3):
                x, low, high, slack = command[s, n, c], bounds[c, 0], bounds[c, 1], bounds[c, 2]
                if not (x >= low - slack and x <= high + slack):
                    bad[s, n] = True
                    if not abs(x) < np.float32(np.inf):
                        x = ZERO
                command[s, n, c] = min(max(x, low), high)
            shots[n, s], hits[n, s] = 0, 0
        before = clock[n]
        if resetting[n]:
            _start(n, stream[n], episode[n], drawn, limits, head_on, duels)
            episode[n] += 1
        else:
            _fly(n, command, ticks, dt, times, physics, duels)
        _observe(n, view, dt, times, duels, table, scales)
        _write_facts(n, facts, before, dt, duels)


class NativeEngine(DuelEngine):
    """`DuelEngine` for CPU tensors."""

    backend = "native"

    def __init__(self, num: int, config: DuelConfig, seed: int, device: torch.device | str = "cpu") -> None:
        super().__init__(num, config, seed, device)
        rules, starts = self.rules, config.starts
        limits = np.array((*starts.range_m, *starts.speed_mps, *starts.missiles), np.float32)
        times = np.float32(rules.dt_s), (rules.limit, rules.cooldown, rules.burn)
        draws = self.random.stream.numpy(), self.episode.numpy(), config.start == "random", limits
        duels = tuple(x.numpy() for x in self.duels.tensors().values())
        observation = self.table.values[0].numpy(), SCALES, duels, self.view.numpy(), self.facts.numpy()
        self._inputs = (*times, PHYSICS, BOUNDS, *draws, HEAD_ON, *observation)

    def step(self, command: Tensor, resetting: Tensor, ticks: int | None = None) -> None:
        """Advance by one decision; see `DuelEngine.step`."""
        ticks = self.ticks if ticks is None else ticks
        _decide(command.numpy(), resetting.numpy(), self.bad.numpy(), ticks, *self._inputs)
