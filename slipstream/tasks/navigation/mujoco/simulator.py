"""Drones, LiDAR and collisions in MuJoCo, behind the interfaces of our own physics."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from slipstream.config.help import ConfigError
from slipstream.sim.frames import quat_from_yaw, quat_to_matrix
from slipstream.tasks.navigation.env import NavigationConfig, NavigationEnv
from slipstream.tasks.navigation.mujoco.config import SimConfig
from slipstream.tasks.navigation.mujoco.model import DRONES, MOVING, STATIC, Drone, build_field, load_mujoco
from slipstream.tasks.navigation.physics.lidar import LidarConfig, Rays, Scan, level_rotation
from slipstream.tasks.navigation.physics.obstacles import MovingObstacles
from slipstream.tasks.navigation.physics.quadrotor import VELOCITY_GAIN, Airframe, Variation, thrust_and_attitude

LEAST_LIFT_G = 0.3  # that the autopilot demands
CAUSES = ("", "ground", "standing", "moving", "height")  # of a collision; height: the limits of the task
GROUND, STANDING, MOVER, HEIGHT = range(1, 5)


class _Field:
    """One map in MuJoCo. The arrays are views of MuJoCo's memory."""

    def __init__(self, model: Any, mujoco: Any) -> None:
        self.model, self.data, self._mujoco = model, mujoco.MjData(model), mujoco
        self.qpos, self.qvel = self.data.qpos.reshape(-1, 7), self.data.qvel.reshape(-1, 6)
        self.ctrl, self.act = self.data.ctrl.reshape(-1, 4), self.data.act.reshape(-1, 4)
        self.cause = np.zeros(len(self.qpos), np.int64)  # what each drone touched since its reset
        self.drone_bodies = model.jnt_bodyid
        drone_of_body = np.full(model.nbody, -1)
        drone_of_body[self.drone_bodies] = np.arange(len(self.qpos))
        self.drone_of_body = drone_of_body[model.body_rootid]
        self.nominal_mass, self.nominal_inertia = model.body_mass.copy(), model.body_inertia.copy()
        self.nominal_dofs = model.dof_M0.reshape(-1, 6).copy()  # mass and inertia again, which MuJoCo uses for one body
        self.nominal_lag, self.nominal_gear = model.actuator_dynprm[:, 0].copy(), model.actuator_gear.copy()
        self._drone_of_geom = self.drone_of_body[model.geom_bodyid]
        kinds = {STATIC: STANDING, MOVING: MOVER, DRONES: 0}
        self._cause_of_geom = np.array([kinds[group] for group in model.geom_group])
        self._cause_of_geom[model.geom("ground").id] = GROUND

    def step(self) -> None:
        """Take one step of MuJoCo, and remember which drones touch something."""
        self._mujoco.mj_step(self.model, self.data)
        if self.data.ncon:
            pairs = self.data.contact.geom  # [contacts, 2]: a drone and an obstacle
            self.cause[self._drone_of_geom[pairs].max(1)] = self._cause_of_geom[pairs].max(1)


