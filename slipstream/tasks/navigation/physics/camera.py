"""Depth cameras: images of distances along the optical axis, by the rays of the LiDAR."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from slipstream.config.validation import check_range
from slipstream.envs.specs import Box
from slipstream.sim.random import MAX_WIDTH, CounterRandom, derive_seed
from slipstream.tasks.navigation.physics.lidar import TILES, Rays

MAX_PIXELS = 1 << 20  # of all cameras of a drone; a file from somebody else may ask for any number
STORED = {"uint8": torch.uint8, "float16": torch.float16}


@dataclass
class CameraConfig:
    """The settings of `env.camera.*`: depth cameras of one kind, on the body. None by default."""

    yaws_deg: tuple[float, ...] = ()  # one camera for each, to the left of the nose: [0], or [-45,45]
    width: int = 64  # pixels
    height: int = 48
    fov_deg: float = 90.0  # from left to right; pixels are square
    range_m: float = 10.0  # of the depth
    mount_m: tuple[float, float, float] = (0.0, 0.0, 0.0)  # in body axes: forward, left, up
    pitch_deg: float = 0.0  # up
    noise: float = 0.0  # standard deviation of each pixel, as a share of its depth
    dropout: float = 0.0  # share of pixels without a reading
    stored: str = "uint8"  # or float16

    def __post_init__(self) -> None:
        check_range(self, "width", "height", minimum=8, maximum=MAX_WIDTH, section="env.camera.")
        check_range(self, "fov_deg", minimum=1, maximum=150, section="env.camera.")
        check_range(self, "range_m", above=0, maximum=200, section="env.camera.")
        check_range(self, "noise", minimum=0, section="env.camera.")
        check_range(self, "pitch_deg", minimum=-90, maximum=90, section="env.camera.")
        check_range(self, "dropout", minimum=0, maximum=0.99, section="env.camera.")
        if self.stored not in STORED:
            raise ValueError(f"unknown env.camera.stored '{self.stored}': use {' or '.join(STORED)}")
        if self.count * self.width * self.height > MAX_PIXELS:
            raise ValueError(f"env.camera has more than {MAX_PIXELS:,} pixels: set fewer cameras, width or height")

    @property
    def count(self) -> int:
        """The number of cameras."""
        return len(self.yaws_deg)

    @property
    def spec(self) -> Box:
        """The observation: 0 where nothing is in range, the highest value at the lens."""
        high = 255.0 if self.stored == "uint8" else 1.0
        numbers = torch.arange(1, 1 + self.count * self.height * self.width).view(self.count, self.height, self.width)
        is_symmetric = [-yaw for yaw in reversed(self.yaws_deg)] == list(self.yaws_deg) and self.mount_m[1] == 0
        mirror = tuple(numbers.flip(0, 2).flatten().tolist()) if is_symmetric else ()
        return Box(tuple(numbers.shape), 0.0, high, STORED[self.stored], mirror)

    def directions(self) -> Tensor:
        """Return the pixels [height, width, 3] as unit vectors, float64; the x axis is the optical axis, z is up."""
        focal = self.width / 2 / math.tan(math.radians(self.fov_deg) / 2)  # in pixels
        left = self.width / 2 - 0.5 - torch.arange(self.width, dtype=torch.float64)
        up = self.height / 2 - 0.5 - torch.arange(self.height, dtype=torch.float64)
        shape = self.height, self.width
        rays = torch.stack((torch.full(shape, focal), left.expand(shape), up[:, None].expand(shape)), -1)
        return rays / rays.norm(dim=-1, keepdim=True)

    def mounts(self) -> Tensor:
        """Return the rotation [cameras, 3, 3] of each camera on the body."""
        yaw = torch.deg2rad(torch.tensor(self.yaws_deg, dtype=torch.float64))
        pitch = torch.full_like(yaw, math.radians(self.pitch_deg))
        (cy, sy), (cp, sp), zero = (yaw.cos(), yaw.sin()), (pitch.cos(), pitch.sin()), torch.zeros_like(yaw)
        return torch.stack((cy * cp, -sy, -cy * sp, sy * cp, cy, -sy * sp, sp, zero, cp), -1).unflatten(-1, (3, 3))


# (pos [N, 3], rotation [N, 3, 3], rays, range_m) -> distances [N, R] to all that is there
Cast = Callable[[Tensor, Tensor, Rays, float], Tensor]


class Camera:
    """The depth cameras of N drones."""

    def __init__(self, config: CameraConfig, num: int, seed: int, device: torch.device, backend: str) -> None:
        self.config = config
        rays, (rows, columns) = config.directions(), TILES[backend]
        row, column = torch.meshgrid(torch.arange(config.height), torch.arange(config.width), indexing="ij")
        key = ((row // rows * config.width + column // columns) * rows + row % rows) * columns + column % columns
        order = key.flatten().argsort()  # tile by tile
        self._place = order.argsort().to(device)  # of each pixel
        self.rays = Rays.build(rays.flatten(0, 1)[order], backend, device)
        self._along = self.rays.table[:, 0].contiguous()  # of a ray along the optical axis
        self._reach_m = config.range_m / float(rays[..., 0].min())  # of the longest ray
        self._mounts = config.mounts().float().to(device)
        self._offset = torch.tensor(config.mount_m, device=device)
        stream = lambda name: CounterRandom([derive_seed(seed, name)], num * config.count * config.height, device)  # noqa: E731
        self._noise_random, self._drop_random = stream("camera/noise"), stream("camera/dropout")

    def depth(self, pos: Tensor, attitude: Tensor, cast: Cast) -> Tensor:
        """Return the depths [N, cameras, height, width] (m), at most the range, of drones at `pos` [N, 3] with
        `attitude` [N, 3, 3]."""
        config, images = self.config, []
        lens = pos + attitude @ self._offset
        for mount in self._mounts:
            distance = cast(lens, attitude @ mount, self.rays, self._reach_m)
            images.append((distance * self._along).clamp_(max=config.range_m).index_select(1, self._place))
        return torch.stack(images, 1).unflatten(-1, (config.height, config.width))

    def read(self, depth: Tensor, clock: Tensor) -> Tensor:
        """Return the observation of depths, with the noise of decision `clock`."""
        config, rows = self.config, (-1, self.config.width)
        if config.noise:
            noise = self._noise_random.normal(clock, config.width).view_as(depth)
            depth = depth * (1 + config.noise * noise)
        near = (1 - depth / config.range_m).clamp_(0, 1)
        if config.dropout:
            near.view(rows).mul_(self._drop_random.uniform(clock, config.width) >= config.dropout)
        return (near * 255 + 0.5).to(torch.uint8) if config.stored == "uint8" else near.half()
