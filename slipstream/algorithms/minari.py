"""Minari datasets as data: the arrays of numbers in its HDF5 file, read with h5py. Files are not trusted.

Minari's own loader is not used, because it builds the env that a dataset names. Links and filters that would read other
files or load native code are refused.
"""

from __future__ import annotations

import importlib
import math
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from slipstream.config.help import ConfigError
from slipstream.envs.specs import Box, Discrete, Spec
from slipstream.models.encoders import Specs
from slipstream.storage.reader import Reader, open_regular, shorten

METADATA, FILE = "metadata.json", "main_data.hdf5"
Key = tuple[str, ...]
_EPISODE = re.compile(r"episode_([0-9]{1,18})")
_OUTCOMES = {"rewards": "reward", "terminations": "terminated", "truncations": "truncated"}
_FILTERS = (1, 2, 3, 32000)  # gzip, shuffle, checksum, LZF: those that h5py brings along
_MOST_PER_BYTE = 1100  # numbers of one byte that a byte of the file can hold: gzip reaches 1,032
_IMAGE = 32  # Minari stores uint8 images of at least this height and width as JPEG


def find_minari(path: Path) -> Path | None:
    """Return the folder `data` of a Minari dataset, given by its folder or by its id; None if it is none."""
    known = os.environ.get("MINARI_DATASETS_PATH") or os.path.expanduser("~/.minari/datasets")
    found = (folder / "data" for folder in (path, known / path))
    return next((folder for folder in found if (folder / METADATA).is_file()), None)


