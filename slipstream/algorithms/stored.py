"""Experience from files: rollout files and saved replay buffers, checked against an env's specs. Files are not trusted.

Rows are flat tensors [n, ...] by key: ("observation", name), ("next", "observation", name), ("action",), ("reward",),
("terminated",), ("truncated",). Steps of one environment follow one another.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from slipstream.algorithms.base import Learner
from slipstream.algorithms.offpolicy import ReplayLearner
from slipstream.checkpoint.errors import reading_state
from slipstream.checkpoint.load import find_file, find_run, load_checkpoint, newest_good
from slipstream.config.help import ConfigError
from slipstream.envs.specs import Box, Discrete, Hybrid, Spec
from slipstream.models.encoders import Specs
from slipstream.rollouts.file import RolloutFile
from slipstream.rollouts.storage import rollout_files
from slipstream.storage.episodes import END_KEYS, find_ends, find_outcomes, read_flags, same_bits
from slipstream.storage.schema import flatten
from slipstream.storage.tensor_file import Reader

Key = tuple[str, ...]
Rows = dict[Key, Tensor]
READ_AT_ONCE = 1 << 16  # transitions of a replay buffer
PER_STEP: tuple[Key, ...] = (("reward",), ("terminated",), ("truncated",))


class StoredData:
    """The transitions at `path`: a folder of rollout files or one of them, a replay folder, a checkpoint with a replay
    buffer, or a run folder that has one of these.

    Args:
        path: Where they are.
        specs: Observations and actions of the env that they must come from.
        asked: The key for messages, as `init_replay`.
        nexts: Whether rewards, ends and next observations are read too.
    """

    def __init__(self, path: str | Path, specs: tuple[Specs, Spec], asked: str, nexts: bool = True) -> None:
        self.path, self.name = Path(path), f"{asked}={path}"
        self._observation_spec, self._action_spec = specs
        self._nexts = nexts

    def chunks(self, rows: int, newest: int) -> Iterator[Rows]:
        """Yield about the `newest` transitions, the oldest first, at most `rows` at a time; frames that are not valid
        are left out."""
        for part in self._parts(newest):
            checked = self._check(part)
            for start in range(0, len(checked["action",]), rows):
                yield {key: value[start : start + rows] for key, value in checked.items()}

    # -- reading -------------------------------------------------------------------------------------------------------

    def _parts(self, newest: int) -> Iterator[Mapping[Key, Tensor]]:
        """Yield the newest transitions of what is at `path`, the oldest first."""
        from slipstream.replay.stored import is_replay_folder  # loads native code

        path = self.path
        files = [path] if path.match("rollout_*.slip") and not path.is_dir() else rollout_files(path)
        if files:
            return self._read_files(files, newest)
        state = path if is_replay_folder(path) else self._replay_state()
        if state is not None:
            return self._read_buffer(state, newest)
        files = rollout_files(path / "rollouts")
        if not files:
            why = "has no transitions" if path.exists() else "does not exist"
            raise ConfigError(
                f"{self.name} {why}: give a folder of rollout files (rollout_save_interval, RolloutStorage), a replay "
                "folder, or a run whose checkpoints hold its buffer (algo.save_replay=on)"
            )
        return self._read_files(files, newest)

    def _replay_state(self) -> Mapping[str, Any] | None:
        """Return the replay buffer in a checkpoint file, or in the newest good one of a run; None if there is none."""
        path = self.path

        def read(file: Path) -> Any:
            return load_checkpoint(find_file(file), ["algo"])

        try:
            state = newest_good(find_run(path) / "checkpoints", read)[1] if path.is_dir() else read(path)
        except (FileNotFoundError, KeyError):
            return None
        with reading_state(self.path):
            found = state["algo"].get("replay")
            return None if found is None else dict(found)

    def _read_buffer(self, source: Path | Mapping[str, Any], newest: int) -> Iterator[Mapping[Key, Tensor]]:
        """Yield the steps of a replay folder, or of the state of a buffer."""
        from slipstream.replay.stored import open_stored, read_transitions

        with open_stored(source) as buffer:
            yield from map(flatten, read_transitions(buffer, READ_AT_ONCE, newest))

    def _read_files(self, files: list[Path], newest: int) -> Iterator[Mapping[Key, Tensor]]:
        """Yield the valid frames of the last files that have `newest` of them together."""
        chosen: list[tuple[RolloutFile, Tensor]] = []
        for path in reversed(files):
            if newest <= 0:
                break
            file = RolloutFile(path)
            if not file.lead:
                raise ConfigError(f"{self.name}: {path.name} is not a batch [envs, steps]")
            valid = torch.ones(file.envs * file.steps, dtype=torch.bool)
            if ("valid",) in file.keys:
                valid = file.read_steps([("valid",)])["valid",].reshape(len(valid), -1).bool().any(-1)
            chosen.append((file, valid))
            newest -= int(valid.sum())
        for file, valid in reversed(chosen):
            yield self._read_file(file, valid)

    def _read_file(self, file: RolloutFile, valid: Tensor) -> Rows:
        """Return the frames of a file that are valid, one environment after the other."""
        names = {key: key for key in self._keys() if key in file.keys and key not in PER_STEP}
        names |= find_outcomes(file.keys) if self._nexts else {}
        arrays = file.read_steps(set(names.values())) if names else {}
        found = {
            key: torch.as_tensor(arrays[name]).flatten(0, 1)[valid]
            for key, name in names.items()
            if name in arrays and (torch.is_tensor(arrays[name]) or arrays[name].dtype.kind in "biuf")
        }
        return found | self._ends(found, int(valid.sum())) if self._nexts else found

    def _ends(self, found: Rows, count: int) -> Rows:
        """Return `terminated` and `truncated` of `count` frames, from those flags of them that the file has."""
        try:
            ends = find_ends(read_flags(found, END_KEYS, (count,)))
        except ValueError as error:
            raise ConfigError(f"{self.name}: {error}") from error
        ended, terminated = ends or (torch.zeros(count, dtype=torch.bool),) * 2
        return {("terminated",): terminated, ("truncated",): ended & ~terminated}

    def _keys(self) -> list[Key]:
        observed: list[Key] = [("observation", name) for name in self._observation_spec]
        nexts: list[Key] = [*(("next", *key) for key in observed), *PER_STEP]
        return [*observed, ("action",), *(nexts if self._nexts else ())]

    # -- checks --------------------------------------------------------------------------------------------------------

    def _check(self, found: Mapping[Key, Tensor]) -> Rows:
        """Return the rows that the env's specs name; raise ConfigError if they are of another env."""
        rows: Rows = {}
        for key in self._keys():
            what = key[0] if len(key) == 1 else f"{'next ' if key[0] == 'next' else ''}observation '{key[-1]}'"
            value = found.get(key)
            if value is None:
                raise ConfigError(f"{self.name} has no {what}: it comes from another env, or from other env.* settings")
            if key in PER_STEP:
                if value.numel() != len(value):
                    raise ConfigError(f"{self.name} has the {what} as {_form(value)}: it must be one number per step")
                rows[key] = value.flatten().float() if key == ("reward",) else value.flatten().bool()
                continue
            spec = self._action_spec if key == ("action",) else self._observation_spec[key[-1]]
            if (value.shape[1:], value.dtype) != (spec.shape, spec.dtype):
                raise ConfigError(
                    f"{self.name} has the {what} as {_form(value)}, and this env as {_form(spec, 0)}: it comes from "
                    "another env, or from other env.* settings"
                )
            rows[key] = value
        _check_range(rows["action",], self._action_spec, self.name)
        return rows


