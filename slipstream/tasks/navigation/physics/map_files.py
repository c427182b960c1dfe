"""Maps from files: floor plans of ROS, boxes, point clouds, meshes, voxels.

A file is checked against its own length and fixed limits before memory is taken. Whatever is wrong with it is a
ConfigError of one sentence.
"""

from __future__ import annotations

import csv
import json
import math
import struct
import zipfile
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from slipstream.config.help import ConfigError
from slipstream.config.overrides import read_yaml
from slipstream.tasks.navigation.physics.voxels import MAX_VOXELS, Solid, fill_boxes, grid_of

MAX_FILE_BYTES = 2 << 30
MAX_TEXT_BYTES = 1 << 29  # of text, which is slower to read
MAX_POINTS = 50_000_000
MAX_FACES = 5_000_000
MAX_PIXELS = 100_000_000
MAX_BOXES = 100_000
BOX_COLUMNS = ("x", "y", "z", "length", "width", "height", "yaw_deg")  # z is the bottom's height above the ground
PLY_TYPES = {"char": "i1", "uchar": "u1", "short": "i2", "ushort": "u2", "int": "i4", "uint": "u4", "float": "f4"}
PLY_TYPES |= {"double": "f8", "int8": "i1", "uint8": "u1", "int16": "i2", "uint16": "u2", "int32": "i4"}
PLY_TYPES |= {"uint32": "u4", "float32": "f4", "float64": "f8"}
MESHES = (".stl", ".obj", ".glb")


class Window:
    """Which heights of a file's geometry an env uses, and how finely."""

    def __init__(self, ground_m: float, top_m: float, voxel_m: float) -> None:
        self.ground_m, self.top_m, self.voxel_m = ground_m, top_m, voxel_m

    def grid(self, low: np.ndarray, high: np.ndarray, path: Path) -> tuple[Solid, np.ndarray]:
        """Return the grid over the extents [2 or 3], from the ground up and centered on the origin, and the offset [3]
        that takes the file's coordinates to the map's."""
        middle = (np.asarray(low[:2], np.float64) + high[:2]) / 2
        offset = np.array((-middle[0], -middle[1], -self.ground_m))
        half = np.maximum(np.asarray(high[:2], np.float64) - middle, self.voxel_m)
        return grid_of(np.array((*-half, 0.0)), np.array((*half, self.top_m)), self.voxel_m, str(path)), offset


def list_maps(path: Path) -> list[Path]:
    """Return the map files that a path stands for: itself, or those of a folder by name, without floor plans' images.

    Raises ConfigError if there is none.
    """
    if path.is_file():
        return [path]
    files = sorted(f for f in path.iterdir() if f.suffix.lower() in READERS and f.is_file()) if path.is_dir() else []
    if not files:
        raise ConfigError(f"env.map={path}: there is no map file in it; these are {', '.join(READERS)}")
    return files


def read_map(path: Path, ground_m: float, top_m: float, voxel_m: float) -> tuple[Solid, np.ndarray]:
    """Return the voxels of a map file, and the offset [3] from its coordinates to those of the map."""
    try:
        facts = path.stat()
        return _read_once(path.resolve(), facts.st_mtime_ns, facts.st_size, (ground_m, top_m, voxel_m))
    except ConfigError:
        raise
    except MemoryError:
        raise ConfigError(f"{path}: it does not fit into memory: crop it, or set a larger env.voxel_m") from None
    except Exception as error:  # of a library for this format: anything, for a file that is not one
        reason = " ".join(str(error).split())[:160] or type(error).__name__
        raise ConfigError(f"{path}: it cannot be read as {path.suffix[1:].upper()}: {reason}") from error


@lru_cache(maxsize=64)
def _read_once(path: Path, changed: int, size: int, window: tuple[float, float, float]) -> tuple[Solid, np.ndarray]:
    """Read a file; the same file is kept for the next env."""
    reader = READERS.get(path.suffix.lower())
    if reader is None:
        raise ConfigError(f"{path}: maps are {', '.join(READERS)}, not {path.suffix or 'files without a suffix'}")
    if not path.is_file() or size > MAX_FILE_BYTES:
        raise ConfigError(f"{path}: it has {size / 2**30:.1f} GB, and {MAX_FILE_BYTES >> 30} GB are the most: crop it")
    return reader(path, Window(*window))


# -- floor plans and boxes -------------------------------------------------------------------------------------------


