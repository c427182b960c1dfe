"""Rollouts for others: HDF5 by batch, Parquet by step, Minari by episode. Each package is needed only for its own form."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import re
import shutil
import uuid
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from slipstream.rollouts.episodes import find_episodes, outcome_key, read_episode
from slipstream.rollouts.reader import RolloutFile
from slipstream.rollouts.storage import RolloutStorage
from slipstream.rollouts.tree import wanted
from slipstream.storage.errors import DamagedFileError
from slipstream.storage.files import check_writable
from slipstream.storage.schema import Key

FORMATS = {"hdf5": ("h5py", ".h5"), "parquet": ("pyarrow", ".parquet"), "minari": ("minari", "")}
ROWS_AT_ONCE = 1 << 16


def export(
    storage: RolloutStorage,
    to: str,
    out: str | Path,
    iterations: Iterable[int] | None = None,
    keys: Iterable[Any] | None = None,
) -> str:
    """Writes the batches (all by default) to `out`; what was written, in words. bfloat16 and 8-bit floats become float32.

    A broken batch is raised or left out, as the storage's `on_broken` says.
    """
    package, _ = FORMATS[to]
    try:
        module = importlib.import_module(package)
    except ImportError as error:
        raise ImportError(f"export --to {to} needs {package}: pip install 'slipstream-rl[rollouts]'") from error
    chosen = storage.readable(iterations)
    if storage.skips_broken:  # found before anything of them is written
        chosen = [i for i in chosen if _is_whole(storage, i, None if to == "minari" else keys)]
    if not chosen:
        raise FileNotFoundError(f"{storage.save_dir} holds no whole rollouts to export")
    writers: dict[str, Callable[..., str]] = {"hdf5": _to_hdf5, "parquet": _to_parquet, "minari": _to_minari}
    return writers[to](module, storage, Path(out), chosen, keys)


def plain_array(value: Any) -> np.ndarray:
    """A tensor as an array that other formats know."""
    if isinstance(value, np.ndarray):
        return value
    if value.dtype.is_floating_point and value.dtype not in (torch.float16, torch.float32, torch.float64):
        value = value.float()
    return value.numpy()


def _is_whole(storage: RolloutStorage, iteration: int, keys: Iterable[Any] | None) -> bool:
    file = storage.file(iteration)
    problem = next(file.damaged(keys), None)
    if problem is not None:
        storage.met_broken(iteration, DamagedFileError(f"{file.path}: {problem}"))
    return problem is None


@contextlib.contextmanager
def _appearing(out: Path) -> Iterator[Path]:
    """A temporary name beside `out`, renamed to it when all went well."""
    out.parent.mkdir(parents=True, exist_ok=True)
    check_writable(out)
    temporary = out.with_name(f".{out.name}.{uuid.uuid4().hex}.tmp")
    try:
        yield temporary
        os.replace(temporary, out)
    finally:
        temporary.unlink(missing_ok=True)


def _arrays(file: RolloutFile, keys: Iterable[Any] | None) -> Iterator[tuple[Key, np.ndarray, bool]]:
    """(key, array, whether it has [envs, steps]) of the tensors of a batch."""
    for i in sorted(wanted(file.keys, keys)):
        column = file.columns[i]
        frames = file.take(i, np.arange(file.envs * file.steps)) if column.steps else file.all(i)
        yield column.key, plain_array(file.tensor(i, frames, column.shape, None)), column.steps


def _to_hdf5(h5py: Any, storage: RolloutStorage, out: Path, iterations: list[int], keys: Any) -> str:
    count = 0
    with _appearing(out) as temporary, h5py.File(temporary, "w") as target:
        target.attrs["format"] = "slipstream rollouts"
        for iteration in iterations:
            file = storage.file(iteration)
            group = target.create_group(f"rollout_{iteration:06d}")
            group.attrs["iteration"], group.attrs["lead"] = iteration, file.lead
            group.attrs["note"] = json.dumps(file.note)
            for key, array, is_steps in _arrays(file, keys):
                kind = (
                    {"compression": "gzip", "compression_opts": 1, "shuffle": True} if is_steps and array.size else {}
                )
                if array.dtype.kind == "U":
                    array, kind = array.astype(object), {"dtype": h5py.string_dtype()}
                group.create_dataset("/".join(map(str, key)), data=array, **kind)
                count += 1
    return f"wrote {out}: {len(iterations)} batches, {count} datasets"


def _to_parquet(pyarrow: Any, storage: RolloutStorage, out: Path, iterations: list[int], keys: Any) -> str:
    """A row a step: iteration, env, step, and a column a key; what a step has several of is a list, its shape noted in the schema."""
    parquet = importlib.import_module("pyarrow.parquet")
    rows, writer = 0, None
    with _appearing(out) as temporary, contextlib.ExitStack() as stack:
        for iteration in iterations:
            file = storage.file(iteration)
            picked = [i for i in sorted(wanted(file.keys, keys)) if file.columns[i].steps]
            if not file.lead:
                continue
            per_env = max(1, ROWS_AT_ONCE // max(file.steps, 1))
            for first in range(0, file.envs, per_env):
                envs = np.arange(first, min(first + per_env, file.envs))
                table = _table(pyarrow, file, picked, envs)
                if writer is None:
                    writer = stack.enter_context(parquet.ParquetWriter(temporary, table.schema, compression="zstd"))
                writer.write_table(table)
                rows += len(table)
        if writer is None:
            raise ValueError("nothing to write: no batch has [envs, steps]")
    return f"wrote {out}: {rows:,} steps of {len(iterations)} batches"


def _table(pyarrow: Any, file: RolloutFile, picked: list[int], envs: np.ndarray) -> Any:
    frames = (envs[:, None] * file.steps + np.arange(file.steps)).reshape(-1)
    n = len(frames)
    index = {"iteration": np.full(n, file.iteration), "env": frames // file.steps, "step": frames % file.steps}
    names, columns = list(index), [pyarrow.array(values.astype(np.int64)) for values in index.values()]
    fields = [pyarrow.field(name, pyarrow.int64()) for name in names]
    for i in picked:
        shape = file.columns[i].shape[len(file.lead) :]
        array = plain_array(file.tensor(i, file.take(i, frames), (n, *shape), None))
        if array.dtype.kind == "c":
            array = np.stack((array.real, array.imag), -1)
            shape = (*shape, 2)
        values = pyarrow.array(array.reshape(-1))
        size = int(np.prod(shape, dtype=np.int64))
        column = (
            values if not shape else pyarrow.FixedSizeListArray.from_arrays(values, size) if size else pyarrow.nulls(n)
        )
        columns.append(column)
        fields.append(
            pyarrow.field(".".join(map(str, file.keys[i])), column.type, metadata={"shape": json.dumps(shape)})
        )
    return pyarrow.Table.from_arrays(columns, schema=pyarrow.schema(fields))


def _to_minari(minari: Any, storage: RolloutStorage, out: Path, iterations: list[int], keys: Any) -> str:
    """A dataset NAME-v0 in the folder `out` is in: episodes as far as they were saved; one that goes on behind it is marked truncated."""
    from gymnasium import spaces

    name = out.name if re.search(r"-v\d+$", out.name) else f"{out.name}-v0"
    target = out.parent / name
    if target.exists() and not (target / "data" / "main_data.hdf5").is_file():
        raise FileExistsError(f"{target} is there and is no Minari dataset: give another name")
    first = storage.file(iterations[0])
    reward, action = outcome_key(first.keys, "reward"), outcome_key(first.keys, "action")
    seen = [key for i, key in enumerate(first.keys) if key[0] == "observation" and i in wanted(first.keys, keys)]
    if reward is None or action is None or not seen:
        raise ValueError(
            "Minari holds observations, actions and rewards: the batch needs 'observation', 'action' and 'reward'"
        )
    buffers = []
    for number, episode in enumerate(find_episodes(storage, iterations)):
        data = {key: plain_array(value) for key, value in read_episode(storage, episode, [*first.keys]).items()}
        steps = len(episode)
        observations = {".".join(key[1:]) or "observation": _with_last(data, key) for key in seen}
        terminations, truncations = np.zeros(steps, bool), np.zeros(steps, bool)
        terminations[-1], truncations[-1] = episode.terminated, not episode.terminated
        buffers.append(
            minari.data_collector.EpisodeBuffer(
                id=number,
                observations=next(iter(observations.values())) if len(observations) == 1 else observations,
                actions=data[action],
                rewards=data[reward].reshape(steps),  # type: ignore[arg-type]
                terminations=terminations,
                truncations=truncations,
            )
        )
    example = buffers[0]
    several = isinstance(example.observations, dict)
    box = (
        {name: _box(values) for name, values in example.observations.items()} if several else _box(example.observations)
    )
    out.parent.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(target, ignore_errors=True)  # the dataset of an earlier export
    before = os.environ.get("MINARI_DATASETS_PATH")
    os.environ["MINARI_DATASETS_PATH"] = str(out.parent.resolve())
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # that nobody has said who the author is, and the like
            minari.create_dataset_from_buffers(
                name,
                buffers,
                observation_space=spaces.Dict(box) if several else box,
                action_space=_box(example.actions),
                algorithm_name="slipstream",
                description="exported by slipstream rollouts export",
            )
    finally:
        os.environ.pop("MINARI_DATASETS_PATH") if before is None else os.environ.update(MINARI_DATASETS_PATH=before)
    return f"wrote {out.parent / name}: {len(buffers)} episodes (MINARI_DATASETS_PATH={out.parent} finds it)"


def _with_last(data: dict[Key, np.ndarray], key: Key) -> np.ndarray:
    """An episode's observations and the last one's successor; where that was not saved, the last one again."""
    after = data.get(("next", *key))
    return np.concatenate((data[key], data[key][-1:] if after is None else after[-1:]))


def _box(values: Any) -> Any:
    from gymnasium import spaces

    values = np.asarray(values)
    if values.dtype.kind == "f":
        return spaces.Box(-np.inf, np.inf, values.shape[1:], values.dtype.type)
    low, high = (0, 1) if values.dtype == bool else (np.iinfo(values.dtype).min, np.iinfo(values.dtype).max)
    return spaces.Box(low, high, values.shape[1:], values.dtype.type)
