"""Which map each world has, and where drones start and fly to in it."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from slipstream.config.help import ConfigError, nearest
from slipstream.tasks.navigation.physics.generators import GENERATORS, generate
from slipstream.tasks.navigation.physics.map_files import list_maps, read_map
from slipstream.tasks.navigation.physics.maps import place_boxes
from slipstream.tasks.navigation.physics.voxels import Solid, VoxelWorld, distance_field, fill_boxes, grid_of

if TYPE_CHECKING:
    from slipstream.tasks.navigation.env import NavigationConfig

MAPS = ("boxes", *GENERATORS)
GENERATED_VOXEL_M, FILE_VOXEL_M, BOXES_VOXEL_M = 0.2, 0.1, 0.1  # the blocks of map=boxes fit into cubes of 0.1 m
ABOVE_M = 1.0  # the voxels above env.max_height_m
BLOCKS_TOP_M = 6.0  # of map=boxes
ROUTES = 1024  # drawn per world
MAX_ROUTES, MAX_WAYPOINTS = 10_000, 64
START_HEIGHTS_M = (0.5, 2.5)
ROOM_M = 0.1  # between a body at its start and an obstacle


def build_solids(config: NavigationConfig, seeds: list[int]) -> tuple[list[Solid], np.ndarray]:
    """Return the voxels of each world, and the offsets [K, 3] from the coordinates of its file to those of the map.

    World k has the file k, counted around, if `env.map` is a folder.
    """
    top_m, half_m, still = config.max_height_m + ABOVE_M, config.map_half_m, np.zeros((len(seeds), 3))
    if config.map == "boxes":
        return [_solid_blocks(seed, config.num_obstacles, half_m) for seed in seeds], still
    if config.map in GENERATORS:
        density = config.density if isinstance(config.density, list) else [config.density] * 2
        voxel_m = config.voxel_m or GENERATED_VOXEL_M
        return [generate(config.map, s, (density[0], density[1]), half_m, top_m, voxel_m) for s in seeds], still
    path = Path(config.map)
    if not path.exists():
        hint = f"{nearest(config.map, MAPS)}; generated maps are {', '.join(MAPS)}"
        raise ConfigError(f"env.map={config.map}: there is no such file or folder{hint}")
    files = list_maps(path)
    read = [read_map(f, config.ground_m, top_m, config.voxel_m or FILE_VOXEL_M) for f in files[: len(seeds)]]
    if len({solid.voxel_m for solid, _ in read}) > 1:
        raise ConfigError(f"env.map={config.map}: its files have voxels of different sizes: use files of one size")
    chosen = [read[k % len(read)] for k in range(len(seeds))]
    return [solid for solid, _ in chosen], np.stack([offset for _, offset in chosen])


def _solid_blocks(seed: int, count: int, half_m: float) -> Solid:
    """Return the blocks of map=boxes as voxels, without loss."""
    x, y, half_x, half_y, height = place_boxes(seed, count, half_m).astype(np.float64).T
    corners = np.array((-half_m, -half_m, 0)), np.array((half_m, half_m, BLOCKS_TOP_M))
    solid = grid_of(*corners, BOXES_VOXEL_M, "env.map=boxes")
    fill_boxes(solid, np.stack((x, y, 0 * x, half_x, half_y, height, 0 * x), -1))
    return solid


def half_side(solids: list[Solid]) -> float:
    """Return half the side (m) of the square that holds all maps."""
    return float(max(np.abs(np.stack((s.origin, s.origin + s.size_m)))[:, :2].max() for s in solids))


@dataclass
class Routes:
    """P ways in each of K worlds: a start, and one goal after the other."""

    start: Tensor  # [K, P, 3] m
    goals: Tensor  # [K, P, W, 3] m; the last one is repeated
    legs: Tensor  # [K, P] int64: how many goals are real

    def take(self, world_of: Tensor, row: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the starts [N, 3], goals [N, W, 3] and numbers of goals [N] of rows [N]."""
        return self.start[world_of, row], self.goals[world_of, row], self.legs[world_of, row]


def reachable(solid: Solid, config: NavigationConfig) -> np.ndarray:
    """Return the voxels [nx, ny, nz] bool where a drone fits that reach each other: the largest such region."""
    from slipstream.tasks.navigation.physics.voxels_native import regions

    v, heights = solid.voxel_m, solid.origin[2] + (np.arange(solid.voxels.shape[2]) + 0.5) * solid.voxel_m
    free = (distance_field(solid.voxels) - 0.5) * v >= config.body_radius_m - 1e-6
    free &= (heights >= config.min_height_m) & (heights <= config.max_height_m)
    return regions(np.pad(free, 1))[1:-1, 1:-1, 1:-1]


