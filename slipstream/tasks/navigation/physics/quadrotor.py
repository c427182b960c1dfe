"""Two drone models that follow velocity commands: a first-order lag, and a rigid quadrotor with a geometric
controller."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from slipstream.config.help import ConfigError, nearest
from slipstream.config.overrides import read_yaml
from slipstream.sim.frames import quat_from_yaw, quat_rotate_by, quat_to_matrix

GRAVITY_MPS2 = 9.81
VELOCITY_GAIN = 2.2  # 1/s, of the controller; its inverse is the time constant of the lag


class Body(NamedTuple):
    """How the rigid body of each drone differs from the nominal one, which its controller expects; [N] each."""

    lag: Tensor  # times the nominal time constant of the rotors
    inertia: Tensor  # times the nominal one
    drag_per_s: Tensor  # deceleration per speed
    thrust: Tensor  # share of the rotors' thrust that the battery still gives


@dataclass
class Variation:
    """The difference of each drone from the nominal one; ones and zeros without randomization."""

    mass: Tensor  # [N] times the nominal mass, unknown to the controller
    gain: Tensor  # [N] times the nominal velocity gain
    push_mps2: Tensor  # [N, 3] acceleration by wind
    body: Body | None = None

    def air(self, vel: Tensor) -> Tensor:
        """Return the acceleration [N, 3] by wind and drag at velocities [N, 3]."""
        return self.push_mps2 if self.body is None else self.push_mps2 - self.body.drag_per_s[:, None] * vel

    @classmethod
    def none(cls, num: int, device: torch.device | str) -> Variation:
        """Return nominal drones."""
        return cls(torch.ones(num, device=device), torch.ones(num, device=device), torch.zeros(num, 3, device=device))


class VelocityLag:
    """The velocity follows the command with time constant 1 / 2.2 s; the yaw is constant within an episode."""

    state_names: tuple[str, ...] = ("pos", "vel", "yaw")

    def __init__(self, num: int, dt_s: float, device: torch.device | str = "cpu") -> None:
        self.dt_s = dt_s
        self.pos = torch.zeros(num, 3, device=device)
        self.vel = torch.zeros(num, 3, device=device)
        self.yaw = torch.zeros(num, device=device)

    @property
    def attitude(self) -> Tensor:
        """The rotation [N, 3, 3] from the body's axes to the world's: level."""
        return quat_to_matrix(quat_from_yaw(self.yaw))

    def reset(self, mask: Tensor, pos: Tensor, yaw: Tensor) -> None:
        """Place the masked drones at `pos` [N, 3] (m), at rest, facing `yaw` [N] (rad)."""
        self.pos.copy_(torch.where(mask[:, None], pos, self.pos))
        self.vel.mul_(~mask[:, None])
        self.yaw.copy_(torch.where(mask, yaw, self.yaw))

    def advance(self, command: Tensor, variation: Variation) -> None:
        """Take one physics step towards the velocity `command` [N, 3] (m/s, world axes)."""
        gain = (VELOCITY_GAIN * variation.gain / variation.mass)[:, None]
        self.vel.add_(gain * (command - self.vel) + variation.air(self.vel), alpha=self.dt_s)
        self.pos.add_(self.vel, alpha=self.dt_s)


@dataclass(frozen=True)
class Airframe:
    """The parameters of a drone and its controller; the defaults are NavRL's Hummingbird."""

    mass_kg: float = 0.716
    inertia: tuple[float, float, float] = (0.007, 0.007, 0.012)  # kg m²
    arm_m: float = 0.17
    force_constant: float = 8.54858e-6  # N s²
    moment_constant: float = 1.36777e-7  # N m s²
    max_rotor_rad_s: float = 838.0
    throttle_closing: float = 0.43  # share of the throttle error closed per step, without motor_lag_s
    motor_lag_s: float | None = None  # time constant of the rotors
    attitude_gain: tuple[float, float, float] = (0.7, 0.7, 0.035)  # N m / rad
    rate_gain: tuple[float, float, float] = (0.1, 0.1, 0.025)  # N m s / rad
    rotor_angles_deg: tuple[float, ...] = (0.0, 90.0, 180.0, 270.0)  # to the left of the nose; + layout
    rotor_spin: tuple[float, ...] = (-1.0, 1.0, -1.0, 1.0)
    # A full reversal of the vertical command would demand 0.1 g of thrust and tilts beyond 80°. The demand is limited
    # as in a real autopilot; commands of ordinary flight are unchanged.
    least_lift_g: float = 0.3
    max_tilt_deg: float = 60.0

    @classmethod
    def read(cls, path: Path) -> Airframe:
        """Read the file of `env.drone`: the names above, each of which may be left out. Raises ConfigError."""
        if not path.is_file():
            raise ConfigError(f"env.drone={path}: there is no such file")
        given, plain = read_yaml(path), cls()
        known = [f.name for f in fields(cls) if f.name != "throttle_closing"]
        if not isinstance(given, dict) or not given:
            raise ConfigError(f"env.drone={path}: write NAME: VALUE on each line, with names of {', '.join(known)}")
        values: dict[str, Any] = {}
        for name, value in given.items():
            if name not in known:
                raise ConfigError(f"env.drone={path}: unknown name {name}{nearest(str(name), known)}")
            default, is_signed = getattr(plain, name), name in ("rotor_angles_deg", "rotor_spin")
            numbers = value if isinstance(value, list) else [value]
            count = len(default) if isinstance(default, tuple) else 1
            good = [type(x) in (int, float) and math.isfinite(x) and (is_signed or x > 0) for x in numbers]
            if len(good) != count or not all(good):
                sign = "" if is_signed else "positive "
                raise ConfigError(f"env.drone={path}: {name} must be {count} {sign}numbers, not {value}")
            values[name] = tuple(map(float, numbers)) if isinstance(default, tuple) else float(numbers[0])
        frame = cls(**values)
        if 4 * frame.max_thrust_n < 1.2 * frame.mass_kg * GRAVITY_MPS2 or frame.max_tilt_deg > 80:
            lift, least = 4 * frame.max_thrust_n / GRAVITY_MPS2, 1.2 * frame.mass_kg
            lifts = f"its rotors lift {lift:.3g} kg, and {least:.3g} kg are the least for mass_kg={frame.mass_kg:g}"
            raise ConfigError(f"env.drone={path}: {lifts}; max_tilt_deg is at most 80")
        if not torch.linalg.cond(frame.wrench()) < 1e6:
            raise ConfigError(f"env.drone={path}: rotor_angles_deg and rotor_spin do not give torques around all axes")
        return frame

    @property
    def max_thrust_n(self) -> float:
        """The thrust of one rotor."""
        return self.force_constant * self.max_rotor_rad_s**2

    @property
    def drag_m(self) -> float:
        """The yaw torque (N m) per thrust (N) of a rotor."""
        return self.moment_constant / self.force_constant

    def lag_s(self, dt_s: float) -> float:
        """Return the time constant of the rotors in steps of `dt_s`."""
        return self.motor_lag_s or -dt_s / math.log(1 - self.throttle_closing)

    def wrench(self) -> Tensor:
        """Return the matrix [4, 4] from the rotors' thrusts (N) to torques and lift."""
        angle, spin = torch.deg2rad(torch.tensor(self.rotor_angles_deg)), torch.tensor(self.rotor_spin)
        roll, pitch = self.arm_m * torch.sin(angle), -self.arm_m * torch.cos(angle)
        return torch.stack((roll, pitch, -self.drag_m * spin, torch.ones_like(angle)))


