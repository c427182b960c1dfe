"""MJCF models: the drone, ours or the user's, and a field of obstacles with many drones in it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from slipstream.config.help import ConfigError
from slipstream.tasks.navigation.mujoco.config import SimConfig
from slipstream.tasks.navigation.physics.obstacles import MovingObstacles
from slipstream.tasks.navigation.physics.quadrotor import GRAVITY_MPS2, Airframe

DRONE = Path(__file__).with_name("drone.xml")
HULL_HEIGHT_M = 0.1
GROUND_HALF_M = 250.0  # farther than any drone flies
STATIC, MOVING, DRONES = 0, 1, 2  # geom groups
PIECE_M = 0.5
NO_FORCE_M = 1e3  # contacts are found and end a flight; within this gap they exert no force
MAX_CONDITION = 1e6  # of the matrix from controls to lift and torques


def load_mujoco() -> Any:
    """Import MuJoCo."""
    try:
        import mujoco
    except ImportError:
        raise ImportError("sim=mujoco needs MuJoCo: pip install -e '.[mujoco]'") from None
    return mujoco


@dataclass
class Drone:
    """A drone's MJCF, and the figures that an autopilot needs. Wrenches are lift and three torques in body axes."""

    spec: Any  # mujoco.MjSpec
    body: str  # name of the body with the free joint
    inertia: np.ndarray  # [4, 4] wrench per lift acceleration (m/s²) and angular acceleration (rad/s²)
    mixer: np.ndarray  # [4, 4] controls per wrench
    hover: np.ndarray  # [4] controls
    limits: np.ndarray  # [4, 2] of the controls
    has_lag: bool  # whether the controls are filtered

    @classmethod
    def read(cls, sim: SimConfig, frame: Airframe | None = None, lag_s: float = 0.0) -> Drone:
        """Read the drone of `sim`; ours has the parameters of `frame` and its rotor lag.

        Raises ConfigError for a file that does not keep the contract of docs/mujoco.md.
        """
        mujoco = load_mujoco()
        path = Path(sim.model) if sim.model else DRONE
        if not path.is_file():
            raise FileNotFoundError(f"sim.model={path}: there is no such file")
        try:
            spec = mujoco.MjSpec.from_file(str(path))
            if frame is not None and not sim.model:
                _set_frame(spec, frame, lag_s)
            _set_hull(spec, sim, mujoco)
            model = spec.compile()
        except ValueError as error:
            raise ConfigError(f"sim.model={path}: MuJoCo cannot read it: {error}") from None
        collides = model.geom_conaffinity[model.geom_bodyid > 0].any()
        is_free = model.njnt == 1 and model.jnt_type[0] == mujoco.mjtJoint.mjJNT_FREE
        if not (is_free and model.nu == 4 and model.na in (0, 4) and collides):
            needs = "one joint, a free one, four actuators, each with one activation or none, and a geom that collides"
            has = f"{model.njnt} joints, {model.nu} actuators, {model.na} activations and {'a' if collides else 'no'} geom"
            raise ConfigError(f"sim.model={path} needs {needs} (or sim.hull_m=0.3); it has {has} that collides")
        inertia, effect = _measure(model, mujoco)
        if not np.linalg.cond(effect) < MAX_CONDITION:
            needs = "its actuators must give lift along the body's z axis and torques around all axes"
            remedy = "use sites with gear='0 0 1 0 0 DRAG', with opposite DRAG for neighbors"
            raise ConfigError(f"sim.model={path}: {needs}: {remedy}")
        mixer = np.linalg.inv(effect)
        hover = mixer @ inertia[:, 0] * GRAVITY_MPS2
        limits = np.where(model.actuator_ctrllimited[:, None], model.actuator_ctrlrange, (-np.inf, np.inf))
        if (hover < limits[:, 0]).any() or (hover > limits[:, 1]).any():
            raise ConfigError(f"sim.model={path} cannot hover: its rotors need controls of {hover.round(3).tolist()}")
        return cls(spec, model.body(model.jnt_bodyid[0]).name, inertia, mixer, hover, limits, model.na == 4)


def _set_frame(spec: Any, frame: Airframe, lag_s: float) -> None:
    """Give our drone the parameters of `env.drone`."""
    spec.body("drone").mass, spec.body("drone").inertia = frame.mass_kg, frame.inertia
    angles = np.radians(frame.rotor_angles_deg)
    for name, angle, spin in zip(("front", "left", "back", "right"), angles, frame.rotor_spin, strict=True):
        rotor = spec.actuator(name)
        spec.site(name).pos = frame.arm_m * np.cos(angle), frame.arm_m * np.sin(angle), 0
        rotor.gear, rotor.ctrlrange = (0, 0, 1, 0, 0, -frame.drag_m * spin), (0, frame.max_thrust_n)
        rotor.dynprm[0] = lag_s


