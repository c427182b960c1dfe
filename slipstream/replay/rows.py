"""From a user's data to rows: a complete episode, or a collector's [N, T] batch, with every observation once.

A row holds all keys of a step. The observation after the last step of an episode is a row of its own (a *final* row),
which is not a step. `next_K` is recognized as K shifted by one, so it costs nothing.

Batches of one collector are a *stream*: every environment continues from batch to batch. The observation after its last
step is the first one of the next batch. Until then it waits as the *pending* observation of the environment, so every
step can be sampled at once and nothing is stored twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from tensordict import TensorDict
from torch import Tensor

from slipstream.replay.index import DONE, FINAL, LINK, NO_LINK, STARTS, STEP, TERMINATED, WITH_PREVIOUS, make_pieces
from slipstream.storage.episodes import END_KEYS, OUTCOMES, VALID, find_ends, outcomes_at_top, read_flags, rows_differ
from slipstream.storage.schema import Form, Key, Schema, as_array, flatten, pad, show, sizes_key

# Keys of a collector's batch that are not kept unless `keys` names them: on-policy learners need them, or they are
# derived.
NOT_KEPT = frozenset({"valid", "done", "info", "value", "log_prob", "mask"})
_MOST_WAITING, _WAITING_BYTES = 256, 1 << 20  # single steps that wait to be added, and bytes of them
_ONE_PER_STEP = (("action",), *OUTCOMES)  # keys that never have a final row


def end_bits(flags: Mapping[Key, Tensor], shape: Sequence[int]) -> np.ndarray:
    """Return uint8 of `shape`: the bits DONE and TERMINATED of each step, from those flags that are given."""
    ended, terminated = find_ends(flags) or (torch.zeros(tuple(shape), dtype=torch.bool),) * 2
    return (DONE * ended.cpu() + TERMINATED * terminated.cpu()).to(torch.uint8).numpy()


def _with_finals(
    arrays: Mapping[Key, np.ndarray], ends: np.ndarray, cut: np.ndarray, finals: Mapping[Key, np.ndarray]
) -> tuple[dict[Key, list[np.ndarray]], np.ndarray]:
    """Return the rows of each key, in runs, and their end flags; after each row in `cut` one of `finals` (or zeros)."""
    if not cut.any():
        return {key: [array] for key, array in arrays.items()}, ends
    if not cut[:-1].any():  # nothing moves
        parts = {key: [array, finals.get(key, np.zeros_like(array[:1]))] for key, array in arrays.items()}
        return parts, np.append(ends, np.uint8(0))
    at = np.arange(len(cut)) + np.concatenate([[0], np.cumsum(cut)[:-1]])

    def inserted(array: np.ndarray, final: np.ndarray | None = None) -> np.ndarray:
        out = np.zeros((len(cut) + int(cut.sum()), *array.shape[1:]), array.dtype)
        out[at] = array
        if final is not None:
            out[at[cut] + 1] = final
        return out

    return {key: [inserted(array, finals.get(key))] for key, array in arrays.items()}, inserted(ends)


@dataclass
class Rows:
    """Rows of all columns, and the pieces they form in the index."""

    parts: dict[Key, list[np.ndarray]]  # the rows of each key, in runs
    ends: np.ndarray  # uint8 [rows]: DONE, TERMINATED
    pieces: np.ndarray  # as of `make_pieces`

    @property
    def steps(self) -> int:
        """How many of the rows are steps."""
        return int(self.pieces[:, STEP].sum())


# --- complete episodes


def read_episode(
    episode: Mapping[Any, Any], schema: Schema, keys: set[str] | None, capacity: int | None, piece: int
) -> Rows:
    """Check an episode of L steps and lay out its rows; the first one fixes `schema`.

    Every array has L rows. The next observations come as `next_K`, or ("next", K), or as row L + 1 of K itself.

    Args:
        capacity: steps; an episode that is longer loses its beginning.
        piece: the number that its first piece will have.
    """
    if not hasattr(episode, "items"):
        raise TypeError(f"an episode is a mapping of arrays by key, not a {type(episode).__name__}")
    given = outcomes_at_top(flatten(episode))
    arrays, dtypes = _episode_arrays(given, schema, keys)
    if not arrays:
        raise ValueError("an episode without keys")
    length = _count_steps(arrays)
    nexts = _take_nexts(arrays, dtypes, schema, length)
    cut = np.zeros(length, bool)  # steps after which there is a final row
    for key, array in arrays.items():
        if key in nexts and len(array) == length:
            cut[:-1] |= rows_differ(nexts[key][:-1], array[1:])
        if key not in nexts and len(array) == length + 1 and key not in _ONE_PER_STEP:  # its last row is the final one
            nexts[key], arrays[key] = array[1:], array[:length]
        elif len(array) != length:
            more = "" if key in _ONE_PER_STEP else ", or one more"
            raise ValueError(f"{show(key)} has {len(array)} rows, the episode has {length} steps: give {length}{more}")
    names = {}
    for key in nexts:  # the next observation is returned under the name it came with
        flat_name = (*key[:-1], "next_" + key[-1])
        came = any(name == flat_name or sizes_key(name) == flat_name for name in given)
        names[key] = flat_name if came else ("next", *key)
    schema.accept({key: (array.shape[1:], dtypes[key]) for key, array in arrays.items()}, names)
    kept = length if capacity is None else min(length, capacity)
    ends = end_bits(read_flags(given, END_KEYS, (length,)), (length,))[-kept:]
    cut = cut[-kept:]
    cut[-1] = final = bool(nexts)
    finals = {key: array[-kept:][cut] for key, array in nexts.items()}
    parts, ends = _with_finals({key: array[-kept:] for key, array in arrays.items()}, ends, cut, finals)
    steps = np.diff(np.flatnonzero(cut), prepend=-1) if final else np.array([kept])
    back = np.arange(piece - 1, piece - 1 + len(steps))
    flags = np.full(len(steps), final * FINAL | WITH_PREVIOUS)
    back[0], flags[0] = NO_LINK, final * FINAL | (STARTS if kept == length else 0)
    return Rows(parts, ends, make_pieces(steps, steps + final, back=back, flags=flags))


def _count_steps(arrays: Mapping[Key, np.ndarray]) -> int:
    """Return the number of steps: that of most keys with one row per step; without such keys the fewest rows of any
    key."""
    if min(len(a) for a in arrays.values()) < 1:
        raise ValueError("an episode of no steps")
    votes = Counter(len(a) for key, a in arrays.items() if key in _ONE_PER_STEP)
    return max(votes, key=lambda rows: (votes[rows], rows)) if votes else min(len(a) for a in arrays.values())


def _episode_arrays(
    given: Mapping[Key, Any], schema: Schema, keys: set[str] | None
) -> tuple[dict[Key, np.ndarray], dict[Key, torch.dtype]]:
    arrays: dict[Key, np.ndarray] = {}
    dtypes: dict[Key, torch.dtype] = {}
    for key, value in given.items():
        if keys is not None and key[0] not in keys and key[0] != "next" and key[-1].removeprefix("next_") not in keys:
            continue
        if (largest := schema.ragged.get(key) or schema.ragged.get(_base_of(key))) is not None:
            arrays[key], arrays[sizes_key(key)] = pad(key, value, largest)
            dtypes[key], dtypes[sizes_key(key)] = torch.from_numpy(arrays[key][:0]).dtype, torch.int32
        else:
            arrays[key], dtypes[key] = as_array(key, value)
            if key in END_KEYS:
                arrays[key], dtypes[key] = arrays[key] != 0, torch.bool
            if arrays[key].ndim < 1:
                raise ValueError(f"{show(key)} is a single number: give one row per step")
    return arrays, dtypes


def _base_of(key: Key) -> Key:
    """Return K of the keys `next_K` and ("next", K); of others nothing."""
    if key[0] == "next" and len(key) > 1:
        return key[1:]
    return (*key[:-1], key[-1].removeprefix("next_")) if key[-1].startswith("next_") else ()


def _take_nexts(
    arrays: dict[Key, np.ndarray], dtypes: dict[Key, Any], schema: Schema, length: int
) -> dict[Key, np.ndarray]:
    """Take the next observations out of `arrays`: {K: [L, ...]}. A `next_K` that has nothing to do with K remains a
    key."""
    found: dict[Key, np.ndarray] = {}
    for key in list(arrays):
        base = _base_of(key)
        if base not in arrays or key in schema.specs or not len(arrays[key]) == len(arrays[base]) == length:
            continue  # those in the schema were keys of their own at the first add
        if arrays[key].shape != arrays[base].shape or dtypes[key] != dtypes[base]:
            if not schema.specs:
                continue
            raise ValueError(
                f"{show(key)} and {show(base)} have different shapes or dtypes, at the first add they had the same"
            )
        found[base] = arrays.pop(key)
        dtypes.pop(key)
    return found


# --- single steps


class WaitingSteps:
    """Steps of one environment in arrays, until they are added as a batch [1, T].

    Args:
        first: the first step, which fixes the keys.
        schema: of the buffer; its keys have their dtypes already.
        capacity: of the buffer.
    """

    def __init__(self, first: Mapping[Key, Any], schema: Schema, capacity: int | None) -> None:
        arrays = {}
        for key, value in first.items():
            spec = schema.specs.get(_observation(key) or key)
            array = torch.as_tensor(value).numpy(force=True)  # a Python float is float32, as in torch
            arrays[key] = array if spec is None or np.ndim(value) else array.astype(spec.dtype)
        size = sum(array.nbytes for array in arrays.values())
        most = _MOST_WAITING if capacity is None else min(_MOST_WAITING, capacity // 16)
        rows = max(1, min(most, _WAITING_BYTES // max(1, size)))
        self._arrays = {key: np.empty((1, rows, *array.shape), array.dtype) for key, array in arrays.items()}
        self._rows, self.count = rows, 0

    def add(self, step: Mapping[Key, Any]) -> bool:
        """Add a step, with the keys, shapes and dtypes of the first; return whether there is no room for another."""
        if step.keys() != self._arrays.keys():
            names = ", ".join(map(show, self._arrays))
            raise KeyError(
                f"a step of {', '.join(map(show, step))}: every step must have the keys of the first ({names})"
            )
        for key, value in step.items():
            array = self._arrays[key]
            value = value.numpy(force=True) if isinstance(value, Tensor) else np.asarray(value)
            fits = value.shape == array.shape[2:] and (
                value.dtype == array.dtype or (value.ndim == 0 and _holds(array.dtype, value.dtype))
            )
            if not fits:
                first = f"{list(array.shape[2:])} {array.dtype}"
                raise ValueError(f"{show(key)} is {list(value.shape)} {value.dtype}, in the first step it was {first}")
            array[0, self.count] = value
        self.count += 1
        return self.count == self._rows

    def take(self) -> dict[Key, Tensor]:
        """Return the steps as a batch, whose memory is valid until the next `add`; none waits then."""
        count, self.count = self.count, 0
        batch = {}
        for key, array in self._arrays.items():
            now = _observation(key)
            batch[("next", *now) if now and now in self._arrays else key] = torch.from_numpy(array[:, :count])
        return batch


def _observation(key: Key) -> Key | None:
    """Return the key of which `next_observation`, or a name below it, is the next value; None for other keys."""
    return (key[0].removeprefix("next_"), *key[1:]) if key[0].startswith("next_") else None


def _holds(dtype: np.dtype[Any], number: np.dtype[Any]) -> bool:
    """Return whether single numbers of the dtype `number` may be stored as `dtype`: 1 and 0.5 as float32."""
    return np.can_cast(number, dtype) or (dtype.kind == "f" and number.kind in "biuf")


# --- batches of a stream


@dataclass
class StreamState:
    """How far the environments of one stream are. Those of all streams of a buffer are numbered."""

    first: int  # number of its first environment
    last_piece: np.ndarray  # int64 [N]: the piece that continues; -1: none
    done: np.ndarray  # bool [N]: the last step ended its episode


def split_batch(
    batch: Any, schema: Schema, keys: set[str] | None
) -> tuple[dict[Key, Tensor], dict[Key, Tensor], dict[Key, Tensor]]:
    """Check a [N, T] batch against `schema`, which the first one fixes; return (keys to keep, next observations,
    flags): `valid` is always there, and ends where not `valid` are none."""
    flat = outcomes_at_top(flatten(batch))

    def wanted(key: Key) -> bool:
        return key[0] in keys if keys is not None else key[0] not in NOT_KEPT

    kept = {k: v != 0 if k in END_KEYS else v for k, v in flat.items() if k[0] != "next" and wanted(k)}
    nexts = {k[1:]: v for k, v in flat.items() if k[0] == "next" and wanted(k[1:])}
    for key in nexts:
        if key not in kept:
            raise KeyError(
                f"{show(('next', *key))} has no {show(key)} beside it: leave it out, or choose what to keep with keys=[...]"
            )
    if any(key[-1:] in END_KEYS for key in nexts) and not any(key in flat for key in END_KEYS):
        raise KeyError(
            "the flags are below a name of their own: give 'done' or 'terminated' and 'truncated' at the top"
        )
    if schema.specs:
        nexts = {k: v for k, v in nexts.items() if (s := schema.specs.get(k)) is None or s.next_key is not None}
    if not nexts:
        raise KeyError('the batch has no ("next", "observation", name): extend needs the observation after each step')
    shape = next(iter(kept.values())).shape[:2]
    for key, value in (*kept.items(), *nexts.items()):
        if not isinstance(value, Tensor) or value.shape[:2] != shape:
            raise ValueError(f"{show(key)} is not a tensor [N, T, ...] with [N, T] = {list(shape)}")
    forms: dict[Key, Form] = {key: (tuple(value.shape[2:]), value.dtype) for key, value in kept.items()}
    schema.accept(forms, {key: ("next", *key) for key in nexts})
    flags = read_flags(flat, (VALID, *END_KEYS), shape)
    valid = flags.pop(VALID, None)
    if valid is None:
        valid = torch.ones(tuple(shape), dtype=torch.bool, device=next(iter(kept.values())).device)
    return kept, nexts, {VALID: valid, **{key: flag & valid for key, flag in flags.items()}}


def is_shifted_view(now: Tensor, after: Tensor) -> bool:
    """Whether `after` [N, T, ...] is the memory of `now` one step later."""
    step = now.stride(1) * now.element_size()
    return after.data_ptr() == now.data_ptr() + step and after.stride() == now.stride() and after.device == now.device


class StreamBatch:
    """A [N, T] batch of a stream as arrays.

    Attributes:
        arrays: {key: [N, T, ...]}.
        last: {key: [N, ...]}, the observations after the last step.
        valid: bool [N, T].
        ends: uint8 [N, T], the end flags.
        cut: bool [N, T]: the next observation is not the one at t + 1; it is in `finals`, in the order of `cut`.
    """

    def __init__(
        self, kept: Mapping[Key, Tensor], nexts: Mapping[Key, Tensor], valid: np.ndarray, ends: np.ndarray
    ) -> None:
        self.valid, self.ends = valid, ends
        self.arrays = {key: as_array(key, value)[0] for key, value in kept.items()}
        self.cut = self._find_cuts(kept, nexts)
        self.last, self.finals = {}, {}
        where = torch.from_numpy(self.cut) if self.cut.any() else None
        for key, value in nexts.items():
            self.last[key] = as_array(key, value[:, -1])[0]
            if where is not None:
                self.finals[key] = as_array(key, value[where.to(value.device)])[0]

    @classmethod
    def read(cls, batch: Any, schema: Schema, keys: set[str] | None, most: int | None) -> list[StreamBatch]:
        """Check a batch against `schema`, which the first one fixes; return it, or parts of about `most` bytes in
        order of time."""
        kept, nexts, flags = split_batch(batch, schema, keys)
        valid = flags[VALID].cpu().numpy()
        ends, steps = end_bits(flags, valid.shape), valid.shape[1]
        step_bytes = sum(value.nbytes for value in kept.values()) // steps if steps else 0
        length = max(1, steps if most is None else most // max(1, step_bytes))
        parts = []
        for t in (slice(start, start + length) for start in range(0, max(1, steps), length)):
            now, after = ({key: value[:, t] for key, value in of.items()} for of in (kept, nexts))
            parts.append(cls(now, after, valid[:, t], ends[:, t]))
        return parts

    @property
    def steps(self) -> int:
        """How many of the frames are steps."""
        return int(np.count_nonzero(self.valid))

    def _find_cuts(self, kept: Mapping[Key, Tensor], nexts: Mapping[Key, Tensor]) -> np.ndarray:
        valid, cut = self.valid, np.zeros(self.valid.shape, bool)
        if valid.shape[1] == 1:
            return cut
        # a valid frame right after an end belongs to another episode, whatever it holds
        cut[:, :-1] = valid[:, :-1] & ((self.ends[:, :-1] & DONE) != 0) & valid[:, 1:]
        for key, after in nexts.items():
            now = kept[key]
            if not is_shifted_view(now, after):
                a, b = as_array(key, after[:, :-1])[0], as_array(key, now[:, 1:])[0]
                differ = rows_differ(a.reshape(-1, *a.shape[2:]), b.reshape(-1, *b.shape[2:])).reshape(a.shape[:2])
                cut[:, :-1] |= differ & valid[:, :-1]
        return cut

    def rows(self, stream: StreamState, pending: Mapping[Key, np.ndarray], head: int) -> Rows:
        """Return the rows of each key, environment by environment, with the final ones in their places.

        The pending observation of an environment that does not continue was its final one: these rows come first.

        Args:
            pending: {key: [environments, ...]} of the buffer.
            head: the oldest piece of the buffer.
        """
        continued = self._continued(stream, pending)
        pieces = self._pieces(stream, continued)
        flat = {key: array.reshape(self.ends.size, *array.shape[2:]) for key, array in self.arrays.items()}
        parts, ends = _with_finals(flat, self.ends.ravel(), self.cut.ravel(), self.finals)
        stopped = np.flatnonzero(~continued & (stream.last_piece >= head))
        if len(stopped):
            for key, runs in parts.items():
                final = np.zeros((len(stopped), *runs[0].shape[1:]), runs[0].dtype)
                runs.insert(0, pending[key][stream.first + stopped] if key in pending else final)
            ends = np.concatenate([np.zeros(len(stopped), np.uint8), ends])
            nothing = np.zeros(len(stopped), np.int64)
            finals = make_pieces(nothing, nothing + 1, back=stream.last_piece[stopped], flags=FINAL)
            pieces = np.concatenate([finals, pieces])
        return Rows(parts, ends, pieces)

    def _continued(self, stream: StreamState, pending: Mapping[Key, np.ndarray]) -> np.ndarray:
        """Return bool [N]: environments whose first observation is the pending one: the same episode continues."""
        slots = slice(stream.first, stream.first + len(stream.done))
        continued = (stream.last_piece >= 0) & ~(stream.done & self.valid[:, 0])
        if continued.any():
            for key in self.last:
                continued &= ~rows_differ(pending[key][slots], self.arrays[key][:, 0])
        return continued

    def _pieces(self, stream: StreamState, continued: np.ndarray) -> np.ndarray:
        """Return the pieces of the batch: one per environment, and a new one after each final observation."""
        number, length = self.valid.shape
        if self.valid.all() and not self.cut.any():  # single steps mostly do
            links, back = -2 - stream.first - np.arange(number), np.where(continued, stream.last_piece, NO_LINK)
            lengths = np.full(number, length)
            return make_pieces(lengths, lengths, links, back, np.where(continued, 0, STARTS))
        begins = np.ones((number, length), bool)
        begins[:, 1:] = self.cut[:, :-1] | ~self.valid[:, :-1]
        frames = np.flatnonzero(begins)  # the first frame of each piece
        steps = np.add.reduceat(self.valid.ravel(), frames, dtype=np.int64)
        rows = np.add.reduceat(1 + self.cut.ravel(), frames, dtype=np.int64)
        env, first, final = frames // length, frames % length == 0, rows > steps
        last = np.append(first[1:], True)
        again = first & continued[env]
        links = np.where(last & ~final, -2 - stream.first - env, NO_LINK)
        flags = np.where(final, FINAL, 0) | np.where(again, 0, STARTS)
        return make_pieces(steps, rows, links, np.where(again, stream.last_piece[env], NO_LINK), flags)

    def advance(self, stream: StreamState, pieces: np.ndarray, first: int) -> None:
        """Write down where the stream is after the batch, whose pieces are numbered from `first` on."""
        unfinished = np.flatnonzero(pieces[:, LINK] < NO_LINK)
        stream.last_piece = np.full(len(stream.done), -1)
        stream.last_piece[-2 - pieces[unfinished, LINK] - stream.first] = first + unfinished
        stream.done = (self.ends[:, -1] & DONE) != 0


# --- batches for the user

# The checks of TensorDict's constructor take longer than sampling 256 small steps, and the shapes here are known.
_new_tensordict: Any = getattr(TensorDict, "_new_unsafe", TensorDict)


def make_batch(tensors: Mapping[Key, Tensor], batch_size: tuple[int, ...], device: torch.device) -> TensorDict:
    """Return a TensorDict of tensors by tuple keys. "discount" and "weight" get the axis of one that "reward" may have:
    a product of [B, 1] and [B] would be [B, B]."""
    size = torch.Size(batch_size)
    reward = tensors.get(("reward",))
    last_axis = reward is not None and reward.shape == (*size, 1)
    tree: dict[str, Any] = {}
    for key, tensor in tensors.items():
        if last_axis and key in (("discount",), ("weight",)):
            tensor = tensor.unsqueeze(-1)
        node = tree
        for name in key[:-1]:
            node = node.setdefault(name, {})
        node[key[-1]] = tensor

    def nested(node: dict[str, Any]) -> TensorDict:
        inner = {name: nested(value) if isinstance(value, dict) else value for name, value in node.items()}
        return _new_tensordict(inner, batch_size=size, device=device)

    return nested(tree)
