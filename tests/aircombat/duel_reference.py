"""One duel in plain Python and float64, written from the rules alone: no tensors, angles by atan2, one object a
body."""

from __future__ import annotations

import math

G = 9.8


class Kind:
    def __init__(self, glide: float, engine_g: float) -> None:
        self.cd0 = G / 400.0**2
        self.k = 1 / (4 * self.cd0 * glide**2)
        self.engine = engine_g * G
        self.radius = 1000.0


PLANE, ROCKET = Kind(5, 1.5), Kind(2, 15)


class Flyer:
    def __init__(self, kind: Kind, x: float, y: float, vx: float, vy: float) -> None:
        self.kind, self.x, self.y, self.vx, self.vy = kind, x, y, vx, vy
        self.came_from = (x, y)

    def fly(self, rudder: float, power: float, dt: float) -> None:
        kind, v = self.kind, math.hypot(self.vx, self.vy)
        nx, ny = self.vx / v, self.vy / v
        drag = kind.cd0 + kind.k * (abs(rudder) / kind.radius) ** 2
        forward = kind.engine * power - drag * v * v
        sideways = v * v * rudder / kind.radius
        self.vx += (nx * forward - ny * sideways) * dt
        self.vy += (ny * forward + nx * sideways) * dt
        self.came_from = (self.x, self.y)
        self.x += self.vx * dt
        self.y += self.vy * dt


class Rocket(Flyer):
    def __init__(self, owner: int, carrier: Flyer) -> None:
        v = math.hypot(carrier.vx, carrier.vy)
        super().__init__(
            ROCKET, carrier.x + 20 * carrier.vx / v, carrier.y + 20 * carrier.vy / v, carrier.vx, carrier.vy
        )
        self.owner, self.steps, self.sight = owner, 0, None

    def seek(self, prey: Flyer, dt: float) -> float:
        sight = math.atan2(prey.y - self.y, prey.x - self.x)
        turned = 0.0 if self.sight is None else math.remainder(sight - self.sight, 2 * math.pi)
        self.sight = sight
        return max(-1.0, min(1.0, 200 / math.pi * turned / dt))


def nearest_pass(a: Flyer, b: Flyer) -> float:
    """The least distance while both went straight from where they came from to where they are."""
    sx, sy = b.came_from[0] - a.came_from[0], b.came_from[1] - a.came_from[1]
    ex, ey = b.x - a.x, b.y - a.y
    dx, dy = ex - sx, ey - sy
    run = dx * dx + dy * dy
    share = 0.0 if run == 0 else max(0.0, min(1.0, -(sx * dx + sy * dy) / run))
    return math.hypot(sx + share * dx, sy + share * dy)


class Duel:
    """`planes` are (x, y, vx, vy) of both sides, `missiles` what each carries."""

    def __init__(
        self, planes: list[tuple], missiles: tuple[int, int] = (6, 6), dt: float = 1 / 60, limit_s: float = 60.0
    ) -> None:
        self.planes = [Flyer(PLANE, *p) for p in planes]
        self.stock = list(missiles)
        self.dt, self.limit_s = dt, limit_s
        self.wait_until = [0, 0]
        self.rockets: list[Rocket] = []
        self.gone: list[Rocket] = []
        self.step_count = 0
        self.winner: int | None = None

    def step(self, commands: list[tuple[float, float, bool]]) -> None:
        if self.winner is not None:
            return
        for side, (_, _, fire) in enumerate(commands):
            if fire and self.stock[side] and self.step_count >= self.wait_until[side]:
                self.stock[side] -= 1
                self.wait_until[side] = self.step_count + round(0.5 / self.dt)
                self.rockets.append(Rocket(side, self.planes[side]))
        rudders = [r.seek(self.planes[1 - r.owner], self.dt) for r in self.rockets]
        for plane, (rudder, throttle, _) in zip(self.planes, commands, strict=True):
            plane.fly(rudder, throttle, self.dt)
        burn = round(10 / self.dt)
        for rocket, rudder in zip(self.rockets, rudders, strict=True):
            rocket.fly(rudder, 1.0 if rocket.steps < burn else 0.0, self.dt)
            rocket.steps += 1
        self.step_count += 1
        dead = [False, False]
        flying = []
        for rocket in self.rockets:
            if nearest_pass(rocket, self.planes[1 - rocket.owner]) <= 100:
                dead[1 - rocket.owner] = True
            elif rocket.steps >= burn and math.hypot(rocket.vx, rocket.vy) < 200:
                self.gone.append(rocket)
            else:
                flying.append(rocket)
        self.rockets = flying
        if any(dead):
            self.winner = 0 if all(dead) else 2 if dead[0] else 1
        elif (not any(self.stock) and not flying) or self.step_count >= round(self.limit_s / self.dt):
            self.winner = 0
