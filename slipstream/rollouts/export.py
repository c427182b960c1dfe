"""Export of rollouts: Parquet by step, Minari by episode. Each package is needed only for its own format."""

from __future__ import annotations

import importlib
import json
import os
import re
import shutil
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from slipstream.rollouts.file import Key, find_keys, show
from slipstream.rollouts.storage import RolloutStorage
from slipstream.storage.episodes import END_KEYS, REWARD, VALID, find_ends, find_outcomes, rows_differ
from slipstream.storage.files import check_writable, temporary_name

FORMATS = {"parquet": ("pyarrow", ".parquet"), "minari": ("minari", "")}
Steps = dict[Key, np.ndarray]  # arrays [envs, steps, ...], or of an episode [steps, ...]


def export(
    storage: RolloutStorage,
    to: str,
    out: str | Path,
    iterations: Iterable[int] | None = None,
    keys: Iterable[Any] | None = None,
) -> str:
    """Write the batches to `out`. bfloat16 and 8-bit floats become float32.

    Args:
        storage: where the batches are.
        to: "parquet" or "minari".
        out: the file, or the folder of a Minari dataset.
        iterations: which batches; all by default.
        keys: which tensors to write; all by default. Minari needs observations, actions and rewards.

    Returns:
        A line that says what was written.
    """
    package = FORMATS[to][0]
    try:
        module = importlib.import_module(package)
    except ImportError as error:
        raise ImportError(f"export --to {to} needs {package}: pip install -e '.[rollouts]'") from error
    chosen = storage.iterations() if iterations is None else list(iterations)
    if not chosen:
        raise FileNotFoundError(f"{storage.save_dir} has no rollouts to export")
    write = _to_parquet if to == "parquet" else _to_minari
    return write(module, storage, Path(out), chosen, keys)


def _read(storage: RolloutStorage, iteration: int, keys: Iterable[Any] | None) -> Steps:
    """Return a batch as arrays that other formats know."""
    arrays = {}
    for key, value in storage.file(iteration).read_steps(keys).items():
        if isinstance(value, torch.Tensor):
            odd = value.is_floating_point() and value.dtype not in (torch.float16, torch.float32, torch.float64)
            value = (value.float() if odd else value).numpy()
        arrays[key] = value
    if not arrays:
        raise ValueError(f"batch {iteration} has no [envs, steps]: save a TensorDict of that batch size")
    return arrays


def _to_parquet(pyarrow: Any, storage: RolloutStorage, out: Path, iterations: list[int], keys: Any) -> str:
    """Write one row per step: iteration, env, step, and one column per key; several numbers per step are a list, its
    shape in the schema."""
    parquet = importlib.import_module("pyarrow.parquet")
    out.parent.mkdir(parents=True, exist_ok=True)
    check_writable(out)
    temporary, writer, rows = temporary_name(out), None, 0
    try:
        for iteration in iterations:
            table = _table(pyarrow, iteration, _read(storage, iteration, keys))
            writer = writer or parquet.ParquetWriter(temporary, table.schema, compression="zstd")
            writer.write_table(table)
            rows += len(table)
        writer.close()  # type: ignore[union-attr]
        os.replace(temporary, out)
    finally:
        temporary.unlink(missing_ok=True)
    return f"wrote {out}: {rows:,} steps of {len(iterations)} batches"


def _table(pyarrow: Any, iteration: int, arrays: Steps) -> Any:
    lead = next(iter(arrays.values())).shape[:2]
    env, step = np.indices(lead).reshape(2, -1)
    index = {"iteration": np.full(env.size, iteration), "env": env, "step": step}
    columns = [pyarrow.array(values.astype(np.int64)) for values in index.values()]
    fields = [pyarrow.field(name, pyarrow.int64()) for name in index]
    for key, array in arrays.items():
        array = np.stack((array.real, array.imag), -1) if array.dtype.kind == "c" else array
        shape, column = array.shape[2:], pyarrow.array(array.reshape(-1))
        if 0 in shape:
            column = pyarrow.nulls(env.size)
        elif shape:
            column = pyarrow.FixedSizeListArray.from_arrays(column, int(np.prod(shape)))
        columns.append(column)
        fields.append(pyarrow.field(show(key), column.type, metadata={"shape": json.dumps(shape)}))
    return pyarrow.Table.from_arrays(columns, schema=pyarrow.schema(fields))


def _to_minari(minari: Any, storage: RolloutStorage, out: Path, iterations: list[int], keys: Any) -> str:
    """Write a dataset NAME-v0 beside `out`; an episode that was not saved to its end is marked truncated."""
    from gymnasium import spaces

    name = out.name if re.search(r"-v\d+$", out.name) else f"{out.name}-v0"
    target = out.parent / name
    is_dataset = not target.is_symlink() and (target / "data" / "main_data.hdf5").is_file()
    if os.path.lexists(target) and not is_dataset:
        raise FileExistsError(f"{target} exists and is no Minari dataset: give another name")
    buffers = [
        minari.data_collector.EpisodeBuffer(id=number, **_minari_episode(episode))
        for number, episode in enumerate(episodes(storage, iterations, keys))
    ]
    seen, action = buffers[0].observations, buffers[0].actions
    several = isinstance(seen, dict)
    space = spaces.Dict({name: _box(values) for name, values in seen.items()}) if several else _box(seen)
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
                observation_space=space,
                action_space=_box(action),
                algorithm_name="slipstream",
                description="exported by slipstream rollouts export",
            )
    finally:
        os.environ.pop("MINARI_DATASETS_PATH") if before is None else os.environ.update(MINARI_DATASETS_PATH=before)
    return f"wrote {target}: {len(buffers)} episodes (MINARI_DATASETS_PATH={out.parent} finds it)"