class Quadrotor:
    """A rigid body with four rotors and a Lee geometric controller that tracks velocity and holds yaw."""

    state_names: tuple[str, ...] = ("pos", "vel", "quat", "omega", "throttle", "yaw_held")

    def __init__(
        self, num: int, dt_s: float, device: torch.device | str = "cpu", airframe: Airframe | None = None
    ) -> None:
        self.dt_s = dt_s
        self.airframe = frame = airframe or Airframe()
        self._closing = 1 - math.exp(-dt_s / frame.motor_lag_s) if frame.motor_lag_s else frame.throttle_closing
        make = lambda *values: torch.tensor(values, device=device)  # noqa: E731
        self.pos = torch.zeros(num, 3, device=device)
        self.vel = torch.zeros(num, 3, device=device)
        self.quat = torch.zeros(num, 4, device=device)
        self.quat[:, 0] = 1.0
        self.omega = torch.zeros(num, 3, device=device)  # body rates, rad/s
        self.yaw_held = torch.zeros(num, device=device)
        self._max_thrust = frame.max_thrust_n
        self._hover = math.sqrt(frame.mass_kg * GRAVITY_MPS2 / 4 / self._max_thrust)
        self.throttle = torch.full((num, 4), self._hover, device=device)
        self._inertia = make(*frame.inertia)
        self._attitude_gain, self._rate_gain = make(*frame.attitude_gain), make(*frame.rate_gain)
        wrench = frame.wrench()
        self._wrench, self._mixer = wrench.to(device), torch.linalg.inv(wrench.double()).float().to(device)

    @property
    def attitude(self) -> Tensor:
        """The rotation [N, 3, 3] from the body's axes to the world's."""
        return quat_to_matrix(self.quat)

    @property
    def yaw(self) -> Tensor:
        """The heading of the body's x axis [N] (rad)."""
        w, x, y, z = self.quat.unbind(-1)
        return torch.atan2(2 * (x * y + w * z), 1 - 2 * (y * y + z * z))

    def reset(self, mask: Tensor, pos: Tensor, yaw: Tensor) -> None:
        """Place the masked drones at `pos` [N, 3] (m), level and hovering, facing `yaw` [N] (rad)."""
        col = mask[:, None]
        self.pos.copy_(torch.where(col, pos, self.pos))
        self.vel.mul_(~col)
        self.omega.mul_(~col)
        self.quat.copy_(torch.where(col, quat_from_yaw(yaw), self.quat))
        self.throttle.copy_(torch.where(col, self._hover, self.throttle))
        self.yaw_held.copy_(torch.where(mask, yaw, self.yaw_held))

    def advance(self, command: Tensor, variation: Variation) -> None:
        """Take one physics step towards the velocity `command` [N, 3] (m/s, world axes)."""
        rotation = quat_to_matrix(self.quat)
        thrust = self._controller(command, rotation, variation.gain)
        target = (thrust / self._max_thrust).clamp(0, 1).sqrt()
        closing: Any = self._closing
        power: Any = self._max_thrust
        inertia = self._inertia
        if (body := variation.body) is not None:
            closing = 1 - (1 - closing) ** (1 / body.lag)[:, None]
            power, inertia = power * body.thrust[:, None], inertia * body.inertia[:, None]
        self.throttle.add_(closing * (target - self.throttle))
        wrench = (self.throttle.square() * power) @ self._wrench.T  # [N, 4]
        spin_up = wrench[:, :3] - torch.linalg.cross(self.omega, inertia * self.omega)
        self.omega.add_(spin_up / inertia, alpha=self.dt_s)
        self.quat.copy_(quat_rotate_by(self.quat, self.omega * self.dt_s))
        lift = wrench[:, 3] / (self.airframe.mass_kg * variation.mass)
        accel = rotation[..., 2] * lift[:, None] + variation.air(self.vel)
        accel[:, 2] -= GRAVITY_MPS2
        self.vel.add_(accel, alpha=self.dt_s)
        self.pos.add_(self.vel, alpha=self.dt_s)

    def _controller(self, command: Tensor, rotation: Tensor, gain: Tensor) -> Tensor:
        """Return the thrust [N, 4] (N) demanded of each rotor."""
        frame = self.airframe
        wanted = (VELOCITY_GAIN * gain)[:, None] * (command - self.vel)  # acceleration
        force, target = thrust_and_attitude(wanted, self.yaw_held, frame.least_lift_g, frame.max_tilt_deg)
        twist = target.transpose(1, 2) @ rotation
        error = 0.5 * (twist - twist.transpose(1, 2))
        error = torch.stack((error[:, 2, 1], error[:, 0, 2], error[:, 1, 0]), -1)
        torque = -self._attitude_gain * error - self._rate_gain * self.omega
        lift = frame.mass_kg * (force * rotation[..., 2]).sum(-1, keepdim=True)
        return torch.cat((torque, lift), -1) @ self._mixer.T