def draw_routes(solids: list[Solid], seeds: list[int], config: NavigationConfig, device: torch.device) -> Routes:
    """Draw starts, and goals far from them, in the free space of each world."""
    regions: dict[int, np.ndarray] = {}
    places = []
    for k, (solid, seed) in enumerate(zip(solids, seeds, strict=True)):
        if id(solid) not in regions:
            regions[id(solid)] = reachable(solid, config)
        cells = np.argwhere(regions[id(solid)])
        if not len(cells):
            where = f"between {config.min_height_m:g} and {config.max_height_m:g} m in voxels of {solid.voxel_m:g} m"
            remedy = f"set a smaller env.voxel_m or env.body_radius_m={config.body_radius_m:g}"
            raise ConfigError(f"env.map={config.map}, world {k}: no place is free for a drone {where}: {remedy}")
        height = solid.origin[2] + (cells[:, 2] + 0.5) * solid.voxel_m
        usual = (height >= START_HEIGHTS_M[0]) & (height <= START_HEIGHTS_M[1])
        usual &= (distance_field(solid.voxels)[tuple(cells.T)] - 0.5) * solid.voxel_m >= config.body_radius_m + ROOM_M
        cells = cells[usual] if usual.any() else cells
        rng = np.random.default_rng((seed, 1))
        drawn = cells[rng.integers(0, len(cells), (5, ROUTES))]
        points = solid.origin + (drawn + 0.5) * solid.voxel_m  # [5, P, 3]
        farthest = np.linalg.norm(points[1:, :, :2] - points[0, :, :2], axis=-1).argmax(0)
        places.append(np.stack((points[0], points[1 + farthest, np.arange(ROUTES)]), 1))
    table = torch.from_numpy(np.stack(places)).float().to(device)  # [K, P, 2, 3]
    legs = torch.ones(table.shape[:2], dtype=torch.int64, device=device)
    return Routes(table[:, :, 0].contiguous(), table[:, :, 1:].contiguous(), legs)


def read_routes(
    path: Path, world: VoxelWorld, offsets: np.ndarray, config: NavigationConfig, device: torch.device
) -> Routes:
    """Read a CSV file with one way per line: x, y, z of the start, of each waypoint, and of the goal, in the
    coordinates of the map's file. Each must be free and reachable in each world."""
    rows: list[np.ndarray] = []
    if not path.is_file():
        raise ConfigError(f"env.goals={path}: there is no such file (any and opposite draw goals by themselves)")
    with open(path, encoding="utf-8-sig", newline="") as file:
        for number, line in enumerate(csv.reader(file), 1):
            try:
                values = np.array([float(x) for x in line if x.strip()])
            except ValueError:
                if number == 1:  # the names of the columns
                    continue
                raise ConfigError(f"{path}, line {number}: it has a word where a number must be") from None
            if not line:
                continue
            if not 6 <= len(values) <= 3 * MAX_WAYPOINTS or len(values) % 3 or not np.isfinite(values).all():
                what = f"x, y, z of a start and of 1 to {MAX_WAYPOINTS - 1} goals, not {len(values)} numbers"
                raise ConfigError(f"{path}, line {number}: it needs {what}")
            rows.append(values.reshape(-1, 3))
            if len(rows) > MAX_ROUTES:
                raise ConfigError(f"{path}: it has more than {MAX_ROUTES:,} lines")
    if not rows:
        raise ConfigError(f"{path}: it has no ways: write x, y, z of a start and a goal on each line")
    most = max(map(len, rows))
    padded = np.stack([np.concatenate((row, np.repeat(row[-1:], most - len(row), 0))) for row in rows])  # [P, W + 1, 3]
    checked: set[int] = set()
    for k, (solid, offset) in enumerate(zip(world.solids, offsets, strict=True)):
        if id(solid) not in checked:
            _check_places(path, [row + offset for row in rows], rows, solid, config, k)
        checked.add(id(solid))
    table = torch.from_numpy(padded[None] + offsets[:, None, None]).float().to(device)
    legs = torch.tensor([len(row) - 1 for row in rows], device=device).expand(len(table), -1)
    return Routes(table[:, :, 0].contiguous(), table[:, :, 1:].contiguous(), legs.contiguous())


def _check_places(
    path: Path, rows: list[np.ndarray], given: list[np.ndarray], solid: Solid, config: NavigationConfig, world: int
) -> None:
    """Raise ConfigError, with the coordinates, for a place where a drone cannot be."""
    region = np.pad(reachable(solid, config), 1)
    size = np.array(solid.voxels.shape)
    for line, (places, shown) in enumerate(zip(rows, given, strict=True), 1):
        for place, text in zip(places, shown, strict=True):
            cell = np.floor((place - solid.origin) / solid.voxel_m).astype(int)
            outside = bool((cell[:2] < 0).any() or (cell[:2] >= size[:2]).any())  # what is beside the map is free
            near = tuple(slice(max(c, 0), c + 3) for c in cell)  # the voxel and its neighbors
            if not config.min_height_m <= place[2] <= config.max_height_m:
                why = f"is not between env.min_height_m={config.min_height_m:g} and env.max_height_m={config.max_height_m:g}"
            elif outside or region[near].any():
                continue
            else:
                why = f"is within {config.body_radius_m:g} m of an obstacle, or cannot be reached"
            x, y, z = text
            raise ConfigError(f"{path}, way {line}: ({x:g}, {y:g}, {z:g}) {why} in map {world}")