class MujocoDrones:
    """Free rigid bodies under a cascaded autopilot: velocity, attitude, rate. One MuJoCo model per map.

    The interface is that of the drones in `physics.quadrotor`.

    Args:
        sim: the settings of `sim.*`.
        worlds: the boxes [M, 5] of each map.
        num: drones over all maps, in equal shares, those of the first map first.
        dt_s: time of one `advance`.
        movers: the moving obstacles, which the caller advances.
        frame: the drone's parameters, without `sim.model`.
    """

    state_names = ("pos", "vel", "yaw")

    def __init__(
        self,
        sim: SimConfig,
        worlds: Sequence[np.ndarray],
        num: int,
        dt_s: float,
        movers: MovingObstacles | None = None,
        frame: Airframe | None = None,
    ) -> None:
        mujoco = load_mujoco()
        if num % len(worlds):
            raise ValueError(f"{num} drones cannot be spread evenly over {len(worlds)} maps")
        self.sim, self.movers, each = sim, movers, num // len(worlds)
        self.drone = drone = Drone.read(sim, frame, 0.0 if frame is None else frame.lag_s(dt_s))
        self.substeps = max(1, round(dt_s * sim.autopilot_hz))
        build = lambda boxes: build_field(boxes, movers, drone, each, dt_s / self.substeps)  # noqa: E731
        self.fields = [_Field(build(boxes), mujoco) for boxes in worlds]
        self.slices = [slice(k * each, (k + 1) * each) for k in range(len(worlds))]
        self.pos, self.vel, self.yaw = torch.zeros(num, 3), torch.zeros(num, 3), torch.zeros(num)
        self.attitude = torch.zeros(num, 3, 3)  # from the body's axes to the world's
        self.yaw_held = torch.zeros(num, dtype=torch.float64)
        self._scales = torch.ones(4, num)  # mass, inertia, rotor lag, thrust
        self._inertia, self._mixer = torch.from_numpy(drone.inertia), torch.from_numpy(drone.mixer)
        self._limits = torch.from_numpy(drone.limits)
        gains = [(tilt, tilt, yaw) for tilt, yaw in (sim.attitude_gain, sim.rate_gain)]
        self._attitude_gain, self._rate_gain = torch.tensor(gains, dtype=torch.float64)

    @property
    def cause(self) -> np.ndarray:
        """What each drone has touched since its reset, [N] an index of CAUSES."""
        return np.concatenate([field.cause for field in self.fields])

    def reset(self, mask: Tensor, pos: Tensor, yaw: Tensor) -> None:
        """Place the masked drones at `pos` [N, 3] (m), level and hovering, facing `yaw` [N] (rad)."""
        self.yaw_held.copy_(torch.where(mask, yaw.double(), self.yaw_held))
        placed, chosen = torch.cat((pos.double(), quat_from_yaw(self.yaw_held)), 1).numpy(), mask.numpy()
        for field, part in zip(self.fields, self.slices, strict=True):
            here = chosen[part]
            field.qpos[here], field.qvel[here], field.cause[here] = placed[part][here], 0, 0
            if self.drone.has_lag:
                field.act[here] = self.drone.hover
        self._read_state()

    def advance(self, command: Tensor, variation: Variation) -> None:
        """Take one physics step towards the velocity `command` [N, 3] (m/s, world axes)."""
        one, body = torch.ones_like(variation.mass), variation.body
        others = (one, one, one) if body is None else (body.inertia, body.lag, body.thrust)
        if not torch.equal(scales := torch.stack((variation.mass, *others)), self._scales):
            self._scales.copy_(scales)
            self._set_bodies()
        push = (variation.air(self.vel).double() * (self.drone.inertia[0, 0] * self._scales[0])[:, None]).numpy()
        for k, (field, part) in enumerate(zip(self.fields, self.slices, strict=True)):
            if self.movers is not None:
                field.data.mocap_pos[:] = self.movers.pos[k].numpy()
            field.data.xfrc_applied[field.drone_bodies, :3] = push[part]
        for _ in range(self.substeps):
            controls = self._autopilot(command.double(), variation.gain.double()).numpy()
            for field, part in zip(self.fields, self.slices, strict=True):
                field.ctrl[:] = controls[part]
            in_parallel([field.step for field in self.fields])
        self._read_state()
        if not bool(torch.isfinite(self.pos).all()):
            raise ConfigError("a drone diverged in MuJoCo: lower sim.rate_gain, or raise sim.autopilot_hz")

    def _set_bodies(self) -> None:
        """Give each drone its own mass, inertia, rotor lag and thrust."""
        if not self.drone.has_lag and bool((self._scales[2] != 1).any()):
            raise ConfigError("env.disturbance.motor_lag_range: sim.model's rotors have no lag; set sim.motor_lag_s")
        for field, part in zip(self.fields, self.slices, strict=True):
            ours = field.drone_of_body >= 0
            mass, inertia, lag, thrust = self._scales[:, part].numpy()
            own = field.drone_of_body[ours]
            field.model.body_mass[ours] = field.nominal_mass[ours] * mass[own]
            field.model.body_inertia[ours] = field.nominal_inertia[ours] * inertia[own, None]
            field.model.dof_M0[:] = (field.nominal_dofs * np.stack((mass, inertia), 1).repeat(3, 1)).ravel()
            field.model.actuator_dynprm[:, 0] = field.nominal_lag * lag.repeat(4)
            field.model.actuator_gear[:] = field.nominal_gear * thrust.repeat(4)[:, None]

    def _read_state(self) -> None:
        qpos, qvel = self._state()
        self.pos.copy_(qpos[:, :3])
        self.vel.copy_(qvel[:, :3])
        self.attitude.copy_(quat_to_matrix(qpos[:, 3:]))
        ahead = quat_to_matrix(qpos[:, 3:])[..., 0]
        self.yaw.copy_(torch.atan2(ahead[:, 1], ahead[:, 0]))

    def _state(self) -> tuple[Tensor, Tensor]:
        """Return poses [N, 7] and velocities [N, 6] (linear in world axes, angular in body axes) of all maps."""
        qpos, qvel = ([getattr(field, name) for field in self.fields] for name in ("qpos", "qvel"))
        return torch.from_numpy(np.concatenate(qpos)), torch.from_numpy(np.concatenate(qvel))

    def _autopilot(self, command: Tensor, gain: Tensor) -> Tensor:
        """Return the controls [N, 4] of the rotors."""
        qpos, qvel = self._state()
        rotation, rates = quat_to_matrix(qpos[:, 3:]), qvel[:, 3:]
        # velocity: the acceleration that is wanted, with limited tilt
        wanted = (self.sim.velocity_gain * gain)[:, None] * (command - qvel[:, :3])
        thrust, target = thrust_and_attitude(wanted, self.yaw_held, LEAST_LIFT_G, self.sim.max_tilt_deg)
        # attitude: the body rates that turn the drone's axes to those of the thrust and the yaw
        twist = rotation.transpose(1, 2) @ target
        twist = (twist - twist.transpose(1, 2)) / 2
        error = torch.stack((twist[:, 2, 1], twist[:, 0, 2], twist[:, 1, 0]), -1)
        # rate: the angular acceleration, and the controls for it and the lift
        turn = self._rate_gain * (self._attitude_gain * error - rates)
        lift = (thrust * rotation[..., 2]).sum(-1, keepdim=True)
        controls = torch.cat((lift, turn), -1) @ (self._mixer @ self._inertia).T
        return controls.clamp(self._limits[:, 0], self._limits[:, 1])


