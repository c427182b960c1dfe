"""Episodes in a folder of batches: cut where they end, joined where one batch continues the one before."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from slipstream.rollouts.reader import BROKEN, RolloutFile, find_keys
from slipstream.rollouts.storage import RolloutStorage
from slipstream.rollouts.writer import Key

_PIECE_BYTES = 400  # memory of an episode of one piece


@dataclass
class Piece:
    """Consecutive steps of one environment in one batch."""

    iteration: int
    env: int
    start: int
    stop: int


@dataclass
class EpisodeRef:
    """The steps of an episode."""

    pieces: list[Piece] = field(default_factory=list)
    terminated: bool = False
    truncated: bool = False  # neither: it continues after the saved steps

    @property
    def ended(self) -> bool:
        """Whether its end was saved."""
        return self.terminated or self.truncated

    def __len__(self) -> int:
        return sum(piece.stop - piece.start for piece in self.pieces)


def find_episodes(
    storage: RolloutStorage, iterations: Iterable[int] | None = None, envs: Any = None
) -> list[EpisodeRef]:
    """Return all episodes of the batches, in order of their beginning. Frames that are marked invalid belong to none.

    A batch is joined to the one before if its first observations are the successors of that one's last, bit for bit;
    without successors of observations, if its number is the next one. For a broken batch the storage's `on_broken`
    decides.
    """
    done: list[EpisodeRef] = []
    running: dict[int, EpisodeRef] = {}
    before: RolloutFile | None = None
    for iteration in storage.iterations() if iterations is None else iterations:
        try:
            file = storage.file(iteration)
            if not file.lead:
                continue
            chosen = np.arange(file.envs) if envs is None else np.atleast_1d(np.arange(file.envs)[envs])
            continues = _continues(before, file, chosen)
            ends = _flags(file, chosen)
            pieces = len(chosen) + sum(
                int(np.count_nonzero(x)) for x in (ends["terminated"], ends["truncated"], ~ends["valid"])
            )
            file.claim(_PIECE_BYTES * pieces)
        except BROKEN as error:
            storage.handle_broken(iteration, error)
            continue
        for row, env in enumerate(chosen.tolist()):
            if not continues[row]:
                done.extend([running.pop(env)] if env in running else [])
            _cut(file, iteration, row, env, ends, running, done)
        before = file
    return sorted([*done, *running.values()], key=lambda e: (e.pieces[0].iteration, e.pieces[0].env, e.pieces[0].start))


def read_episode(
    storage: RolloutStorage, episode: EpisodeRef, keys: Iterable[Any] | None = None
) -> dict[Key, torch.Tensor]:
    """Return the episode's tensors by key, each [steps, ...]; arrays become tensors."""
    parts: list[dict[Key, Any]] = []
    for piece in episode.pieces:
        file = storage.file(piece.iteration)
        frames = piece.env * file.steps + np.arange(piece.start, piece.stop)
        parts.append({file.keys[i]: file.tensor(i, file.take(i, frames), (len(frames),)) for i in _numeric(file, keys)})
    return {key: torch.cat([torch.as_tensor(part[key]) for part in parts]) for key in parts[0]}


def outcome_key(keys: list[Key], name: str) -> Key | None:
    """Return the key of a step's reward or end: TorchRL has it under `next`, ours beside the observation."""
    return next((key for key in (("next", name), (name,)) if key in keys), None)


def _numeric(file: RolloutFile, keys: Iterable[Any] | None) -> list[int]:
    """Return the columns of `keys` that have steps and hold numbers."""

    def is_number(dtype: str) -> bool:
        return not dtype.startswith("numpy:") or np.dtype(dtype.removeprefix("numpy:")).kind in "biufc"

    found = sorted(find_keys(file.keys, keys))
    return [i for i in found if file.columns[i].steps and is_number(file.columns[i].dtype)]


def _flags(file: RolloutFile, envs: np.ndarray) -> dict[str, np.ndarray]:
    """Return bool [envs, steps] of `terminated`, `truncated` and `valid`; `done` alone counts as terminated."""
    frames = (envs[:, None] * file.steps + np.arange(file.steps)).reshape(-1)

    def read(name: str) -> np.ndarray | None:
        key = outcome_key(file.keys, name)
        if key is None or not file.columns[file.keys.index(key)].steps:
            return None
        i = file.keys.index(key)
        values = np.asarray(file.tensor(i, file.take(i, frames), (len(frames),)))
        return np.asarray(values.reshape(len(envs), file.steps, -1).astype(bool).any(-1))

    nothing = np.zeros((len(envs), file.steps), bool)
    terminated, truncated, done, valid = read("terminated"), read("truncated"), read("done"), read("valid")
    truncated = nothing if truncated is None else truncated
    if terminated is None:
        terminated = nothing if done is None else done & ~truncated
    return {"terminated": terminated, "truncated": truncated, "valid": ~nothing if valid is None else valid}


def _cut(
    file: RolloutFile,
    iteration: int,
    row: int,
    env: int,
    flags: dict[str, np.ndarray],
    running: dict[int, EpisodeRef],
    done: list[EpisodeRef],
) -> None:
    """Add the steps of one environment in one batch to the episodes they belong to."""
    valid = flags["valid"][row]
    stops = flags["terminated"][row] | flags["truncated"][row] | ~valid
    start = 0
    for at in [*np.flatnonzero(stops).tolist(), file.steps - 1]:
        stop = at + 1 if valid[at] else at
        if stop > start:
            episode = running.setdefault(env, EpisodeRef())
            episode.pieces.append(Piece(iteration, env, start, stop))
        if stops[at] and env in running:
            episode = running.pop(env)
            if valid[at]:
                episode.terminated, episode.truncated = (
                    bool(flags["terminated"][row, at]),
                    bool(flags["truncated"][row, at]),
                )
            done.append(episode)
        start = at + 1


def _continues(before: RolloutFile | None, file: RolloutFile, envs: np.ndarray) -> np.ndarray:
    """Return bool [envs]: whether the batch's first step follows the last one of the batch before."""
    none = np.zeros(len(envs), bool)
    if before is None or before.envs != file.envs or not before.steps or not file.steps:
        return none
    pairs = [(i, file.keys.index(key[1:])) for i, key in enumerate(before.keys) if key[0] == "next" and "observation" in key[1:2]
             and key[1:] in file.keys]  # fmt: skip
    if not pairs:
        return ~none if before.iteration + 1 == file.iteration else none
    continues = ~none
    for i, j in pairs:
        if before.columns[i].geometry.frame_bytes != file.columns[j].geometry.frame_bytes:
            return none
        last, first = before.take(i, envs * before.steps + before.steps - 1), file.take(j, envs * file.steps)
        continues &= (last == first).all(-1)
    return continues