def _read_text_map(path: Path, window: Window) -> tuple[Solid, np.ndarray]:
    """Read YAML or JSON: a floor plan of ROS map_server (`image`), or a list of `boxes`."""
    if path.suffix == ".json":
        _limit_text(path, 1 << 26)
        data = json.loads(path.read_text(encoding="utf-8"))
    else:
        data = read_yaml(path)
    if isinstance(data, dict) and "image" in data:
        return _read_floor_plan(path, data, window)
    rows = data.get("boxes") if isinstance(data, dict) else data
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        columns = ", ".join(BOX_COLUMNS)
        raise ConfigError(f"{path}: it needs `image:` (a floor plan of ROS) or `boxes:`, a list of {columns}")
    return _fill(path, rows, window)


def _read_csv(path: Path, window: Window) -> tuple[Solid, np.ndarray]:
    _limit_text(path, 1 << 26)
    with open(path, encoding="utf-8-sig", newline="") as file:
        return _fill(path, list(csv.DictReader(file)), window)


def _fill(path: Path, rows: list[dict[str, Any]], window: Window) -> tuple[Solid, np.ndarray]:
    """Return the voxels of boxes, a mapping of BOX_COLUMNS each; z and yaw_deg may be left out."""
    if not 0 < len(rows) <= MAX_BOXES:
        raise ConfigError(f"{path}: it has {len(rows):,} boxes; 1 to {MAX_BOXES:,} are allowed")
    boxes = np.zeros((len(rows), 7))
    for number, row in enumerate(rows, 1):
        missing = [name for name in BOX_COLUMNS if name not in row and name not in ("z", "yaw_deg")]
        unknown = [name for name in row if name not in BOX_COLUMNS]
        try:
            boxes[number - 1] = [float(row.get(name) or 0.0) for name in BOX_COLUMNS]
        except (TypeError, ValueError):
            missing = ["a number in each column"]
        if missing or unknown:
            needs, columns = ", ".join(missing) or f"no {unknown[0]!r}", ", ".join(BOX_COLUMNS)
            raise ConfigError(f"{path}, box {number}: needs {needs} (the columns are {columns})")
    if not np.isfinite(boxes).all() or (boxes[:, 3:6] <= 0).any():
        raise ConfigError(f"{path}: lengths, widths and heights must be positive, and all numbers finite")
    boxes[:, 3:5] /= 2
    yaw = boxes[:, 6] = np.radians(boxes[:, 6])
    cos, sin = np.abs(np.cos(yaw)), np.abs(np.sin(yaw))
    reach = np.stack((boxes[:, 3] * cos + boxes[:, 4] * sin, boxes[:, 3] * sin + boxes[:, 4] * cos), -1)
    solid, offset = window.grid((boxes[:, :2] - reach).min(0), (boxes[:, :2] + reach).max(0), path)
    boxes[:, :3] += offset
    below = np.minimum(boxes[:, 2], 0)
    boxes[:, 2] -= below
    boxes[:, 5] += below  # what is below the ground is cut off
    fill_boxes(solid, boxes[boxes[:, 5] > 0])
    return solid, offset