class MujocoLidar:
    """LiDAR by MuJoCo's rays. The beams are level, as a stabilized sensor's: they turn with the yaw alone."""

    backend = "native"

    def __init__(
        self, config: LidarConfig, worlds: Sequence[np.ndarray], num: int, movers: MovingObstacles | None = None
    ) -> None:
        self.config, self._mujoco = config, load_mujoco()
        each = num // len(worlds)
        self.slices = [slice(k * each, (k + 1) * each) for k in range(len(worlds))]
        # models of their own, without drones: rays are five times as fast in them
        self.models = [build_field(boxes, movers) for boxes in worlds]
        self.datas = [self._mujoco.MjData(model) for model in self.models]
        for model, data in zip(self.models, self.datas, strict=True):
            self._mujoco.mj_forward(model, data)
        self._table = config.directions()

    def measure(self, pos: Tensor, yaw: Tensor) -> Scan:
        """Return distances [N, azimuths, elevations] (m) to static obstacles and ground, at most the range."""
        distance = self._cast(pos, yaw, STATIC)
        return Scan(distance, distance.amin((1, 2)), distance.clamp(min=1e-6).log().mean((1, 2)))

    def scan_movers(self, pos: Tensor, yaw: Tensor, movers: MovingObstacles) -> Tensor:
        """Return distances [N, azimuths, elevations] (m) to moving obstacles, at most the range."""
        self.place(movers)
        return self._cast(pos, yaw, MOVING)

    def place(self, movers: MovingObstacles) -> None:
        """Put the moving obstacles where they are now."""
        for k, (model, data) in enumerate(zip(self.models, self.datas, strict=True)):
            data.mocap_pos[:] = movers.pos[k].numpy()
            self._mujoco.mj_kinematics(model, data)

    def _cast(self, pos: Tensor, yaw: Tensor, group: int) -> Tensor:
        shape = len(pos), self.config.azimuths, len(self.config.elevations_deg)
        return self.cast(pos, level_rotation(yaw.double()), self._table, (group,), self.config.range_m).view(shape)

    def cast(self, pos: Tensor, rotation: Tensor, table: Tensor, groups: Sequence[int], range_m: float) -> Tensor:
        """Return the distances [N, R] (m) along rays [R, 3], turned by `rotation` [N, 3, 3], to the geoms of groups."""
        beams = torch.einsum("nij,rj->nri", rotation, table.double())
        origins, vectors = pos.double().numpy(), beams.flatten(1).numpy()
        distance = np.empty((len(pos), len(table)))
        chosen = np.zeros(6, np.uint8)
        chosen[list(groups)] = 1

        def scan(k: int) -> None:
            hit = np.empty(distance.shape[1], np.int32)
            for i in range(self.slices[k].start, self.slices[k].stop):
                inputs = self.models[k], self.datas[k], origins[i], vectors[i], chosen
                self._mujoco.mj_multiRay(*inputs, 1, -1, hit, distance[i], len(hit), range_m)

        in_parallel([partial(scan, k) for k in range(len(self.models))])
        missed = (distance < 0) | (distance > range_m)
        return torch.from_numpy(np.where(missed, range_m, distance)).float()

    def cast_one(self, pos: Tensor, ray: Tensor, groups: Sequence[int], range_m: float) -> float:
        """Return the distance (m) along one ray in the first map. It is exact: `cast` leaves out a box if no ray is
        between the directions of its corners."""
        chosen = np.zeros(6, np.uint8)
        chosen[list(groups)] = 1
        place = pos.double().numpy(), ray.numpy()
        found = self._mujoco.mj_ray(self.models[0], self.datas[0], *place, chosen, 1, -1, np.zeros(1, np.int32))
        return min(found, range_m) if found >= 0 else range_m