def _set_hull(spec: Any, sim: SimConfig, mujoco: Any) -> None:
    """Let the drone collide with obstacles alone: by its own geoms, or by a cylinder of `sim.hull_m` instead."""
    free = [joint.parent for joint in spec.joints if joint.type == mujoco.mjtJoint.mjJNT_FREE]
    if free and not free[0].name:
        free[0].name = "drone"
    for geom in spec.geoms:
        collides = not sim.radius_m and bool(geom.contype or geom.conaffinity)
        geom.contype, geom.conaffinity, geom.group = 0, int(collides), DRONES
    if sim.radius_m and free:
        size, cylinder = [sim.radius_m, HULL_HEIGHT_M / 2, 0], mujoco.mjtGeom.mjGEOM_CYLINDER
        free[0].add_geom(type=cylinder, size=size, mass=0, contype=0, conaffinity=1, group=DRONES)
    for actuator in spec.actuators if sim.motor_lag_s else ():
        actuator.dyntype = mujoco.mjtDyn.mjDYN_FILTEREXACT
        actuator.dynprm[0] = sim.motor_lag_s


def _measure(model: Any, mujoco: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the drone's inertia [4, 4], and the wrench [4, 4] per unit of each control."""
    data = mujoco.MjData(model)
    data.qpos[:] = 0, 0, 0, 1, 0, 0, 0
    mujoco.mj_forward(model, data)
    mass = np.zeros((6, 6))
    mujoco.mj_fullM(model, mass, data.qM)
    idle, effect = data.qfrc_actuator.copy(), np.zeros((6, 4))
    for k in range(4):
        amount = model.actuator_ctrlrange[k, 1] if model.actuator_ctrllimited[k] else 1.0
        for controls in (data.ctrl, data.act):  # without activations the latter is empty
            controls[:] = 0
            controls[k : k + 1] = amount
        mujoco.mj_forward(model, data)
        effect[:, k] = (data.qfrc_actuator - idle) / (amount or 1.0)
    return mass[2:, 2:], effect[2:]


def split_boxes(boxes: np.ndarray) -> np.ndarray:
    """Return boxes of merged voxels [M, 6] as pieces with sides of at most PIECE_M; others as they are.

    `mj_multiRay` leaves out a box if no ray is between the directions of its corners. From close by, the middle of a
    long wall is beyond them: 0.4 % of the beams in rooms went through walls.
    """
    if boxes.shape[1] == 5:
        return boxes
    for axis in (0, 1):
        count = np.maximum(np.ceil(2 * boxes[:, 2 + axis] / PIECE_M - 1e-6), 1).astype(int)
        number = np.arange(count.sum()) - np.repeat(count.cumsum() - count, count)
        boxes, count = np.repeat(boxes, count, 0), np.repeat(count, count)
        half = boxes[:, 2 + axis] / count
        boxes[:, axis] += (2 * number + 1 - count) * half
        boxes[:, 2 + axis] = half
    return boxes


def build_field(
    boxes: np.ndarray,
    movers: MovingObstacles | None,
    drone: Drone | None = None,
    drones: int = 0,
    step_s: float = 0.004,
) -> Any:
    """Return the MjModel of one map: its boxes [M, 5 or 6], moving obstacles as mocap bodies, and free-flying drones.

    Drones collide with the ground and the obstacles, not with one another. The joints, bodies and actuators of the
    drones are in their order. All boxes are geoms of the world body: MuJoCo finds them by one tree.
    """
    mujoco = load_mujoco()
    box, cylinder = mujoco.mjtGeom.mjGEOM_BOX, mujoco.mjtGeom.mjGEOM_CYLINDER
    obstacle = {"contype": 1, "conaffinity": 0, "gap": NO_FORCE_M}
    spec = mujoco.MjSpec()
    spec.copy_during_attach = True
    spec.option.timestep = step_s
    spec.option.disableflags |= mujoco.mjtDisableBit.mjDSBL_AUTORESET  # one diverged drone must not reset all
    world = spec.worldbody
    # a box, because rays with a cutoff miss a plane
    ground = {"size": [GROUND_HALF_M, GROUND_HALF_M, 1], "pos": [0, 0, -1]}
    world.add_geom(name="ground", type=box, group=STATIC, **ground, **obstacle)
    for x, y, half_x, half_y, top, *rest in split_boxes(boxes.astype(float)).tolist():
        low = rest[0] if rest else 0.0
        size, pos = [half_x, half_y, (top - low) / 2], [x, y, (top + low) / 2]
        world.add_geom(type=box, size=size, pos=pos, group=STATIC, **obstacle)
    if movers is not None and movers.count:
        for width, height, pillar in zip(movers.width.tolist(), movers.height.tolist(), movers.pillar.tolist()):  # noqa: B905
            size = [width / 2, height / 2, 0] if pillar else [width / 2, width / 2, height / 2]
            body = world.add_body(mocap=True)
            body.add_geom(type=cylinder if pillar else box, size=size, group=MOVING, **obstacle)
    if drone is not None:
        for name in ("density", "viscosity", "wind"):  # the air, which its MJCF may have
            setattr(spec.option, name, getattr(drone.spec.option, name))
        for k in range(drones):
            world.add_frame().attach_body(drone.spec.body(drone.body), f"{k}/", "")
    return spec.compile()