def _read_floor_plan(path: Path, data: dict[str, Any], window: Window) -> tuple[Solid, np.ndarray]:
    """Read a map of ROS map_server. What is neither free nor occupied is solid: no drone shall start there."""
    from PIL import Image

    image_path = path.parent / Path(str(data["image"]))
    resolution, origin = float(data["resolution"]), [float(x) for x in data.get("origin", (0, 0, 0))]
    if not 0 < resolution < 10 or len(origin) < 2 or not all(map(math.isfinite, origin)):
        raise ConfigError(f"{path}: resolution={resolution:g} must be in (0, 10) m, and origin a list of x, y, yaw")
    if len(origin) > 2 and origin[2]:
        raise ConfigError(f"{path}: origin has a yaw of {origin[2]:g}: turn the image, and set it to 0")
    if image_path.suffix.lower() not in (".pgm", ".png", ".jpg", ".bmp"):
        raise ConfigError(f"{path}: image={image_path.name} must be a .pgm or .png file")
    with Image.open(image_path) as image:  # reads the header only
        if (pixels := image.width * image.height) > MAX_PIXELS:
            size = f"{image.width:,} × {image.height:,} pixels, and {MAX_PIXELS:,} are the most"
            raise ConfigError(f"{image_path}: {size}: crop or scale it, with its resolution")
        if pixels > 20_000 * max(1, image_path.stat().st_size):
            raise ConfigError(f"{image_path}: {pixels:,} pixels in so few bytes are not an image")
        gray = np.asarray(image.convert("L"), np.float32)[::-1].T / 255  # [x, y], x to the right and y up
    shade = gray if int(data.get("negate", 0)) else 1 - gray
    solid_pixel = shade > float(data.get("free_thresh", 0.196))  # occupied and unknown
    low = np.array(origin[:2])
    solid, offset = window.grid(low, low + np.array(gray.shape) * resolution, path)
    i, j = np.nonzero(solid_pixel)
    start = np.stack((i, j), -1) * resolution + low + offset[:2] - solid.origin[:2]
    v, last = solid.voxel_m, np.array(solid.voxels.shape[:2]) - 1
    first, end = np.floor(start / v + 1e-6).astype(int), np.ceil((start + resolution) / v - 1e-6).astype(int)
    plan = np.zeros(solid.voxels.shape[:2], bool)
    for a in range(math.ceil(resolution / v) + 1):  # every voxel that a pixel overlaps
        for b in range(math.ceil(resolution / v) + 1):
            cell = np.clip(np.minimum(first + (a, b), end - 1), 0, last)
            plan[cell[:, 0], cell[:, 1]] = True
    solid.voxels[:] = plan[..., None]
    return solid, offset


# -- points ----------------------------------------------------------------------------------------------------------


