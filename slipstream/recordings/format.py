"""The file of a recording, which is also what the page of the viewer reads (docs/recordings.md).

A tensor file of kind "recd" with one piece per array. An array with a precision is stored as integers; integers are
stored as differences in time. Their planes of bytes are deflated, which a browser opens by itself.
"""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from slipstream.storage.files import atomic_file
from slipstream.storage.tensor_file import MemoryFile, Reader, TensorFile, TensorFileWriter

KIND = "recd"
SUFFIX = ".rec"
VERSION = 2
DTYPES = ("<f8", "<f4", "<i4", "<i2", "|i1", "|u1")
MAX_ARRAYS, MAX_EVENTS, MAX_GROUPS = 64, 20_000, 16


@dataclass
class Recording:
    """A flight or a duel over time, in m and s.

    Clocks are times [T], increasing. A column is [T, ...] over the clock "", or over the clock NAME if it is called
    "NAME/column". A group is a set of K bodies for exports: {"name", "position": a column [T, K, 2 or 3], "shown": a
    column [T, K] or None, "labels": K names, "type", "color": of Tacview}. An event is {"time", "kind", "text",
    "body"}.
    """

    scene: str  # how the viewer shows it, such as "flight"
    title: str
    clocks: dict[str, np.ndarray]
    columns: dict[str, np.ndarray]
    arrays: dict[str, np.ndarray] = field(default_factory=dict)  # do not change in time
    groups: list[dict[str, Any]] = field(default_factory=list)
    events: list[dict[str, Any]] = field(default_factory=list)
    meta: dict[str, Any] = field(default_factory=dict)  # plain data: config, policy, outcomes
    precision: dict[str, float] = field(default_factory=dict)  # steps by column or array; the others are exact
    draw_film: Callable[[Path], Any] | None = None  # draws it as .gif or .mp4; not saved

    @property
    def seconds(self) -> float:
        """The length of the recording."""
        times = self.clocks[""]
        return float(times[-1] - times[0]) if len(times) else 0.0

    def save(self, path: str | PathLike[str]) -> Path:
        """Write the file, complete or not at all."""
        data = self.to_bytes()
        with atomic_file(Path(path)) as file:
            file.write(data)
        return Path(path)

    def to_bytes(self) -> bytes:
        """Return the file, which the page reads too."""
        _check(self)
        file = MemoryFile()
        writer = TensorFileWriter(file, KIND)
        clocks = {f"clock:{name}": np.asarray(times, np.float64) for name, times in self.clocks.items()}
        specs = {}
        for name, array in (clocks | self.columns | self.arrays).items():
            spec, planes = _pack(array, self.precision.get(name))
            specs[name] = spec | {"piece": writer.add(zlib.compress(planes), name=name)}
        parts = {name: getattr(self, name) for name in ("scene", "title", "groups", "events", "meta")}
        writer.finish(parts | {"version": VERSION, "columns": list(self.columns), "data": specs})
        return file.getvalue()


def load_recording(path: str | PathLike[str]) -> Recording:
    """Read a recording.

    Raises:
        DamagedFileError: The file is cut short, damaged, forged or no recording.
        TooLargeError: It would take more memory than the limit.
    """
    reader = Reader(path)
    return parse_recording(reader.read(Path(path)), reader)


def parse_recording(data: bytes, reader: Reader) -> Recording:
    """Return the recording in the bytes of a file; see `load_recording`."""
    with TensorFile.from_bytes(data, KIND, reader.name, reader=reader) as file, reader.parsing("the head"):
        head = file.head
        reader.version(head["version"], VERSION)
        specs = head["data"]
        reader.count(len(specs), MAX_ARRAYS, "arrays")
        arrays = {reader.text(name, "a name", 80): _unpack(file, spec, name) for name, spec in specs.items()}
        clocks = {name.partition(":")[2]: arrays.pop(name) for name in list(arrays) if name.startswith("clock:")}
        columns = {name: arrays.pop(reader.text(name, "a column", 80)) for name in head["columns"]}
        steps = {name: float(spec["step"]) for name, spec in specs.items() if spec.get("step")}
        texts = (reader.text(head["scene"], "the scene", 40), reader.text(head["title"], "the title", 400))
        events = [_checked_event(event, reader) for event in head["events"]]
        recording = Recording(*texts, clocks, columns, arrays, head["groups"], events, dict(head["meta"]), steps)
        _check(recording)
        json.dumps([recording.groups, recording.meta], allow_nan=False)  # the page gets them as JSON
    return recording


def read_title(path: str | PathLike[str], reader: Reader | None = None) -> dict[str, Any]:
    """Return scene, title, length and outcomes of a recording without reading its arrays."""
    reader = reader or Reader(path)
    with TensorFile.open(Path(path), KIND, reader=reader) as file, reader.parsing("the head"):
        head = file.head
        reader.version(head["version"], VERSION)
        frames = reader.shape(head["data"]["clock:"]["shape"], "the clock")[0]
        known = {name: reader.text(head[name], name, 400) for name in ("scene", "title")}
        summary = head["meta"].get("summary", "")
        return known | {"frames": frames, "summary": reader.text(summary, "the summary", 4000)}


# -- inside ------------------------------------------------------------------------------------------------------------