def thrust_and_attitude(wanted: Tensor, yaw: Tensor, least_lift_g: float, max_tilt_deg: float) -> tuple[Tensor, Tensor]:
    """Return the thrust per mass [N, 3] for the acceleration `wanted` [N, 3], within the limits of lift and tilt, and
    the attitude [N, 3, 3] that has it along its z axis and faces `yaw` [N]."""
    up = (wanted[:, 2:] + GRAVITY_MPS2).clamp(min=least_lift_g * GRAVITY_MPS2)
    flat = wanted[:, :2]
    most = math.tan(math.radians(max_tilt_deg)) * up
    flat = flat * (most / flat.norm(dim=-1, keepdim=True).clamp(min=1e-6)).clamp(max=1.0)
    force = torch.cat((flat, up), -1)
    ahead = torch.stack((torch.cos(yaw), torch.sin(yaw), torch.zeros_like(yaw)), -1)
    body_z = force / force.norm(dim=-1, keepdim=True)
    body_y = torch.linalg.cross(body_z, ahead)
    body_y = body_y / body_y.norm(dim=-1, keepdim=True).clamp(min=1e-6)
    return force, torch.stack((torch.linalg.cross(body_y, body_z), body_y, body_z), -1)


DYNAMICS: dict[str, type[VelocityLag] | type[Quadrotor]] = {"velocity_lag": VelocityLag, "quadrotor": Quadrotor}