def _fill_points(path: Path, points: np.ndarray, window: Window) -> tuple[Solid, np.ndarray]:
    """Return the voxels that hold a point of [P, 3]."""
    keep = np.isfinite(points).all(1)
    keep &= (points[:, 2] >= window.ground_m) & (points[:, 2] < window.ground_m + window.top_m)
    points = points[keep]
    if not len(points):
        low, high = window.ground_m, window.ground_m + window.top_m
        raise ConfigError(f"{path}: it has no points between env.ground_m={low:g} and {high:g} m")
    solid, offset = window.grid(points[:, :2].min(0), points[:, :2].max(0), path)
    for part in np.array_split(points, max(1, len(points) // 1_000_000)):
        cell = ((part + offset - solid.origin) / solid.voxel_m).astype(np.int64)
        cell = np.clip(cell, 0, np.array(solid.voxels.shape) - 1)
        solid.voxels[cell[:, 0], cell[:, 1], cell[:, 2]] = True
    return solid, offset


def _limit_points(path: Path, count: int, bytes_each: int, at: int = 0) -> None:
    """Raise ConfigError if a header claims more points than are allowed, or than the file holds."""
    room = path.stat().st_size - at
    if not 0 < count <= MAX_POINTS or count * bytes_each > room:
        raise ConfigError(f"{path}: its header claims {count:,} points, in {room:,} bytes; {MAX_POINTS:,} are the most")


def _limit_text(path: Path, limit: int = MAX_TEXT_BYTES) -> None:
    if (size := path.stat().st_size) > limit:
        raise ConfigError(f"{path}: {size >> 20:,} MB of text, at most {limit >> 20} MB: save it in binary form")


def _read_rows(path: Path, file: Any, columns: tuple[int, ...], count: int | None = None) -> np.ndarray:
    """Return these columns of the text of a file that is open, or not."""
    _limit_text(path)
    points = np.loadtxt(file, np.float32, usecols=columns, max_rows=min(count or MAX_POINTS, MAX_POINTS) + 1, ndmin=2)
    return points[:count] if count else points


def _read_xyz(path: Path, window: Window) -> tuple[Solid, np.ndarray]:
    points = _read_rows(path, path, (0, 1, 2))
    if len(points) > MAX_POINTS:
        raise ConfigError(f"{path}: it has more than {MAX_POINTS:,} points: thin it out")
    return _fill_points(path, points, window)


def _read_npy(path: Path, window: Window) -> tuple[Solid, np.ndarray]:
    points = np.load(path, mmap_mode="r", allow_pickle=False)  # checks the shape against the length
    if points.ndim != 2 or points.shape[1] < 3 or points.dtype.kind not in "fiu":
        raise ConfigError(f"{path}: it holds {points.dtype} {list(points.shape)}; points are numbers of shape [P, 3]")
    _limit_points(path, len(points), 3)
    return _fill_points(path, np.array(points[:, :3], np.float32), window)


def _header(file: BinaryIO, end: str, path: Path) -> list[list[str]]:
    """Return the words of each line of a header, up to the line that begins with `end`."""
    lines: list[list[str]] = []
    while not lines or lines[-1][:1] != [end]:
        line = file.readline(4096)
        if not line or len(lines) > 1000:
            raise ConfigError(f"{path}: its header has no end")
        lines.append(line.decode("ascii", "replace").split())
    return lines


def _read_ply(path: Path, window: Window) -> tuple[Solid, np.ndarray]:
    """Read the vertices of PLY as points; a PLY with faces is a mesh."""
    with open(path, "rb") as file:
        lines = _header(file, "end_header", path)
        counts = {words[1]: int(words[2]) for words in lines if words[:1] == ["element"]}
        form = next(words[1] for words in lines if words[:1] == ["format"])
        if counts.get("face") or counts.get("tristrips"):
            return _read_mesh(path, window, claimed=max(counts.values()))
        element, columns = "", []
        for words in lines:
            element = words[1] if words[:1] == ["element"] else element
            if words[:1] == ["property"] and element == "vertex":
                columns.append((words[-1], PLY_TYPES[words[1]]))
        names = [name for name, _ in columns]
        order = tuple(names.index(axis) for axis in "xyz")
        count, is_text = counts["vertex"], form == "ascii"
        kinds = np.dtype([(name, (">" if "big" in form else "<") + kind) for name, kind in columns])
        _limit_points(path, count, 2 * len(names) if is_text else kinds.itemsize, file.tell())
        if is_text:
            return _fill_points(path, _read_rows(path, file, order, count), window)
        table = np.fromfile(file, kinds, count)
    return _fill_points(path, np.stack([table[axis] for axis in "xyz"], -1).astype(np.float32), window)


def _read_pcd(path: Path, window: Window) -> tuple[Solid, np.ndarray]:
    """Read a point cloud of PCL, as text or binary."""
    with open(path, "rb") as file:
        facts = {words[0]: words[1:] for words in _header(file, "DATA", path) if words}
        names, kinds = facts["FIELDS"], [t.lower() + s for t, s in zip(facts["TYPE"], facts["SIZE"], strict=True)]
        repeats = [int(n) for n in facts.get("COUNT", ["1"] * len(names))]
        count, form = int(facts["POINTS"][0]), facts["DATA"][0]
        if form not in ("ascii", "binary"):
            remedy = f"pcl_convert_pcd_ascii_binary {path.name} out.pcd 1 converts it"
            raise ConfigError(f"{path}: DATA {form} is not read: {remedy}")
        if form == "ascii":
            _limit_points(path, count, 2 * sum(repeats), file.tell())
            columns = tuple(sum(repeats[: names.index(axis)]) for axis in "xyz")
            return _fill_points(path, _read_rows(path, file, columns, count), window)
        fields = enumerate(zip(names, kinds, repeats, strict=True))  # a name may come twice
        table_type = np.dtype([(f"{name}{k}", f"<{kind}", (n,)) for k, (name, kind, n) in fields])
        _limit_points(path, count, table_type.itemsize, file.tell())
        table = np.fromfile(file, table_type, count)
    points = [table[f"{axis}{names.index(axis)}"][:, 0] for axis in "xyz"]
    return _fill_points(path, np.stack(points, -1).astype(np.float32), window)


# -- meshes and voxels -----------------------------------------------------------------------------------------------


def _read_mesh(path: Path, window: Window, claimed: int = 0) -> tuple[Solid, np.ndarray]:
    """Mark every voxel that a triangle touches, so that thin walls have no holes."""
    try:
        import trimesh
    except ImportError:
        raise ConfigError(f"{path}: meshes need trimesh: pip install -e '.[maps]'") from None
    size, kind = path.stat().st_size, path.suffix[1:].lower()
    with open(path, "rb") as file:
        head = file.read(84)
        if kind == "stl" and not head.startswith(b"solid"):
            claimed = struct.unpack("<I", head[80:84])[0] if len(head) == 84 else 0
            if 84 + 50 * claimed > size:
                raise ConfigError(f"{path}: its header claims {claimed:,} faces, more than its {size:,} bytes hold")
        if kind == "glb":
            claimed = _glb_elements(head, file)
        if kind in ("obj", "stl") and not claimed:
            _limit_text(path)
        if claimed > 3 * MAX_FACES:
            raise ConfigError(f"{path}: it claims {claimed:,} elements, at most {MAX_FACES:,} faces: simplify it")
        file.seek(0)
        options: dict[str, Any] = {"skip_materials": True} if kind == "obj" else {}
        scene = trimesh.load_scene(file, file_type=kind, process=False, resolver=None, **options)
    faces = sum(len(getattr(scene.geometry[scene.graph[node][1]], "faces", ())) for node in scene.graph.nodes_geometry)
    if not 0 < faces <= MAX_FACES:
        raise ConfigError(f"{path}: it has {faces:,} faces; 1 to {MAX_FACES:,} are allowed")
    triangles = np.asarray(scene.to_mesh().triangles, np.float64)
    if kind == "glb":
        triangles = triangles[..., [0, 2, 1]] * (1, -1, 1)  # glTF has y up
    edge = window.voxel_m / 2  # a face in the plane of the grid's side would belong to no voxel
    low, high = triangles[..., :2].min((0, 1)) - edge, triangles[..., :2].max((0, 1)) + edge
    solid, offset = window.grid(low, high, path)
    corners = (triangles + offset - solid.origin) / solid.voxel_m
    first, end = (np.clip(x, 0, solid.voxels.shape) for x in (np.floor(corners.min(1)), np.ceil(corners.max(1))))
    if (end - first).prod(1).sum() > 100 * MAX_VOXELS:
        raise ConfigError(f"{path}: {faces:,} faces this large take too long: simplify it, or set a larger env.voxel_m")
    from slipstream.tasks.navigation.physics.voxels_native import mark_triangles  # numba takes 0.3 s to import

    mark_triangles(corners, solid.voxels)
    return solid, offset


def _glb_elements(head: bytes, file: BinaryIO) -> int:
    """Return the number of elements that a GLB claims: its accessors may be far larger than its bytes."""
    if head[:4] != b"glTF" or head[16:20] != b"JSON":
        raise ValueError("it is not a GLB file of version 2")
    length = struct.unpack("<I", head[12:16])[0]
    if length > 1 << 26:
        raise ValueError("its description has more than 64 MB")
    file.seek(20)
    found = json.loads(file.read(length))
    return sum(int(accessor.get("count", 0)) for accessor in found.get("accessors", ())) + len(found.get("nodes", ()))


def _read_npz(path: Path, window: Window) -> tuple[Solid, np.ndarray]:
    """Read `voxels` [nx, ny, nz] (anything but 0 is solid), `voxel_m`, and `origin` [3] of the lower corner."""
    with zipfile.ZipFile(path) as archive:
        if (size := sum(info.file_size for info in archive.infolist())) > 8 * MAX_VOXELS:
            raise ConfigError(f"{path}: it unpacks to {size / 2**30:.1f} GB; {MAX_VOXELS:,} voxels are the most")
    with np.load(path, allow_pickle=False) as data:
        given, voxel_m = data["voxels"] != 0, float(data["voxel_m"])
        low = np.asarray(data["origin"], np.float64) if "origin" in data else np.zeros(3)
    if given.ndim != 3 or not voxel_m > 0 or low.shape != (3,):
        raise ConfigError(f"{path}: it needs voxels [nx, ny, nz], voxel_m > 0 and origin [3]")
    below = max(0, round((window.ground_m - low[2]) / voxel_m))
    kept = given[:, :, below : below + math.ceil((window.top_m + window.ground_m - low[2]) / voxel_m)]
    middle = low[:2] + np.array(kept.shape[:2]) * voxel_m / 2
    offset = np.array((-middle[0], -middle[1], -window.ground_m))
    origin = np.array((*low[:2], low[2] + below * voxel_m)) + offset
    grid_of(origin, origin + np.array(kept.shape) * voxel_m, voxel_m, str(path))  # checks its size
    return Solid(np.ascontiguousarray(kept), origin, voxel_m), offset


READERS: dict[str, Callable[[Path, Window], tuple[Solid, np.ndarray]]] = {
    **{".yaml": _read_text_map, ".yml": _read_text_map, ".json": _read_text_map, ".csv": _read_csv},
    **{".ply": _read_ply, ".pcd": _read_pcd, ".xyz": _read_xyz, ".npy": _read_npy, ".npz": _read_npz},
    **{suffix: _read_mesh for suffix in MESHES},
}
