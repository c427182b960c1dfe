"""What a real drone needs to know of the env: the facts of an exported file."""

from __future__ import annotations

from dataclasses import asdict
from itertools import product
from typing import Any

from slipstream.deploy.sensors import Deployment
from slipstream.tasks.navigation.env import NEAREST, NavigationConfig
from slipstream.tasks.navigation.physics.obstacles import BOX_HEIGHT_M, PILLAR_HEIGHT_M, WIDTHS_M
from slipstream.tasks.navigation.physics.quadrotor import VELOCITY_GAIN


def describe(config: NavigationConfig) -> Deployment:
    """Return the sensors and limits of the env."""
    return Deployment(
        decision_s=config.dt_s * config.decision_interval,
        range_m=config.lidar.range_m,
        azimuths=config.lidar.azimuths,
        elevations_deg=tuple(config.lidar.elevations_deg),
        fov_deg=config.lidar.fov_deg,
        lidar_sees_moving=config.lidar_sees_moving,
        observe_moving=config.observe_moving,
        nearest=NEAREST,
        widths_m=WIDTHS_M,
        heights_m=(BOX_HEIGHT_M, PILLAR_HEIGHT_M),
        max_speed_mps=config.max_speed_mps,
        radius_m=config.body_radius_m,
        goal_radius_m=config.goal_radius_m,
        height_limits_m=(config.min_height_m, config.max_height_m),
        velocity_lag_s=1 / VELOCITY_GAIN,
        camera_range_m=config.camera.range_m,
        actions=tuple(product(config.discrete_speeds_mps, repeat=3)) if config.actions == "discrete" else None,
    )


def facts(config: NavigationConfig) -> dict[str, Any]:
    """Return `describe` as plain data, for the metadata of an ONNX file."""
    return asdict(describe(config))
