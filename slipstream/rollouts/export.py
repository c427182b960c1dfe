"""Export of rollouts: HDF5 by batch, Parquet by step, Minari by episode. Each package is needed only for its own
format."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import re
import shutil
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from slipstream.rollouts.episodes import find_episodes, outcome_key, read_episode
from slipstream.rollouts.reader import RolloutFile, find_keys
from slipstream.rollouts.storage import RolloutStorage
from slipstream.rollouts.writer import Key
from slipstream.storage.errors import DamagedFileError
from slipstream.storage.files import check_writable, temporary_name

FORMATS = {"hdf5": ("h5py", ".h5"), "parquet": ("pyarrow", ".parquet"), "minari": ("minari", "")}
ROWS_AT_ONCE = 1 << 16


def export(
    storage: RolloutStorage,
    to: str,
    out: str | Path,
    iterations: Iterable[int] | None = None,
    keys: Iterable[Any] | None = None,
) -> str:
    """Write the batches to `out`. bfloat16 and 8-bit floats become float32. For a broken batch the storage's
    `on_broken` decides.

    Args:
        storage: where the batches are.
        to: "hdf5", "parquet" or "minari".
        out: the file, or the folder of a Minari dataset.
        iterations: which batches; all by default.
        keys: which tensors; all by default.

    Returns:
        A line that says what was written.
    """
    package, _ = FORMATS[to]
    try:
        module = importlib.import_module(package)
    except ImportError as error:
        raise ImportError(f"export --to {to} needs {package}: pip install 'slipstream-rl[rollouts]'") from error
    chosen = storage.readable(iterations)
    if storage.skips_broken:  # damage is found before anything is written
        chosen = [i for i in chosen if _is_intact(storage, i, None if to == "minari" else keys)]
    if not chosen:
        raise FileNotFoundError(f"{storage.save_dir} has no readable rollouts to export")
    writers: dict[str, Callable[..., str]] = {"hdf5": _to_hdf5, "parquet": _to_parquet, "minari": _to_minari}
    return writers[to](module, storage, Path(out), chosen, keys)


def plain_array(value: Any) -> np.ndarray:
    """Return a tensor as an array that other formats know."""
    if isinstance(value, np.ndarray):
        return value
    if value.dtype.is_floating_point and value.dtype not in (torch.float16, torch.float32, torch.float64):
        value = value.float()
    return value.numpy()


def _is_intact(storage: RolloutStorage, iteration: int, keys: Iterable[Any] | None) -> bool:
    file = storage.file(iteration)
    problem = next(file.damaged(keys), None)
    if problem is not None:
        storage.handle_broken(iteration, DamagedFileError(f"{file.path}: {problem}"))
    return problem is None


@contextlib.contextmanager
def _renamed_at_end(out: Path) -> Iterator[Path]:
    """Give a temporary name beside `out` that is renamed to it at the end, unless there was an error."""
    out.parent.mkdir(parents=True, exist_ok=True)
    check_writable(out)
    temporary = temporary_name(out)
    try:
        yield temporary
        os.replace(temporary, out)
    finally:
        temporary.unlink(missing_ok=True)


def _arrays(file: RolloutFile, keys: Iterable[Any] | None) -> Iterator[tuple[Key, np.ndarray, bool]]:
    """Yield (key, array, whether it has [envs, steps]) of the tensors of a batch."""
    for i in sorted(find_keys(file.keys, keys)):
        yield file.keys[i], plain_array(file.tensor(i, file.take(i))), file.columns[i].steps


def _to_hdf5(h5py: Any, storage: RolloutStorage, out: Path, iterations: list[int], keys: Any) -> str:
    count = 0
    with _renamed_at_end(out) as temporary, h5py.File(temporary, "w") as target:
        target.attrs["format"] = "slipstream rollouts"
        for iteration in iterations:
            file = storage.file(iteration)
            group = target.create_group(f"rollout_{iteration:06d}")
            group.attrs["iteration"], group.attrs["lead"] = iteration, file.lead
            group.attrs["note"] = json.dumps(file.note, default=str)
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
    """Write one row per step: iteration, env, step, and one column per key; several numbers per step are a list, its
    shape in the schema."""
    parquet = importlib.import_module("pyarrow.parquet")
    rows, writer = 0, None
    with _renamed_at_end(out) as temporary, contextlib.ExitStack() as stack:
        for iteration in iterations:
            file = storage.file(iteration)
            picked = [i for i in sorted(find_keys(file.keys, keys)) if file.columns[i].steps]
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
        array = plain_array(file.tensor(i, file.take(i, frames), (n,)))
        array = np.stack((array.real, array.imag), -1) if array.dtype.kind == "c" else array
        shape = array.shape[1:]
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
    """Write a dataset NAME-v0 beside `out`; an episode that was not saved to its end is marked truncated."""
    from gymnasium import spaces

    name = out.name if re.search(r"-v\d+$", out.name) else f"{out.name}-v0"
    target = out.parent / name
    is_dataset = not target.is_symlink() and (target / "data" / "main_data.hdf5").is_file()
    if os.path.lexists(target) and not is_dataset:
        raise FileExistsError(f"{target} exists and is no Minari dataset: give another name")
    first = storage.file(iterations[0])
    reward, action = outcome_key(first.keys, "reward"), outcome_key(first.keys, "action")
    seen = [key for i, key in enumerate(first.keys) if key[0] == "observation" and i in find_keys(first.keys, keys)]
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
            warnings.simplefilter("ignore", UserWarning)  # of a missing author, and the like
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
    """Return an episode's observations and the last one's successor; if that was not saved, the last one again."""
    after = data.get(("next", *key))
    return np.concatenate((data[key], data[key][-1:] if after is None else after[-1:]))


def _box(values: Any) -> Any:
    from gymnasium import spaces

    values = np.asarray(values)
    if values.dtype.kind == "f":
        return spaces.Box(-np.inf, np.inf, values.shape[1:], values.dtype.type)
    low, high = (0, 1) if values.dtype == bool else (np.iinfo(values.dtype).min, np.iinfo(values.dtype).max)
    return spaces.Box(low, high, values.shape[1:], values.dtype.type)
