"""Generated maps: forest, corridors, rooms, warehouse. A seed gives the same map on every device.

`density` in [0, 1] means: of a forest, the trees (1: one per 2 m²); of corridors, how narrow they are (0: 4 m, 1:
1.6 m); of rooms, how small they are and how much furniture they have; of a warehouse, the share of places with goods.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from slipstream.tasks.navigation.physics.voxels import Solid, fill_boxes, grid_of

WALL_M = 0.2  # half of a wall's thickness is 0.1
DOOR_M, DOOR_HEIGHT_M, DOOR_EVERY_M = 1.6, 2.4, 5.0
EMPTY = np.zeros((0, 7))


def generate(kind: str, seed: int, density: tuple[float, float], half_m: float, top_m: float, voxel_m: float) -> Solid:
    """Return a map of ±`half_m`, `top_m` high; its density is drawn from the range."""
    rng = np.random.default_rng(seed)
    solid = grid_of(np.array((-half_m, -half_m, 0)), np.array((half_m, half_m, top_m)), voxel_m, f"env.map={kind}")
    GENERATORS[kind](rng, rng.uniform(*density), solid, half_m, top_m)
    return solid


def grow_forest(rng: np.random.Generator, density: float, solid: Solid, half_m: float, top_m: float) -> None:
    """Trunks with crowns, some of them low: a drone may fly below a crown."""
    count = round(density * (2 * half_m) ** 2 / 2)
    places = rng.uniform(-half_m, half_m, (count, 2))
    radii, heights = rng.uniform(0.1, 0.3, count), rng.uniform(0.5, 1.1, count) * top_m
    crowns = rng.uniform(0.5, 1.1, (count, 2))  # half width, half height
    for (x, y), radius, height, (wide, tall) in zip(places, radii, heights, crowns, strict=True):
        _fill_ellipsoid(solid, (x, y, 0.0), (radius, radius, height), is_column=True)
        if wide < 0.8:  # half of the trees have a crown
            _fill_ellipsoid(solid, (x, y, height), (wide, wide, tall), is_column=False)


def _fill_ellipsoid(solid: Solid, center: tuple[float, ...], radii: tuple[float, ...], is_column: bool) -> None:
    """Mark an ellipsoid, or a column of an elliptic base that is `radii[2]` high."""
    v, shape = solid.voxel_m, np.array(solid.voxels.shape)
    middle, reach = (np.array(center) - solid.origin) / v, np.array(radii) / v
    first = np.clip(np.floor(middle - reach), 0, shape).astype(int)
    end = np.clip(np.ceil(middle + reach), 0, shape).astype(int)
    if (first >= end).any():
        return
    axes = [(np.arange(a, b) + 0.5 - m) / (r + 0.5) for a, b, m, r in zip(first, end, middle, reach, strict=True)]
    flat = axes[0][:, None, None] ** 2 + axes[1][None, :, None] ** 2
    inside = (flat <= 1) & (axes[2] >= 0) if is_column else flat + axes[2] ** 2 <= 1
    solid.voxels[first[0] : end[0], first[1] : end[1], first[2] : end[2]] |= inside


def carve_corridors(rng: np.random.Generator, density: float, solid: Solid, half_m: float, top_m: float) -> None:
    """A maze by depth-first search, with a third of its other walls opened so that there are several ways."""
    width = 4.0 - 2.4 * density
    n = max(2, int((2 * half_m) // (width + WALL_M)))
    edges = np.linspace(-half_m, half_m, n + 1)
    open_right, open_up = rng.random((n, n)) < 0.3, rng.random((n, n)) < 0.3
    seen, path = np.zeros((n, n), bool), [(int(rng.integers(n)), int(rng.integers(n)))]
    seen[path[0]] = True
    while path:
        i, j = path[-1]
        near = [(i + a, j + b) for a, b in ((1, 0), (-1, 0), (0, 1), (0, -1)) if 0 <= i + a < n and 0 <= j + b < n]
        near = [cell for cell in near if not seen[cell]]
        if not near:
            path.pop()
            continue
        chosen = near[int(rng.integers(len(near)))]
        low = min(path[-1], chosen)
        (open_right if chosen[1] == j else open_up)[low] = True
        seen[chosen] = True
        path.append(chosen)
    cell, walls = half_m / n, _outer_walls(half_m, top_m)
    for i in range(n):
        for j in range(n):
            x, y = edges[i] + cell, edges[j] + cell
            if i + 1 < n and not open_right[i, j]:
                walls.append((edges[i + 1], y, 0, WALL_M / 2, cell + WALL_M / 2, top_m, 0))
            if j + 1 < n and not open_up[i, j]:
                walls.append((x, edges[j + 1], 0, cell + WALL_M / 2, WALL_M / 2, top_m, 0))
    fill_boxes(solid, np.array(walls))


def build_rooms(rng: np.random.Generator, density: float, solid: Solid, half_m: float, top_m: float) -> None:
    """Rooms by halving, a door every 5 m of a wall with a lintel above, tables and cupboards."""
    largest = 12.0 - 8.0 * density
    things, rooms, areas = _outer_walls(half_m, top_m), [], [(-half_m, -half_m, half_m, half_m)]
    while areas:
        x0, y0, x1, y1 = areas.pop()
        wide, tall = x1 - x0, y1 - y0
        if max(wide, tall) <= largest:
            rooms.append((x0, y0, x1, y1))
            continue
        along_x = wide > tall
        cut = rng.uniform(0.35, 0.65) * max(wide, tall) + (x0 if along_x else y0)
        low, high = (y0, y1) if along_x else (x0, x1)
        doors = max(1, int((high - low) / DOOR_EVERY_M))
        each, parts, end = (high - low) / doors, [], low
        for k in range(doors):
            door = low + (k + 0.5) * each + rng.uniform(-0.5, 0.5) * max(each - DOOR_M - 0.4, 0.0)
            parts += [(end, door - DOOR_M / 2, 0.0), (door - DOOR_M / 2, door + DOOR_M / 2, DOOR_HEIGHT_M)]
            end = door + DOOR_M / 2
        for a, b, bottom in [*parts, (end, high, 0.0)]:
            middle, half = (a + b) / 2, (b - a) / 2
            wall = (cut, middle, bottom, WALL_M / 2, half) if along_x else (middle, cut, bottom, half, WALL_M / 2)
            things.append((*wall, max(top_m - bottom, 0.1), 0.0))
        areas += [(x0, y0, cut, y1), (cut, y0, x1, y1)] if along_x else [(x0, y0, x1, cut), (x0, cut, x1, y1)]
    for x0, y0, x1, y1 in rooms:
        for _ in range(rng.poisson(density * (x1 - x0) * (y1 - y0) / 12)):
            x, y, yaw = rng.uniform(x0 + 1, x1 - 1), rng.uniform(y0 + 1, y1 - 1), rng.uniform(0, np.pi)
            if rng.random() < 0.5:
                things.append((x, y, 0.7, 0.8, 0.4, 0.1, yaw))  # a table: free below
            else:
                things.append((x, y, 0.0, 0.4, 0.25, rng.uniform(1.2, 2.4), yaw))
    fill_boxes(solid, np.array(things))


def stock_warehouse(rng: np.random.Generator, density: float, solid: Solid, half_m: float, top_m: float) -> None:
    """Racks in rows with aisles between them: shelves on posts, goods on a share of the places."""
    things, aisle, depth, bay, level = _outer_walls(half_m, top_m), 2.6, 1.2, 2.4, 1.4
    for y in np.arange(-half_m + aisle, half_m - aisle, aisle + depth):
        for x in np.arange(-half_m + aisle, half_m - aisle - bay, bay):
            if rng.random() < 0.15:  # a way through
                continue
            for side in (0.0, bay):
                things.append((x + side, y, 0.0, 0.06, depth / 2, top_m, 0.0))
            for z in np.arange(level, top_m, level):
                things.append((x + bay / 2, y, z - 0.1, bay / 2, depth / 2, 0.1, 0.0))
            for z in np.arange(0.0, top_m, level):
                if rng.random() < density:
                    size = rng.uniform(0.5, 1.0, 3)
                    things.append((x + bay / 2, y, z, *(size[:2] * (bay / 2, depth / 2)), size[2] * (level - 0.2), 0.0))
    fill_boxes(solid, np.array(things))


def _outer_walls(half_m: float, top_m: float) -> list[tuple[float, ...]]:
    """Return the four walls around a map."""
    along, across = half_m - WALL_M / 2, WALL_M / 2
    sides = ((along, 0.0, across, half_m), (0.0, along, half_m, across))
    return [(s * x, s * y, 0.0, a, b, top_m, 0.0) for x, y, a, b in sides for s in (1, -1)]


Generator = Callable[[np.random.Generator, float, Solid, float, float], None]
GENERATORS: dict[str, Generator] = {
    "forest": grow_forest,
    "corridors": carve_corridors,
    "rooms": build_rooms,
    "warehouse": stock_warehouse,
}