def _form(value: Any, lead: int = 1) -> str:
    return f"{str(value.dtype).removeprefix('torch.')} {list(value.shape[lead:])}"


def _check_range(action: Tensor, spec: Spec, name: str) -> None:
    """Raise ConfigError if an action is outside of the env's bounds, or not a number."""
    if isinstance(spec, Hybrid):
        low, high = (torch.tensor(side) for side in zip(*spec.bounds, strict=True))
    else:
        ends = (0, spec.n - 1) if isinstance(spec, Discrete) else (spec.low, spec.high)
        low, high = (torch.tensor(end) for end in ends)
    slack = 1e-5 * (high - low).nan_to_num(0, 0, 0) if isinstance(spec, Box | Hybrid) else 0
    if not bool(((action >= low - slack) & (action <= high + slack)).all()):
        raise ConfigError(
            f"{name} has actions from {action.min().item():.4g} to {action.max().item():.4g}, and this env takes "
            f"{low.min().item():.4g} to {high.max().item():.4g}: it comes from an env with other actions"
        )


def load_frames(path: str, specs: tuple[Specs, Spec], asked: str, newest: int) -> Rows:
    """Return the observations and actions of the `newest` frames at `path`, in memory. Arguments and errors as of
    `StoredData`."""
    data, reader = StoredData(path, specs, asked, nexts=False), Reader(path)
    parts: list[Rows] = []
    for rows in data.chunks(newest, newest):
        reader.claim(2 * sum(value.nbytes for value in rows.values()), "its frames")  # once more when they are joined
        parts.append(rows)
    if not parts:
        raise ConfigError(f"{data.name} has no frames: its rollout files or its buffer are empty")
    return {key: torch.cat([rows[key] for rows in parts])[-newest:] for key in parts[0]}


