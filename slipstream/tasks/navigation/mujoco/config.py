"""The settings of `sim.*`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import ClassVar

from slipstream.config.help import ConfigError
from slipstream.config.validation import check_range
from slipstream.tasks.navigation.env import BODY_RADIUS_M

SIMULATORS = ("slipstream", "mujoco")
OBSERVATIONS = ("lidar", "state", "dynamic_obstacle", "direction", "camera")  # that a policy may read in MuJoCo


@dataclass
class SimConfig:
    """Where an evaluation flies. All keys but the name are MuJoCo's; its autopilot is not the one of training."""

    chosen_by: ClassVar[str] = "name"  # sim=mujoco sets it
    name: str = "slipstream"  # the simulator: slipstream or mujoco, set by sim=mujoco
    model: str | None = None  # MJCF file of a drone; null: drone.xml beside this module
    hull_m: float | None = None  # radius of the flat cylinder that collides; null: 0.3, or the geoms of sim.model
    autopilot_hz: float = 250.0  # of autopilot and physics, rounded to a divisor of the env's time step
    motor_lag_s: float | None = None  # time constant of the rotors; null: of the model (drone.xml: 0.05)
    velocity_gain: float = 2.5  # 1/s: acceleration per velocity error
    attitude_gain: tuple[float, float] = (6.5, 2.8)  # 1/s, tilt and yaw: body rate per angle
    rate_gain: tuple[float, float] = (20.0, 5.0)  # 1/s, tilt and yaw: angular acceleration per rate error
    max_tilt_deg: float = 45.0

    def __post_init__(self) -> None:
        if self.name not in SIMULATORS:
            raise ValueError(f"unknown simulator sim={self.name}: use {' or '.join(SIMULATORS)}")
        check_range(self, "hull_m", "motor_lag_s", "velocity_gain", above=0, section="sim.")
        check_range(self, "autopilot_hz", above=0, maximum=10_000, section="sim.")
        check_range(self, "max_tilt_deg", above=0, maximum=80, section="sim.")
        for name in ("attitude_gain", "rate_gain"):
            if min(getattr(self, name)) <= 0:
                raise ValueError(f"sim.{name} must be positive, not {list(getattr(self, name))}")

    def check_used(self) -> None:
        """Raise ConfigError if a key of MuJoCo is set, but not sim=mujoco."""
        for f in fields(self):
            if self.name == "slipstream" and getattr(self, f.name) != f.default:
                raise ConfigError(f"sim.{f.name}={getattr(self, f.name)} is a setting of MuJoCo: add sim=mujoco")

    def check_observations(self, keys: Iterable[str], policy: str) -> None:
        """Raise ConfigError if a policy reads an observation that a drone in MuJoCo does not have."""
        others = [key for key in keys if key not in OBSERVATIONS]
        if others:
            known = ", ".join(OBSERVATIONS)
            raise ConfigError(f"{policy} reads {', '.join(others)}: sim=mujoco flies policies that read {known} alone")

    @property
    def radius_m(self) -> float | None:
        """The radius of the cylinder that collides; None if the geoms of the model do."""
        return self.hull_m or (None if self.model else BODY_RADIUS_M)

    def describe(self) -> str:
        """Return the simulator in a few words, for titles."""
        hull = f"hull {self.radius_m:g} m" if self.radius_m else ""
        return ", ".join(filter(None, ("MuJoCo", self.model, hull)))
