"""Minari datasets as data: the arrays of numbers in its HDF5 file, read with h5py. Files are not trusted.

Minari's own loader is not used, because it builds the env that a dataset names. Links that would read other files are
refused.
"""

from __future__ import annotations

import importlib
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
from slipstream.storage.tensor_file import Reader, shorten

METADATA, FILE = "metadata.json", "main_data.hdf5"
Key = tuple[str, ...]
_EPISODE = re.compile(r"episode_([0-9]{1,18})")
_OUTCOMES = {"rewards": "reward", "terminations": "terminated", "truncations": "truncated"}
_MOST_PER_BYTE = 1100  # numbers of one byte that a byte of the file can hold: gzip reaches 1,032


def find_minari(path: Path) -> Path | None:
    """Return the folder `data` of a Minari dataset, given by its folder or by its id; None if it is none."""
    known = os.environ.get("MINARI_DATASETS_PATH") or os.path.expanduser("~/.minari/datasets")
    found = (folder / "data" for folder in (path, known / path))
    return next((folder for folder in found if (folder / METADATA).is_file()), None)


def read_minari(folder: Path, specs: tuple[Specs, Spec], name: str, newest: int) -> Iterator[dict[Key, Tensor]]:
    """Yield the `newest` transitions of a dataset, episode by episode.

    Args:
        folder: From `find_minari`.
        specs: Observations and actions of the env: their names are read, and numbers become their dtypes.
        name: For messages, such as `algo.data=PATH`.
        newest: How many.

    Raises:
        ConfigError: It is stored in a form that is not read.
        DamagedFileError: It is damaged.
    """
    reader = Reader(folder / FILE)
    try:
        h5py = importlib.import_module("h5py")
    except ImportError as error:
        raise ImportError(
            f"{name} is a Minari dataset, and needs h5py: pip install 'slipstream-rl[rollouts]'"
        ) from error
    with reader.parsing(METADATA):
        metadata = reader.json(reader.read(folder / METADATA), METADATA)
        form = metadata.get("data_format", "hdf5")
        space = dict(reader.json(str(metadata.get("action_space", "{}")).encode(), "its action space"))
    if form != "hdf5":
        raise ConfigError(
            f"{name} is a Minari dataset in the format {shorten(form)}: only 'hdf5', its default, is read"
        )
    with reader.parsing("the dataset"):
        try:
            with h5py.File(folder / FILE, "r") as file:
                episodes = []
                numbers = sorted(int(match[1]) for match in map(_EPISODE.fullmatch, file) if match)
                while numbers and newest > 0:
                    episode = _Episode(h5py, reader, _member(h5py, reader, file, f"episode_{numbers.pop()}"))
                    episodes.append((episode, max(0, episode.steps - newest)))
                    newest -= episode.steps
                for episode, start in reversed(episodes):
                    rows = episode.read(specs, start)
                    if ("action",) in rows:
                        rows["action",] = _to_env(rows["action",], specs[1], space, reader)
                    yield rows
        except OSError:
            reader.fail("it is damaged, or not an HDF5 file")


def _member(h5py: Any, reader: Reader, group: Any, name: str) -> Any:
    if not isinstance(group.get(name, getlink=True), h5py.HardLink):
        reader.fail(f"{shorten(name)} is missing, or a link to another place")
    return group[name]


class _Episode:
    def __init__(self, h5py: Any, reader: Reader, group: Any) -> None:
        self._h5py, self._reader, self._group = h5py, reader, group
        self.steps = len(self._array(group, "rewards"))

    def read(self, specs: tuple[Specs, Spec], start: int) -> dict[Key, Tensor]:
        """Return its transitions from step `start` on, by our keys; what it lacks is left out."""
        rows: dict[Key, Tensor] = {
            (ours,): self._numbers(self._array(self._group, name), start, 0) for name, ours in _OUTCOMES.items()
        }
        actions = self._array(self._group, "actions")
        if actions is not None:
            rows["action",] = self._numbers(actions, start, 0, specs[1])
        seen = _member(self._h5py, self._reader, self._group, "observations")
        for name, spec in specs[0].items():
            array = None
            if isinstance(seen, self._h5py.Group):
                array = self._array(seen, name) if name in seen else None
            elif len(specs[0]) == 1:  # a dataset with one observation does not name it
                array = self._array(self._group, "observations")
            if array is not None:
                both = self._numbers(array, start, 1, spec)
                rows["observation", name], rows["next", "observation", name] = both[:-1], both[1:]
        return rows

    def _array(self, group: Any, name: str) -> Any:
        """Return an array of numbers; None if it is something else, such as images that Minari stored as JPEG."""
        array = _member(self._h5py, self._reader, group, name)
        if not isinstance(array, self._h5py.Dataset) or array.dtype.kind not in "biuf" or not array.shape:
            return None
        if array.is_virtual or array.external:
            self._reader.fail(f"{shorten(name)} is stored in other files")
        if array.nbytes > _MOST_PER_BYTE * array.id.get_storage_size():
            self._reader.fail(f"{shorten(name)} claims {array.nbytes:,} bytes, which it does not store")
        return array

    def _numbers(self, array: Any, start: int, more: int, spec: Spec | None = None) -> Tensor:
        """Return rows of an array in the spec's dtype if it holds all of its numbers, and any two floats."""
        if len(array) != self.steps + more:
            self._reader.fail(f"an episode has {self.steps} rewards, and {len(array)} rows of {shorten(array.name)}")
        Reader(self._reader.name).claim(array.nbytes, "its arrays")
        values = array[start:]
        found = torch.from_numpy(np.ascontiguousarray(values, values.dtype.newbyteorder("=")))
        if spec is None:
            return found
        fits = torch.promote_types(found.dtype, spec.dtype) == spec.dtype
        return found.to(spec.dtype) if fits or found.is_floating_point() and spec.dtype.is_floating_point else found


def _to_env(action: Tensor, spec: Spec, space: dict[str, Any], reader: Reader) -> Tensor:
    """Return actions of the dataset's space as `task=gym` has them: discrete ones from 0, those with several bounds
    from -1 to 1."""
    if isinstance(spec, Discrete) and space.get("type") == "Discrete":
        return action - reader.integer(space.get("start", 0), "the first action", -(2**62), 2**62)
    if isinstance(spec, Box) and space.get("type") == "Box" and (spec.low, spec.high) == (-1.0, 1.0):
        low, high = (torch.tensor(space[side], dtype=torch.float64) for side in ("low", "high"))
        several = bool((low != low.flatten()[0]).any() or (high != high.flatten()[0]).any())
        if several and low.shape == action.shape[1:] and bool((high - low).isfinite().all()):
            return ((2 * action.double() - low - high) / (high - low)).to(spec.dtype)
    return action