def episodes(storage: RolloutStorage, iterations: Iterable[int], keys: Iterable[Any] | None = None) -> Iterator[Steps]:
    """Yield each episode as arrays [steps, ...] by key, in order of their ends; `terminated` is among them, and what
    else ends it.

    Frames that are marked invalid belong to none. A batch continues the one before if its first observations are the
    successors of that one's last, bit for bit; without successors, if its number is the next one.
    """
    running: dict[int, list[Steps]] = {}  # by environment: what its episode has so far
    before: tuple[int, Steps] | None = None
    for iteration in iterations:
        arrays = _read(storage, iteration, _with_ends(storage.file(iteration).keys, keys))
        count, steps = next(iter(arrays.values())).shape[:2]
        ends, valid = _ends(arrays, (count, steps))
        continues = _continues(before, iteration, arrays, count)
        before = iteration, arrays
        for env in range(count):
            if not continues[env] and env in running:
                yield _join(running.pop(env))
            start = 0
            for at in (*np.flatnonzero(ends[env] | ~valid[env]).tolist(), steps - 1):
                stop = at + int(valid[env, at])
                if stop > start:
                    running.setdefault(env, []).append({key: x[env, start:stop] for key, x in arrays.items()})
                if (ends[env, at] or not valid[env, at]) and env in running:
                    yield _join(running.pop(env))
                start = at + 1
    yield from map(_join, running.values())


def _with_ends(held: list[Key], keys: Iterable[Any] | None) -> list[Key]:
    """Return those of the keys of a file that are asked for or say where episodes end."""
    asked = {held[i] for i in find_keys(held, keys)}
    needed = {VALID, *find_outcomes(held).values(), *(("next", *key) for key in asked)}
    return [key for key in held if key in asked or key in needed]


def _join(parts: list[Steps]) -> Steps:
    return {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}


def _ends(arrays: Steps, lead: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    """Return bool [envs, steps]: where an episode ends, and which frames are valid. Sets `terminated`."""
    names = {key: name for key, name in find_outcomes(arrays).items() if key in END_KEYS} | {VALID: VALID}
    flags = {key: np.any(arrays[x].reshape(*lead, -1), -1) for key, x in names.items() if x in arrays}
    ended, arrays["terminated",] = find_ends(flags, check=False) or (np.zeros(lead, bool),) * 2
    return ended, flags.get(VALID, np.ones(lead, bool))


def _continues(before: tuple[int, Steps] | None, iteration: int, arrays: Steps, count: int) -> np.ndarray:
    """Return bool [envs]: whether the batch's first step follows the last one of the batch before."""
    continues = np.full(count, before is not None)
    if before is None:
        return continues
    last = {key[1:]: x[:, -1] for key, x in before[1].items() if key[:2] == ("next", "observation")}
    if not last:
        return continues & (before[0] + 1 == iteration)
    for key, x in last.items():
        if key not in arrays or (arrays[key][:, 0].shape, arrays[key].dtype) != (x.shape, x.dtype):
            return np.zeros(count, bool)
        continues &= ~rows_differ(x, arrays[key][:, 0])
    return continues


def _minari_episode(episode: Steps) -> dict[str, Any]:
    """Return the arguments of Minari's `EpisodeBuffer`."""
    reward, action = find_outcomes(episode).get(REWARD), ("action",)
    seen = {show(key[1:]): _with_last(episode, key) for key in episode if key[0] == "observation"}
    if reward is None or action not in episode or not seen:
        raise ValueError(
            "Minari holds observations, actions and rewards: the batch needs 'observation', 'action' and 'reward'"
        )
    terminated, last = episode["terminated",][-1], np.arange(len(episode[reward])) == len(episode[reward]) - 1
    return {
        "observations": next(iter(seen.values())) if len(seen) == 1 else seen,
        "actions": episode[action],
        "rewards": episode[reward].reshape(len(last)),
        "terminations": last & terminated,
        "truncations": last & ~terminated,
    }


def _with_last(episode: Steps, key: Key) -> np.ndarray:
    """Return an episode's observations and the last one's successor; if that was not saved, the last one again."""
    after = episode.get(("next", *key), episode[key])
    return np.concatenate((episode[key], after[-1:]))


def _box(values: Any) -> Any:
    from gymnasium import spaces

    if values.dtype.kind == "f":
        return spaces.Box(-np.inf, np.inf, values.shape[1:], values.dtype.type)
    low, high = (0, 1) if values.dtype == bool else (np.iinfo(values.dtype).min, np.iinfo(values.dtype).max)
    return spaces.Box(low, high, values.shape[1:], values.dtype.type)
