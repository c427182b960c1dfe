"""Disturbances: sensor noise, action latency, wind, and randomized drones."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from slipstream.config.help import ConfigError
from slipstream.config.validation import check_range
from slipstream.sim.random import CounterRandom, derive_seed
from slipstream.tasks.navigation.physics.quadrotor import Body, Variation

OF_RIGID_BODY = ("motor_lag_range", "inertia_range", "battery_sag_per_min")


@dataclass
class DisturbanceConfig:
    """The settings of `env.disturbance.*`. All are off by default."""

    lidar_noise_m: float = 0.0  # standard deviation of each distance
    lidar_dropout: float = 0.0  # share of beams that return no hit
    velocity_noise_mps: float = 0.0  # standard deviation of the velocity in `state`
    latency_steps: int = 0  # an action arrives up to this many decisions late, drawn per episode
    wind_mps2: float = 0.0  # standard deviation of gusts, as acceleration
    wind_change_s: float = 1.0  # their correlation time
    mass_range: float = 0.0  # relative mass within 1 ± this, drawn per episode
    gain_range: float = 0.0  # relative velocity gain, likewise
    motor_lag_range: float = 0.0  # relative time constant of the rotors, likewise
    inertia_range: float = 0.0  # relative moments of inertia, likewise
    drag_per_s: float = 0.0  # deceleration per speed, drawn per episode from 0 to this
    battery_sag_per_min: float = 0.0  # share of the rotors' thrust lost per minute of flight, likewise

    def __post_init__(self) -> None:
        for name in ("lidar_dropout", "mass_range", "gain_range", "motor_lag_range", "inertia_range"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"env.disturbance.{name} must be in [0, 1), not {getattr(self, name)}")
        noise = ("lidar_noise_m", "velocity_noise_mps", "latency_steps", "wind_mps2", "drag_per_s")
        check_range(self, *noise, minimum=0, section="env.disturbance.")
        check_range(self, "battery_sag_per_min", minimum=0, maximum=1, section="env.disturbance.")
        check_range(self, "wind_change_s", above=0, section="env.disturbance.")

    @property
    def of_rigid_body(self) -> list[str]:
        """The settings in use that only a rigid body has."""
        return [name for name in OF_RIGID_BODY if getattr(self, name)]


class Disturbance:
    """The disturbances of N drones. A setting of 0 costs nothing and draws no random numbers."""

    state_names: tuple[str, ...] = ("clock", "mass", "gain", "push", "delay", "late")

    def __init__(
        self, config: DisturbanceConfig, num: int, action_dim: int, seed: int, device: torch.device | str = "cpu"
    ) -> None:
        self.config = config
        stream = lambda name: CounterRandom([derive_seed(seed, name)], num, device)  # noqa: E731
        self._episode_random, self._wind_random = stream("disturbance/episode"), stream("disturbance/wind")
        self._beam_random, self._drop_random = stream("disturbance/lidar"), stream("disturbance/dropout")
        self._velocity_random = stream("disturbance/velocity")
        self.clock = torch.zeros((), dtype=torch.int64, device=device)
        nominal = Variation.none(num, device)
        self.mass, self.gain, self.push = nominal.mass, nominal.gain, nominal.push_mps2
        self.delay = torch.zeros(num, dtype=torch.int64, device=device)  # latency of each drone, in decisions
        self.late = torch.zeros(config.latency_steps + 1, num, action_dim, device=device)  # last actions, newest first

        self.body: Tensor | None = None  # [N, 5] lag, inertia, drag, sag per s, seconds of flight
        if config.of_rigid_body or config.drag_per_s:
            self.body = torch.tensor((1.0, 1.0, 0.0, 0.0, 0.0), device=device).repeat(num, 1)
            self.state_names = (*self.state_names, "body")

    def change(self, config: DisturbanceConfig) -> None:
        """Follow other settings from now on; those drawn per episode from the next episode on."""
        if self.body is None and (config.of_rigid_body or config.drag_per_s):
            name = (*config.of_rigid_body, "drag_per_s")[0]
            raise ConfigError(f"env.disturbance.{name} cannot change to 0: end above 0")
        self.config = config
        if not config.wind_mps2:
            self.push.zero_()
        if not (config.mass_range or config.gain_range or config.latency_steps):
            self.mass.fill_(1)
            self.gain.fill_(1)

    @property
    def variation(self) -> Variation:
        """The parameters of the dynamics."""
        if self.body is None:
            return Variation(self.mass, self.gain, self.push)
        lag, inertia, drag, sag, flown_s = self.body.unbind(-1)
        body = Body(lag, inertia, drag, (1 - sag * flown_s).clamp(min=0))
        return Variation(self.mass, self.gain, self.push, body)

    def reset(self, mask: Tensor, episode: Tensor) -> None:
        """Draw the parameters of a new episode in the masked environments; `episode` [N] counts episodes."""
        config = self.config
        if config.mass_range or config.gain_range or config.latency_steps:
            u = self._episode_random.uniform(episode, 3)
            self.mass.copy_(torch.where(mask, 1 + config.mass_range * (2 * u[:, 0] - 1), self.mass))
            self.gain.copy_(torch.where(mask, 1 + config.gain_range * (2 * u[:, 1] - 1), self.gain))
            self.delay.copy_(torch.where(mask, (u[:, 2] * (config.latency_steps + 1)).long(), self.delay))
            self.late.mul_(~mask[None, :, None])
        if self.body is not None:
            u = self._episode_random.uniform(episode, 7)[:, 3:]
            lag, inertia = 1 + config.motor_lag_range * (2 * u[:, 0] - 1), 1 + config.inertia_range * (2 * u[:, 1] - 1)
            drag, sag = config.drag_per_s * u[:, 2], config.battery_sag_per_min / 60 * u[:, 3]
            drawn = torch.stack((lag, inertia, drag, sag, torch.zeros_like(sag)), -1)
            self.body.copy_(torch.where(mask[:, None], drawn, self.body))

    def delay_action(self, action: Tensor) -> Tensor:
        """Return the action [N, A] that arrives now. Call it once per decision."""
        self.clock.add_(1)
        if not self.config.latency_steps:
            return action
        self.late.copy_(torch.cat((action[None], self.late[:-1])))
        return self.late.gather(0, self.delay[None, :, None].expand(1, -1, action.shape[1]))[0]

    def update_wind(self, dt_s: float) -> None:
        """Advance the wind (an Ornstein-Uhlenbeck process) and the battery by one decision of `dt_s`."""
        if self.body is not None:
            self.body[:, 4].add_(dt_s)
        if self.config.wind_mps2:
            keep = math.exp(-dt_s / self.config.wind_change_s)
            fresh = self.config.wind_mps2 * math.sqrt(1 - keep * keep)
            self.push.mul_(keep).add_(self._wind_random.normal(self.clock, 3), alpha=fresh)

    def lidar_reading(self, distance: Tensor, range_m: float) -> Tensor:
        """Return LiDAR distances [N, azimuths, elevations] with noise and dropout."""
        shape, config = distance.shape, self.config
        if config.lidar_noise_m:
            noise = self._beam_random.normal(self.clock, shape[1] * shape[2]).view(shape)
            distance = (distance + config.lidar_noise_m * noise).clamp(0, range_m)
        if config.lidar_dropout:
            lost = self._drop_random.uniform(self.clock, shape[1] * shape[2]).view(shape) < config.lidar_dropout
            distance = torch.where(lost, range_m, distance)
        return distance

    def velocity_reading(self, vel: Tensor) -> Tensor:
        """Return the velocity [N, 3] with noise."""
        if self.config.velocity_noise_mps:
            vel = vel + self.config.velocity_noise_mps * self._velocity_random.normal(self.clock, 3)
        return vel