# -- into a replay buffer ----------------------------------------------------------------------------------------------


def fill_replay(learner: Learner, path: str, specs: tuple[Specs, Spec], num_envs: int) -> None:
    """Start the replay buffer of a learner with the transitions at `path`, as many of the newest as it can hold.

    Raises:
        ConfigError: The learner has no replay buffer, or the transitions are of another env.
        DamagedFileError: A file is damaged.
        TooLargeError: It needs more memory than there is.
    """
    if not isinstance(learner, ReplayLearner):
        raise ConfigError(
            f"init_replay fills a replay buffer, and algo={learner.config.name} has none: use dqn, sac or td3"
        )
    capacity = learner.config.buffer_size
    limit = capacity // num_envs * num_envs or capacity  # frames of a batch that fits
    data = StoredData(path, specs, "init_replay")
    for rows in data.chunks(max(1, limit // 2), capacity):
        learner.add_stored(as_batch(rows, num_envs, learner.device), len(rows["action",]))
    held = len(learner.buffer)
    if not held:
        raise ConfigError(f"init_replay={path} has no transitions: its rollout files or its buffer are empty")
    learner.stored = f"the replay buffer starts with {held:,} transitions of {path} (it holds up to {capacity:,})"


def as_batch(rows: Rows, num_envs: int, device: torch.device) -> dict[str, Any]:
    """Return transitions as a batch [N, T] of frames, as a collector gives it.

    Where the next observation is not that of the row after it, an invalid frame holds it. The frames are dealt out to N
    environments in runs of T; the last frame of each is invalid too, so that nothing continues after the batch.
    """
    count = len(rows["action",])
    observed = [key for key in rows if key[0] == "observation"]
    cut = rows["terminated",] | rows["truncated",]
    cut[-1] = True
    for key in observed:
        cut[:-1] |= ~same_bits(rows["next", *key][:-1], rows[key][1:], 1)
    source = torch.arange(count)
    frames = torch.cat((source, source[cut] + count))  # row i, or the next observation of row i as count + i
    frames = frames[torch.cat((2 * source, 2 * source[cut] + 1)).argsort()]
    steps = -(-len(frames) // num_envs)
    at = steps * torch.arange(num_envs)[:, None] + torch.arange(steps + 2)
    inside = at < len(frames)
    frames = frames[at.clamp(max=len(frames) - 1)]
    valid = inside & (frames < count)
    valid[:, steps:] = False
    batch: dict[str, Any] = {"observation": {}, "next": {"observation": {}}}
    for key in observed:
        values = torch.cat((rows[key], rows["next", *key]))[frames].to(device)
        batch["observation"][key[1]] = values[:, :-1]
        batch["next"]["observation"][key[1]] = values[:, 1:]
    for key in (("action",), *PER_STEP):
        batch[key[0]] = rows[key][frames[:, :-1] % count].to(device)
    return batch | {"valid": valid[:, :-1].to(device)}