class MinariData:
    """The transitions of a Minari dataset.

    Args:
        folder: From `find_minari`.
        specs: Observations and actions of the env: their names are read, and numbers become their dtypes.
        name: For messages, such as `algo.data=PATH`.

    Raises:
        ConfigError: It is stored in a form that is not read.
        DamagedFileError: It is damaged.
    """

    def __init__(self, folder: Path, specs: tuple[Specs, Spec], name: str) -> None:
        self._path, self._name = folder / FILE, name
        self._observation_spec, self._action_spec = specs
        self._reader = reader = Reader(self._path)
        try:
            self._h5py = importlib.import_module("h5py")
        except ImportError as error:
            raise ImportError(
                f"{name} is a Minari dataset, and needs h5py: pip install 'slipstream-rl[rollouts]'"
            ) from error
        with reader.parsing(METADATA):
            metadata = reader.json(reader.read(folder / METADATA), METADATA)
            form, jpeg = metadata.get("data_format", "hdf5"), metadata.get("jpeg_encoding", True)
            self._space = dict(reader.json(str(metadata.get("action_space", "{}")).encode(), "its action space"))
        if form != "hdf5":
            raise ConfigError(
                f"{name} is a Minari dataset in the format {shorten(form)}: only 'hdf5', its default, is read"
            )
        images = [key for key, spec in self._observation_spec.items() if jpeg and _is_image(spec)]
        if images:
            raise ConfigError(
                f"{name} has the observation '{images[0]}' as JPEG images, which are not read: create the dataset with "
                "jpeg_encoding=False"
            )

    def chunks(self, rows: int, newest: int) -> Iterator[dict[Key, Tensor]]:
        """Yield the `newest` transitions, at most `rows` at a time, in the order of the episodes."""
        os.close(open_regular(self._path))
        with self._reader.parsing("the dataset"):
            try:
                with self._h5py.File(self._path, "r") as file:
                    yield from self._joined(file, rows, newest)
            except OSError:
                self._reader.fail("it is damaged, or not an HDF5 file")

    def _joined(self, file: Any, rows: int, newest: int) -> Iterator[dict[Key, Tensor]]:
        parts: list[dict[Key, Tensor]] = []
        count = 0
        for episode, start, stop in self._spans(file, rows, newest):
            if parts and count + stop - start > rows:
                yield _join(parts)
                parts, count = [], 0
            parts.append(self._read(episode, start, stop))
            count += stop - start
        if parts:
            yield _join(parts)

    def _spans(self, file: Any, rows: int, newest: int) -> Iterator[tuple[Any, int, int]]:
        """Yield (episode, first step, end) of the newest steps, at most `rows` each."""
        numbers = sorted(int(match[1]) for match in map(_EPISODE.fullmatch, file) if match)
        chosen: list[tuple[Any, int, int]] = []
        while numbers and newest > 0:
            episode = self._member(file, f"episode_{numbers.pop()}")
            steps = len(self._array(episode, "rewards"))
            chosen.append((episode, max(0, steps - newest), steps))
            newest -= steps
        for episode, first, steps in reversed(chosen):
            for start in range(first, steps, rows):
                yield episode, start, min(start + rows, steps)

    def _read(self, episode: Any, start: int, stop: int) -> dict[Key, Tensor]:
        """Return some steps of an episode."""
        found: dict[Key, Tensor] = {}
        steps = len(self._array(episode, "rewards"))
        for name, ours in _OUTCOMES.items():
            found[ours,] = self._numbers(self._array(episode, name), start, stop, steps)
        actions = self._array(episode, "actions")
        if actions is not None:
            found["action",] = self._to_env(self._numbers(actions, start, stop, steps, self._action_spec))
        for name, spec in self._observation_spec.items():
            seen = self._observation(episode, name)
            if seen is not None:
                both = self._numbers(seen, start, stop + 1, steps + 1, spec)
                found["observation", name], found["next", "observation", name] = both[:-1], both[1:]
        return found

    def _observation(self, episode: Any, name: str) -> Any:
        """Return the array of an observation; a dataset with one observation does not name it."""
        group = self._member(episode, "observations")
        if isinstance(group, self._h5py.Group):
            return self._array(group, name) if name in group else None
        return self._array(episode, "observations") if len(self._observation_spec) == 1 else None

    def _member(self, group: Any, name: str) -> Any:
        if not isinstance(group.get(name, getlink=True), self._h5py.HardLink):
            self._reader.fail(f"{shorten(name)} is missing, or a link to another place")
        return group[name]

    def _array(self, group: Any, name: str) -> Any:
        """Return an array of numbers; None if it is something else."""
        array = self._member(group, name)
        if not isinstance(array, self._h5py.Dataset) or array.dtype.kind not in "biuf" or not array.shape:
            return None
        plan = array.id.get_create_plist()
        filters = [plan.get_filter(i)[0] for i in range(plan.get_nfilters())]
        if array.is_virtual or array.external or not set(filters) <= set(_FILTERS):
            self._reader.fail(f"{shorten(name)} is stored in other files, or with a filter that is not known")
        if array.nbytes > _MOST_PER_BYTE * array.id.get_storage_size():
            self._reader.fail(f"{shorten(name)} claims {array.nbytes:,} bytes, which it does not store")
        return array

    def _numbers(self, array: Any, start: int, stop: int, steps: int, spec: Spec | None = None) -> Tensor:
        """Return rows of an array; none of them if it does not have the spec's shape, which the caller refuses."""
        if len(array) != steps:
            self._reader.fail(f"an episode has {steps} rewards, and {len(array)} rows of {shorten(array.name)}")
        if spec is not None and array.shape[1:] != spec.shape:
            start = stop = 0
        row = array.dtype.itemsize * math.prod(array.shape[1:])
        chunk = array.dtype.itemsize * math.prod(array.chunks or ())
        Reader(self._path).claim(max(row * (stop - start), chunk), "its arrays")
        values = array[start:stop]
        found = torch.from_numpy(np.ascontiguousarray(values, values.dtype.newbyteorder("=")))
        if spec is None:
            return found
        both_float = found.is_floating_point() and spec.dtype.is_floating_point
        return (
            found.to(spec.dtype) if both_float or torch.promote_types(found.dtype, spec.dtype) == spec.dtype else found
        )

    def _to_env(self, action: Tensor) -> Tensor:
        """Return actions of the dataset's space as `task=gym` has them: discrete ones from 0, those with several bounds
        from -1 to 1."""
        spec, kind = self._action_spec, self._space.get("type")
        if isinstance(spec, Discrete) and kind == "Discrete":
            return action - self._reader.integer(self._space.get("start", 0), "the first action", -(2**62), 2**62)
        if isinstance(spec, Box) and kind == "Box" and (spec.low, spec.high) == (-1.0, 1.0):
            low, high = (torch.tensor(self._space[side], dtype=torch.float64) for side in ("low", "high"))
            several = bool((low != low.flatten()[0]).any() or (high != high.flatten()[0]).any())
            if several and low.shape == high.shape == action.shape[1:] and bool((high - low).isfinite().all()):
                return ((2 * action.double() - low - high) / (high - low)).to(spec.dtype)
        return action


def _is_image(spec: Spec) -> bool:
    return spec.dtype == torch.uint8 and len(spec.shape) in (2, 3) and min(spec.shape[:2]) >= _IMAGE


def _join(parts: list[dict[Key, Tensor]]) -> dict[Key, Tensor]:
    return {key: torch.cat([part[key] for part in parts]) for key in parts[0]}
