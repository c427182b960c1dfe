"""A collector's [N, T] batch as rows: N streams, each in its own order, linked from batch to batch.

The observation after a batch's last step is the first one of the next batch. Until that comes it waits, one a stream, as the
stream's *pending* observation; so every step can be drawn at once and nothing is stored twice.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from slipstream.replay.index.compare import rows_differ
from slipstream.replay.index.episodes import DONE, TERMINATED
from slipstream.replay.index.step_index import FINAL, NO_LINK, STARTS
from slipstream.storage.schema import Key, Schema, as_array, flatten, show

# of a collector's batch, not kept unless named in `keys`: of use to on-policy learners only, or derived
NOT_KEPT = frozenset({"valid", "done", "info", "value", "log_prob", "mask"})


@dataclass
class Streams:
    """How far each environment of one writer has come. Streams have numbers of their own across writers: `first` + environment."""

    first: int
    last_piece: np.ndarray  # int64 [N]: the piece that goes on; -1: none
    first_piece: np.ndarray  # int64 [N]: the piece with which its episode began
    done: np.ndarray  # bool [N]: the last step ended its episode

    @classmethod
    def begin(cls, first: int, number: int) -> Streams:
        """`number` environments of which nothing is known yet."""
        return cls(first, np.full(number, -1), np.full(number, -1), np.zeros(number, bool))


@dataclass
class StreamBatch:
    """A batch read and checked: arrays [N, T, ...], and the observation after the last step [N, ...]."""

    arrays: dict[Key, np.ndarray]
    last: dict[Key, np.ndarray]
    valid: np.ndarray  # bool [N, T]
    ends: np.ndarray  # uint8 [N, T]
    cut: np.ndarray  # bool [N, T]: the successor is not the observation at t + 1, and stands in `extra`
    extra: dict[Key, np.ndarray]  # successors [cuts, ...] in the order of `cut`


@dataclass
class Plan:
    """Pieces for the index, and what becomes of the streams. Piece numbers of the batch count from 0; `closed` pieces come first."""

    steps: np.ndarray
    rows: np.ndarray
    back: np.ndarray  # numbers of older pieces, or -1
    link: np.ndarray
    flags: np.ndarray
    whole: list[tuple[int, int]] = field(
        default_factory=list
    )  # (old first piece or -1, piece of this batch): episodes that ended


def read_batch(batch: Any, schema: Schema, keys: set[str] | None) -> StreamBatch:
    """Checks a [N, T] batch against `schema`; the first one fixes it."""
    flat = flatten(batch)
    kept = {
        k: v for k, v in flat.items() if k[0] != "next" and (k[0] in keys if keys is not None else k[0] not in NOT_KEPT)
    }
    nexts = {k[1:]: v for k, v in flat.items() if k[0] == "next" and k[1:] in kept}
    if schema.specs:
        nexts = {k: v for k, v in nexts.items() if (s := schema.specs.get(k)) is not None and s.next_key is not None}
    if not nexts:
        raise KeyError(
            'the batch has no ("next", "observation", name): extend needs the observation that followed each step'
        )
    shape = tuple(next(iter(kept.values())).shape[:2])
    for key, value in (*kept.items(), *nexts.items()):
        if not isinstance(value, Tensor) or value.shape[:2] != shape:
            raise ValueError(f"{show(key)} is no tensor [N, T, ...] with [N, T] = {list(shape)}")
    arrays, dtypes = {}, {}
    for key, value in kept.items():
        arrays[key], dtypes[key] = as_array(key, value)
    merged = {key: array.reshape(-1, *array.shape[2:])[:1] for key, array in arrays.items()}
    if not schema.specs:
        schema.fix(merged, dtypes, {key: ("next", *key) for key in nexts})
    schema.check(merged, dtypes)
    for key, spec in schema.specs.items():
        if spec.next_key is not None and key not in nexts:
            raise KeyError(
                f"{show(('next', *key))} is missing: the first data gave the observation that follows each {show(key)}"
            )
    valid = flat["valid",].cpu().numpy() if ("valid",) in flat else np.ones(shape, bool)
    ends = _ends(flat, valid)
    cut = _cuts(kept, nexts, valid, ends)
    extra, last = {}, {}
    where = torch.from_numpy(cut)
    for key, value in nexts.items():
        last[key] = as_array(key, value[:, -1])[0]
        extra[key] = as_array(key, value[where.to(value.device)])[0] if cut.any() else last[key][:0]
    return StreamBatch(arrays, last, valid, ends, cut, extra)


def _ends(flat: dict[Key, Any], valid: np.ndarray) -> np.ndarray:
    ends = np.zeros(valid.shape, np.uint8)
    given = [name for name in ("terminated", "truncated", "done") if (name,) in flat]
    for name in given:
        over = flat[name,].cpu().numpy().reshape(valid.shape) != 0
        terminal = name == "terminated" or given == ["done"]
        ends |= np.where(over & valid, DONE | (TERMINATED if terminal else 0), 0).astype(np.uint8)
    return ends


def _cuts(kept: dict[Key, Tensor], nexts: dict[Key, Tensor], valid: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """bool [N, T]: steps within the batch whose successor is not the observation at t + 1."""
    cut = np.zeros(valid.shape, bool)
    if valid.shape[1] == 1:
        return cut
    # a valid frame right after an end belongs to another episode, whatever it holds
    cut[:, :-1] = valid[:, :-1] & ((ends[:, :-1] & DONE) != 0) & valid[:, 1:]
    for key, after in nexts.items():
        now = kept[key]
        step = now.stride(1) * now.element_size()
        if after.data_ptr() == now.data_ptr() + step and after.stride() == now.stride() and after.device == now.device:
            continue  # the collector's view, one row on
        a, b = as_array(key, after[:, :-1])[0], as_array(key, now[:, 1:])[0]
        differ = rows_differ(a.reshape(-1, *a.shape[2:]), b.reshape(-1, *b.shape[2:])).reshape(a.shape[:2])
        cut[:, :-1] |= differ & valid[:, :-1]
    return cut


def continuing(batch: StreamBatch, streams: Streams, pending: dict[Key, np.ndarray]) -> np.ndarray:
    """bool [N]: streams whose first observation is the pending one, so that the same episode (or its final frame) goes on."""
    slots = slice(streams.first, streams.first + len(streams.done))
    goes_on = (streams.last_piece >= 0) & ~(streams.done & batch.valid[:, 0])
    if goes_on.any():
        for key in batch.last:
            goes_on &= ~rows_differ(pending[key][slots], batch.arrays[key][:, 0])
    return goes_on


def plan(batch: StreamBatch, streams: Streams, goes_on: np.ndarray) -> Plan:
    """Cuts the batch into pieces: one an environment, and a new one after each final observation."""
    number, length = batch.valid.shape
    if batch.valid.all() and not batch.cut.any():
        return _plan_unbroken(batch, streams, goes_on)
    starts = np.ones((number, length), bool)
    starts[:, 1:] = batch.cut[:, :-1] | ~batch.valid[:, :-1]
    piece = np.cumsum(starts.ravel()) - 1
    pieces = int(piece[-1]) + 1
    steps = np.bincount(piece, weights=batch.valid.ravel(), minlength=pieces).astype(np.int64)
    rows = np.bincount(piece, weights=1 + batch.cut.ravel(), minlength=pieces).astype(np.int64)
    final = rows > steps
    firsts = piece[np.arange(number) * length]  # each environment's first piece
    lasts = np.append(firsts[1:], pieces) - 1
    back = np.full(pieces, -1)
    back[firsts] = np.where(goes_on, streams.last_piece, -1)
    flags = np.where(final, FINAL, 0).astype(np.uint8)
    begins = np.ones(pieces, bool)
    begins[firsts] = ~goes_on
    flags |= np.where(begins, STARTS, 0).astype(np.uint8)
    link = np.full(pieces, NO_LINK)
    link[lasts] = np.where(final[lasts], NO_LINK, -2 - streams.first - np.arange(number))
    over = final.copy()  # pieces with which an episode is known to be over
    over[lasts] |= (batch.ends[:, -1] & DONE) != 0
    env = np.repeat(np.arange(number), lasts - firsts + 1)
    older = np.where(begins, -1, streams.first_piece[env])
    told = ~begins & (steps == 0) & streams.done[env]  # the final frame of an episode that was over in the last batch
    whole = [(int(older[p]), int(p)) for p in np.flatnonzero(over & ~told & ((steps > 0) | ~begins))]
    return Plan(steps, rows, back, link, flags, whole)


def _plan_unbroken(batch: StreamBatch, streams: Streams, goes_on: np.ndarray) -> Plan:
    """`plan` where every environment gives one piece of nothing but steps; single steps mostly do."""
    number, length = batch.valid.shape
    steps = np.full(number, length)
    flags = np.where(goes_on, 0, STARTS).astype(np.uint8)
    over = np.flatnonzero(batch.ends[:, -1] & DONE)
    whole = [(int(streams.first_piece[n]) if goes_on[n] else -1, int(n)) for n in over]
    link = -2 - streams.first - np.arange(number)
    return Plan(steps, steps, np.where(goes_on, streams.last_piece, -1), link, flags, whole)


def lay_out(batch: StreamBatch) -> dict[Key, np.ndarray]:
    """Each key's rows, environment by environment, with the extra ones in their places."""
    number, length = batch.valid.shape
    if not batch.cut.any():
        return {key: array.reshape(number * length, *array.shape[2:]) for key, array in batch.arrays.items()}
    cut = batch.cut.ravel()
    at = np.arange(cut.size) + np.concatenate([[0], np.cumsum(cut)[:-1]])
    rows = {}
    for key, array in batch.arrays.items():
        rows[key] = np.zeros((cut.size + int(cut.sum()), *array.shape[2:]), array.dtype)
        rows[key][at] = array.reshape(cut.size, *array.shape[2:])
        if key in batch.extra:
            rows[key][at[cut] + 1] = batch.extra[key]
    return rows


def row_ends(batch: StreamBatch) -> np.ndarray:
    """uint8 [rows], beside `lay_out`."""
    ends, cut = batch.ends.ravel(), batch.cut.ravel()
    if not cut.any():
        return ends
    rows = np.zeros(cut.size + int(cut.sum()), np.uint8)
    rows[np.arange(cut.size) + np.concatenate([[0], np.cumsum(cut)[:-1]])] = ends
    return rows