def frame_of(config: NavigationConfig) -> Airframe | None:
    """Return the parameters of `env.drone`."""
    return None if config.drone is None else Airframe.read(Path(config.drone))


def equal_gains(sim: SimConfig, dt_s: float, frame: Airframe | None = None) -> SimConfig:
    """Return `sim` with the gains, the tilt limit and the rotor lag of our quadrotor."""
    frame = frame or Airframe()
    tilt, yaw = (frame.attitude_gain[k] / frame.rate_gain[k] for k in (0, 2))
    tilt_rate, yaw_rate = (frame.rate_gain[k] / frame.inertia[k] for k in (0, 2))
    sim = replace(sim, velocity_gain=VELOCITY_GAIN, motor_lag_s=frame.lag_s(dt_s), max_tilt_deg=frame.max_tilt_deg)
    return replace(sim, attitude_gain=(tilt, yaw), rate_gain=(tilt_rate, yaw_rate))


def own_gains(sim: SimConfig, dt_s: float, frame: Airframe | None) -> SimConfig:
    """Return `sim` with the gains of `env.drone`, where the user has set no others."""
    if frame is None or sim.model:
        return sim
    own, plain = equal_gains(sim, dt_s, frame), SimConfig()
    gains = ("velocity_gain", "motor_lag_s", "max_tilt_deg", "attitude_gain", "rate_gain")
    return replace(sim, **{name: getattr(own, name) for name in gains if getattr(sim, name) == getattr(plain, name)})


class MujocoEnv(NavigationEnv):
    """NavigationEnv with MuJoCo's rigid bodies, rays and contacts, for evaluations on a CPU.

    Worlds, moving obstacles, observations, disturbances and clocks are those of NavigationEnv. `env.dynamics` has no
    effect.
    """

    def __init__(self, num_envs: int, seed: int, config: NavigationConfig, sim: SimConfig) -> None:
        if config.swarm > 1:
            groups = f"groups of env.swarm={config.swarm}"
            raise ConfigError(f"MuJoCo flies each drone alone, not in {groups}: add env.swarm=1")
        self.sim = sim if sim.radius_m is None or sim.hull_m else replace(sim, hull_m=config.body_radius_m)
        self.first_cause = np.zeros(num_envs, np.int64)  # of each drone's first collision, an index of CAUSES
        super().__init__(num_envs, "cpu", seed, config)

    def _make_physics(self) -> tuple[Any, Any]:
        boxes = [self.grid.boxes_of_world(k) for k in range(len(self.world_seeds))]
        config, movers = self.config, self.movers if self.movers.count else None
        seen = movers if config.lidar_sees_moving or config.camera.count else None
        lidar = MujocoLidar(config.lidar, boxes, self.num_envs, seen)
        frame = frame_of(config)
        self.sim = own_gains(self.sim, config.dt_s, frame)
        self.simulated = MujocoDrones(self.sim, boxes, self.num_envs, config.dt_s, movers, frame)
        return lidar, self.simulated

    def _advance_physics(self, command: Tensor, steps: int) -> None:
        for _ in range(steps):  # contacts are found at each step
            self.drone.advance(command, self.disturbance.variation)
            self.movers.advance()

    def cast(self, pos: Tensor, rotation: Tensor, rays: Rays, range_m: float, world_of: Tensor | None = None) -> Tensor:
        """As that of NavigationEnv, by MuJoCo's rays; each drone is in its own map."""
        if self.movers.count:
            self.lidar.place(self.movers)
        return self.lidar.cast(pos, rotation.double(), rays.table, (STATIC, MOVING), range_m)

    def _collided(self) -> Tensor:
        z, config = self.drone.pos[:, 2].numpy(), self.config
        cause = np.where((z < config.min_height_m) | (z > config.max_height_m), HEIGHT, self.simulated.cause)
        self.first_cause = np.where(self.first_cause == 0, cause, self.first_cause)
        return torch.from_numpy(cause > 0)


def in_parallel(work: Sequence[Callable[[], None]]) -> None:
    """Call each function, on as many threads as torch has: MuJoCo releases the interpreter."""
    if min(torch.get_num_threads(), len(work)) == 1:
        for one in work:
            one()
    else:
        list(_pool(torch.get_num_threads()).map(lambda one: one(), work))


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, "mujoco")
