"""A whole episode as rows: observations once, the final one as a row of its own, `next_K` recognised as K shifted by one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from slipstream.replay.index.compare import rows_differ
from slipstream.storage.schema import Key, Schema, as_array, flatten, pad, show, sizes_key

DONE, TERMINATED = 1, 2  # bits of a row's end flags
_OF_A_STEP = (("action",), ("reward",), ("terminated",), ("truncated",), ("done",))  # one row a step, never one more


@dataclass
class Rows:
    """What is appended to the columns, and how the index counts it."""

    parts: dict[Key, list[np.ndarray]]  # each key's rows, in runs
    ends: np.ndarray  # uint8 [rows]: DONE, TERMINATED
    steps: np.ndarray  # int64 [pieces]: steps a piece
    rows: np.ndarray  # int64 [pieces]: rows a piece


def read_episode(episode: Mapping[Any, Any], schema: Schema, keys: set[str] | None) -> Rows:
    """Checks an episode of L steps and lays its rows out; the first one fixes `schema`.

    Every array has L rows. An observation's successors come as `next_K`, or ("next", K), or as row L + 1 of K itself.
    """
    if not hasattr(episode, "items"):
        raise TypeError(f"an episode is a mapping of arrays by key, not a {type(episode).__name__}")
    arrays, dtypes = _arrays(episode, schema, keys)
    if not arrays:
        raise ValueError("an episode without keys")
    length = _steps_of(arrays)
    nexts = _successors(arrays, dtypes, schema, length)
    finals = {key: array for key, array in nexts.items()}
    for key, array in arrays.items():
        if (
            key not in nexts and len(array) == length + 1 and key not in _OF_A_STEP
        ):  # the final observation stands at its end
            finals[key], arrays[key] = array[1:], array[:length]
        elif len(array) != length:
            more = "" if key in _OF_A_STEP else ", or one more"
            raise ValueError(f"{show(key)} has {len(array)} rows, the episode has {length} steps: give {length}{more}")
    if not schema.specs:
        schema.fix(arrays, dtypes, {key: _next_name(key, arrays, episode) for key in finals})
    schema.check(arrays, dtypes)
    for key, spec in schema.specs.items():
        if spec.next_key is not None and key not in finals:
            raise KeyError(
                f"{show(spec.next_key)} is missing: the first add gave the observation that follows each {show(key)}"
            )
        if spec.next_key is None and key in finals:
            raise KeyError(f"{show(key)} comes with its successors, at the first add it did not")
    return _lay_out(arrays, finals, length)


def _steps_of(arrays: Mapping[Key, np.ndarray]) -> int:
    """How many steps the episode has: what most of the keys that have one row a step say; without any, the fewest rows of a key."""
    if min(len(a) for a in arrays.values()) < 1:
        raise ValueError("an episode of no steps")
    votes = Counter(len(a) for key, a in arrays.items() if key in _OF_A_STEP)
    return max(votes, key=lambda rows: (votes[rows], rows)) if votes else min(len(a) for a in arrays.values())


def _arrays(
    episode: Mapping[Any, Any], schema: Schema, keys: set[str] | None
) -> tuple[dict[Key, np.ndarray], dict[Key, torch.dtype]]:
    arrays: dict[Key, np.ndarray] = {}
    dtypes: dict[Key, torch.dtype] = {}
    for key, value in flatten(episode).items():
        if keys is not None and key[0] not in keys and key[0] != "next" and key[-1].removeprefix("next_") not in keys:
            continue
        base = _base_of(key)
        if (largest := schema.ragged.get(key) or schema.ragged.get(base or ())) is not None:
            arrays[key], arrays[sizes_key(key)] = pad(key, value, largest)
            dtypes[key], dtypes[sizes_key(key)] = torch.from_numpy(arrays[key][:0]).dtype, torch.int32
        else:
            arrays[key], dtypes[key] = as_array(key, value)
            if arrays[key].ndim < 1:
                raise ValueError(f"{show(key)} is a single number: give one row a step")
    return arrays, dtypes


def _base_of(key: Key) -> Key | None:
    """The key whose successor `key` names, if it names one."""
    if key[0] == "next" and len(key) > 1:
        return key[1:]
    return (*key[:-1], key[-1].removeprefix("next_")) if key[-1].startswith("next_") else None


def _next_name(key: Key, arrays: Mapping[Key, np.ndarray], episode: Mapping[Any, Any]) -> Key:
    """Where the successor of `key` is handed out: where it came from, else under "next"."""
    flat_name = (*key[:-1], "next_" + key[-1])
    return flat_name if any(k == flat_name or k == sizes_key(flat_name) for k in _given(episode)) else ("next", *key)


def _given(episode: Mapping[Any, Any]) -> set[Key]:
    given = set(flatten(episode))
    return given | {sizes_key(key) for key in given}


def _successors(
    arrays: dict[Key, np.ndarray], dtypes: dict[Key, Any], schema: Schema, length: int
) -> dict[Key, np.ndarray]:
    """Takes the `next_K` out of `arrays`: {K: its successors [L, ...]}. One that has nothing to do with K stays a key of its own."""
    found: dict[Key, np.ndarray] = {}
    for key in list(arrays):
        base = _base_of(key)
        if base is None or base not in arrays or len(arrays[key]) != length or len(arrays[base]) != length:
            continue
        same_kind = arrays[key].shape == arrays[base].shape and dtypes[key] == dtypes[base]
        if key in schema.specs:
            continue  # was no successor at the first add
        if not schema.specs:
            if not same_kind:
                continue
            # The first episode decides. A stray difference costs one row more; where most differ, two columns are smaller.
            if rows_differ(arrays[key][:-1], arrays[base][1:]).sum() > (length - 1) // 4:
                continue
        elif not same_kind:
            raise ValueError(
                f"{show(key)} and {show(base)} have different shapes or dtypes, at the first add they had the same"
            )
        found[base] = arrays.pop(key)
        dtypes.pop(key)
    return found


def _lay_out(arrays: Mapping[Key, np.ndarray], finals: Mapping[Key, np.ndarray], length: int) -> Rows:
    """Rows in order: each step, and after the last one (or wherever the successor is another) a row for the observation alone."""
    cut = np.zeros(length, bool)
    for key, successors in finals.items():
        cut[:-1] |= rows_differ(successors[:-1], arrays[key][1:])
    cut[-1] = bool(finals)
    flags = _end_flags(arrays, length)
    if not cut[:-1].any():
        extra = int(cut[-1])
        parts = {}
        for key, array in arrays.items():
            parts[key] = [array]
            if extra:
                parts[key].append(finals[key][-1:] if key in finals else np.zeros_like(array[:1]))
        ends = np.concatenate([flags, np.zeros(extra, np.uint8)])
        return Rows(parts, ends, np.array([length]), np.array([length + extra]))
    at = np.arange(length) + np.concatenate([[0], np.cumsum(cut)[:-1]])  # the row of each step
    total = length + int(cut.sum())
    parts = {}
    for key, array in arrays.items():
        rows = np.zeros((total, *array.shape[1:]), array.dtype)
        rows[at] = array
        if key in finals:
            rows[at[cut] + 1] = finals[key][cut]
        parts[key] = [rows]
    ends = np.zeros(total, np.uint8)
    ends[at] = flags
    piece = np.concatenate([[0], np.cumsum(cut)[:-1]])  # the piece of each step
    steps = np.bincount(piece).astype(np.int64)
    return Rows(parts, ends, steps, steps + np.bincount(piece, weights=cut).astype(np.int64))


def _end_flags(arrays: Mapping[Key, np.ndarray], length: int) -> np.ndarray:
    """uint8 [L] from the keys terminated, truncated and done; `done` alone counts as terminated."""
    ends = np.zeros(length, np.uint8)
    given = [name for name in ("terminated", "truncated", "done") if (name,) in arrays]
    for name in given:
        array = arrays[name,]
        if array.size != length:
            raise ValueError(
                f"{name!r} has the shape {list(array.shape)}: give one value a step, [{length}] or [{length}, 1]"
            )
        over = array.reshape(length) != 0
        terminal = name == "terminated" or given == ["done"]
        ends |= np.where(over, DONE | (TERMINATED if terminal else 0), 0).astype(np.uint8)
    return ends