def _pack(array: np.ndarray, step: float | None) -> tuple[dict[str, Any], bytes]:
    """Return the description of an array, and its bytes: differences in time, then all first bytes, all second, ..."""
    array = np.asarray(array)
    spec: dict[str, Any] = {"shape": list(array.shape)}
    if array.dtype == bool:
        array = array.view(np.uint8)
    if step:
        array, offset = _quantize(array, step)
        spec |= {"step": step, "offset": offset}
    elif array.dtype == np.float64 and array.ndim > 1:
        array = array.astype(np.float32)
    elif array.dtype.kind in "iu" and array.dtype.itemsize > 4:
        array = array.astype(np.int32)
    array = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
    if array.dtype.str not in DTYPES:
        raise ValueError(f"a recording holds floats and integers of at most 4 bytes, not {array.dtype}")
    spec["dtype"] = array.dtype.str
    if array.dtype.kind == "i" and len(array) > 1:
        array = np.concatenate((array[:1], np.diff(array, axis=0)))
    return spec, array.reshape(-1).view(np.uint8).reshape(-1, array.dtype.itemsize).T.tobytes()


def _quantize(array: np.ndarray, step: float) -> tuple[np.ndarray, float]:
    """Return multiples of `step` around an offset in 16 or 32 bits; the smallest integer is NaN."""
    finite = np.isfinite(array)
    low, high = (float(f(array[finite])) for f in (np.min, np.max)) if finite.any() else (0.0, 0.0)
    offset = step * round((low + high) / 2 / step)
    codes = np.where(finite, np.rint((np.where(finite, array, offset) - offset) / step), 0)
    dtype = np.int16 if np.abs(codes).max(initial=0) < 1 << 15 else np.int32
    return np.where(finite, codes, np.iinfo(dtype).min).astype(dtype), offset


def _unpack(file: TensorFile, spec: Any, name: str) -> np.ndarray:
    """Read the array of a piece; its memory is claimed before it is inflated."""
    reader = file.reader
    shape, dtype = reader.shape(spec["shape"], name), reader.dtype(spec["dtype"], name)
    if dtype.str not in DTYPES:
        reader.fail(f"{name} has numbers of {dtype}")
    nbytes = reader.claim(reader.product([*shape, dtype.itemsize], name), name)
    inflate = zlib.decompressobj()
    try:
        planes = inflate.decompress(file.section(reader.integer(spec["piece"], name)).data, nbytes + 1)
    except zlib.error as error:
        reader.fail(f"{name}: {error}")
    if len(planes) != nbytes or not inflate.eof:
        reader.fail(f"{name} of {dtype} {list(shape)} does not fit its piece")
    array = np.ascontiguousarray(np.frombuffer(planes, np.uint8).reshape(dtype.itemsize, -1).T)
    array = array.view(dtype).reshape(shape)
    if dtype.kind == "i" and len(array) > 1:
        array = np.cumsum(array, axis=0, dtype=dtype)
    if "step" not in spec:
        return array
    step, offset = (_number(spec[key], reader, name) for key in ("step", "offset"))
    reader.claim(4 * array.size, name)
    return np.where(array == np.iinfo(dtype).min, np.nan, array * step + offset).astype(np.float32)


def _number(value: Any, reader: Reader, what: str) -> float:
    if type(value) not in (int, float) or not math.isfinite(value):
        reader.fail(f"{what} has a step or an offset that is no number")
    return float(value)


def _checked_event(event: Any, reader: Reader) -> dict[str, Any]:
    texts = {name: reader.text(event[name], "an event", 400) for name in ("kind", "text", "body")}
    return {"time": _number(event["time"], reader, "an event")} | texts


def _check(recording: Recording) -> None:
    """Raise ValueError if the parts of a recording do not fit together."""
    clocks, columns = recording.clocks, recording.columns
    if "" not in clocks:
        raise ValueError("a recording needs the clock ''")
    for name, times in clocks.items():
        if times.ndim != 1 or not np.isfinite(times).all() or (np.diff(times) < 0).any():
            raise ValueError(f"the times of clock '{name}' must be finite numbers [T] that do not decrease")
    for name, column in columns.items():
        clock = name.rpartition("/")[0]
        if clock not in clocks or column.ndim < 1 or len(column) != len(clocks[clock]):
            raise ValueError(f"column {name} of shape {list(column.shape)} does not fit its clock '{clock}'")
    for name, limit in (("groups", MAX_GROUPS), ("events", MAX_EVENTS)):
        if not isinstance(getattr(recording, name), list) or len(getattr(recording, name)) > limit:
            raise ValueError(f"a recording has at most {limit} {name}")
    for group in recording.groups:
        if not isinstance(group, dict) or not isinstance(group["labels"], list):
            raise ValueError("a group is a dict with a list of labels")
        position, shown = columns[group["position"]], group.get("shown")
        if position.ndim != 3 or position.shape[2] not in (2, 3) or "/" in group["position"]:
            raise ValueError(f"{group['position']} must be [T, K, 2] or [T, K, 3], not {list(position.shape)}")
        if shown is not None and columns[shown].shape != position.shape[:2]:
            raise ValueError(f"{shown} must be {list(position.shape[:2])}, not {list(columns[shown].shape)}")
        texts = [group["name"], group["type"], group["color"], *group["labels"]]
        if len(group["labels"]) != position.shape[1] or not all(isinstance(t, str) and len(t) <= 200 for t in texts):
            raise ValueError(f"group {group['name']!r} needs a text as name, type and color, and one label per body")
