"""`slipstream map show`: what an env makes of a map, as a table and a picture."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np

from slipstream.tasks.navigation.env import NavigationConfig
from slipstream.tasks.navigation.figures import FlightPicture
from slipstream.tasks.navigation.physics.map_files import list_maps
from slipstream.tasks.navigation.physics.places import MAPS, build_solids, half_side, reachable
from slipstream.tasks.navigation.physics.voxels import merge_boxes
from slipstream.ui.tables import TextTable

MOST = 16  # maps of a folder that are shown
CUT_M = 2.0  # what begins above is not drawn, so that doors are seen


def show_map(config: NavigationConfig, out: Path) -> None:
    """Print a table of the maps of `env.map`, and draw the first as a PNG."""
    files = [Path(config.map)] if config.map in MAPS or not Path(config.map).is_dir() else list_maps(Path(config.map))
    seeds = (config.world_seeds or [0])[: 1 if config.map in MAPS else MOST]
    seeds = seeds if config.map in MAPS else [0] * min(len(files), MOST)
    solids, offsets = build_solids(replace(config, num_worlds=len(seeds), world_seeds=[]), seeds)
    rows = []
    for file, solid, offset in zip(files, solids, offsets, strict=False):
        heights = solid.origin[2] + (np.arange(solid.voxels.shape[2]) + 0.5) * solid.voxel_m
        flown = (heights >= config.min_height_m) & (heights <= config.max_height_m)
        free = reachable(solid, config)[:, :, flown].mean()
        size = " × ".join(f"{x:.1f}" for x in solid.size_m)
        middle = f"{0.0 - offset[0]:.2f}, {0.0 - offset[1]:.2f}"
        count, memory = f"{solid.voxels.size:,}", f"{solid.voxels.size / 2**20:.1f} MB"
        shares = f"{solid.voxels.mean():.1%}", f"{free:.1%}"
        rows.append([file.name, size, f"{solid.voxel_m:g} m", count, *shares, memory, middle])
    header = ["map", "size, m", "voxel", "voxels", "solid", "free to fly", "memory", "middle in the file"]
    print(TextTable("maps", header, rows, left=1).render())
    if len(files) > len(rows):
        print(f"({len(files) - len(rows)} more maps in {config.map})")
    none = np.zeros((1, 0, 3))
    half_m = math.ceil(half_side(solids[:1]))
    boxes = merge_boxes(solids[0])
    boxes = boxes[boxes[:, 5] < CUT_M]
    picture = FlightPicture(boxes, none, np.zeros(0), np.zeros((0, 2)), none, np.zeros(0), rows[0][0], half_m)
    print(f"picture: {picture.png(out)}")
