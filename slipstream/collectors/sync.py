"""SyncDataCollector: policy and env in turn, each frame written once, straight into the batch."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Self

import torch
from tensordict import TensorDict
from torch import Tensor

from slipstream.collectors.batch import Frame, RolloutMemory, invalidate, shells, write
from slipstream.collectors.episodes import EpisodeStatistics
from slipstream.collectors.trajectories import split_trajectories
from slipstream.envs.base import TensorEnv
from slipstream.envs.specs import Observation, Rows, Step
from slipstream.models.exploration import ExplorationType, chosen_exploration_type, set_exploration_type

Policy = Callable[[Observation], Tensor | Mapping[str, Tensor]]

_OWN_KEYS = frozenset({"observation", "reward", "terminated", "truncated", "done", "valid", "info", "next", "mask"})


class SyncDataCollector:
    """Batches of `frames_per_batch` frames, [num_envs, T], of `policy` acting in `env`.

    `policy(observation)` gives the action, or a mapping of 'action' and, where it has them, 'log_prob' [N], 'value' [N] and
    any further [N, ...] tensors, which are stored as well. A method `policy.value(observation)` gives the value of the
    observation after the last frame; without it the policy is asked once more.

    - `total_frames`: where iteration stops; -1: never. Frames are counted as stored, invalid ones included.
    - `device`: where batches are delivered; None: where the env lives.
    - `return_same_td`: True hands out views of a ring of `ring_size` slots, nothing copied: a batch lives until `ring_size`
      more have been collected, and raises `OverwrittenBatchError` after. False gives the caller a copy of its own.
    - `exploration_type`: how the policy is to act, unless an outer `set_exploration_type` says otherwise.
    - `split_trajs`: cut batches at episode ends, see `split_trajectories`.
    - `postproc`: applied to every batch before it is handed out.
    """

    def __init__(
        self,
        env: TensorEnv,
        policy: Policy,
        frames_per_batch: int,
        total_frames: int = -1,
        device: torch.device | str | None = None,
        return_same_td: bool = False,
        exploration_type: ExplorationType = ExplorationType.RANDOM,
        split_trajs: bool = False,
        postproc: Callable[[TensorDict], TensorDict] | None = None,
        *,
        ring_size: int = 2,
    ) -> None:
        _check_counts(frames_per_batch, env.num_envs, total_frames, ring_size)
        self.env = env
        self.policy = policy
        self.frames_per_batch = frames_per_batch
        self.total_frames = total_frames
        env_device = _resolve(env.device)
        self.device = env_device if device is None else _resolve(device)
        self.return_same_td = return_same_td
        self.exploration_type = exploration_type
        self.split_trajs = split_trajs
        self.postproc = postproc
        self.ring_size = ring_size
        self.episodes = EpisodeStatistics(env.num_envs, env.device)
        self._steps = frames_per_batch // env.num_envs
        self._frames = 0
        self._clock = _RolloutClock(env_device)
        self._present: Observation = {}  # what the env shows now: where the next rollout begins
        self._needs_reset = True
        self._closed = False
        # A ring where the slots themselves are handed out; one slot where batches are copies of it.
        self._lends = return_same_td and not split_trajs
        self._crosses = self.device != env_device
        self._num_slots = ring_size if self._lends and not self._crosses else 1
        self._slots: list[RolloutMemory] = []
        self._delivered: list[RolloutMemory] = []  # the ring, where it lies on another device than the env
        self._lent: list[list[TensorDict]] = [
            [] for _ in range(ring_size)
        ]  # what was last handed out of each place in the ring
        self._turn = 0  # the place in the ring that comes next
        self._fills: list[Callable[[], None]] = [partial(self._fill, slot) for slot in range(self._num_slots)]
        self._advance: Step = self._step

    # -- what users call ---------------------------------------------------------------------------------------------

    def rollout(self, check: bool = True) -> TensorDict:
        """The next batch. With `return_same_td` it is the collector's memory: copy what you keep.

        `check` reads back whether the actions were good, once a batch; a loop that reads back anyway passes False and calls
        `check()` itself.
        """
        self._raise_if_closed()
        with torch.no_grad():
            self._begin()
            slot = self._turn % self._num_slots
            self._take_back(self._turn)
            self._collect_into(slot)
            if check:
                self.check()
            batch = self._deliver(slot)
        return batch if self.postproc is None else self.postproc(batch)

    def collect(self) -> TensorDict:
        """The next batch, as `rollout()`: `with set_exploration_type(ExplorationType.MEAN): data = collector.collect()`."""
        return self.rollout()

    def iterator(self) -> Iterator[TensorDict]:
        """Batches until `total_frames` have been collected, over the collector's whole life."""
        while self.total_frames < 0 or self._frames < self.total_frames:
            yield self.rollout()

    def __iter__(self) -> Iterator[TensorDict]:
        return self.iterator()

    def check(self) -> None:
        """Raises if the policy gave bad actions since the last check. The env and the collector stay usable."""
        self._raise_if_closed()
        if hasattr(self.env, "check"):
            self.env.check()

    @property
    def bad_actions(self) -> Tensor:
        """Whether [] the policy gave bad actions since the last check, still on the device."""
        return self.env.bad_actions.any()

    @property
    def frames(self) -> int:
        """Frames collected so far."""
        return self._frames

    @property
    def fps(self) -> float:
        """Frames a second of the last rollout, the learner's time not counted; 0 before the first."""
        seconds = self._clock.seconds()
        return self.frames_per_batch / seconds if seconds else 0.0

    @property
    def _fps(self) -> float:  # the documents' name
        return self.fps

    @property
    def acting(self) -> Policy:
        """The policy that acts."""
        return self.policy

    def act_with(self, policy: Policy) -> None:
        """Lets another policy act from the next rollout on."""
        self.policy = policy

    def capture_with(self, capture: Callable[[Callable[[], None]], Callable[[], None]]) -> None:
        """Lets `capture` wrap the device's work of a rollout, a function of tensors that stay where they are (a CUDA graph)."""
        self._fills = [capture(partial(self._fill, slot)) for slot in range(self._num_slots)]

    def compile_with(self, compile: Callable[[Step, TensorEnv], Step]) -> None:
        """Lets `compile` wrap the device's work of one step, policy and env and the writing of the frame (`torch.compile`)."""
        self._advance = compile(self._step, self.env)

    def shutdown(self) -> None:
        """Lets go of the memory; the env stays the caller's. Batches already handed out stay readable."""
        self._closed = True
        self._slots, self._delivered, self._present = [], [], {}
        self._lent = [[] for _ in self._lent]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.shutdown()

    def state_dict(self) -> dict[str, Any]:
        """All that the next batches depend on but the policy and torch's global generators, as copies."""
        self._raise_if_closed()
        self._begin()
        return {
            "env": self.env.state_dict(),
            "observation": {name: x.clone() for name, x in self._present.items()},
            "episodes": self.episodes.state_dict(),
            "frames": self._frames,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on from `state`: on a CPU the next batches are the same bit for bit."""
        self._raise_if_closed()
        self.env.load_state_dict(state["env"])
        self._set_present(state["observation"])
        self.episodes.load_state_dict(state["episodes"])
        self._frames = state["frames"]
        self._needs_reset = False

    # -- the device's work of one rollout ----------------------------------------------------------------------------

    def _fill(self, slot: int) -> None:
        """Collects T steps into a slot. No host synchronisation, preallocated tensors only: capturable as a CUDA graph."""
        memory = self._slots[slot]
        torch._foreach_copy_(list(memory.observations[0].values()), list(self._present.values()))
        for t in range(self._steps):
            if memory.complete:
                self._advance(memory.observations[t], memory.rows(t))
            else:
                frame = self._frame(memory.observations[t])
                self._complete_slots(frame)
                write(memory.rows(t), frame)
        tensors = memory.tensors
        if ("value",) in tensors:
            tensors["value",][-1].copy_(self._value(memory.observations[-1]))
        torch._foreach_copy_(list(self._present.values()), list(memory.observations[-1].values()))
        torch.logical_or(tensors["terminated",], tensors["truncated",], out=tensors["done",])
        info = {key[1]: x for key, x in tensors.items() if key[0] == "info"}
        self.episodes.update(tensors["reward",], tensors["done",], tensors["valid",], info)

    def _step(self, observation: Observation, rows: Rows) -> None:
        """One step of all environments, written to `rows`."""
        write(rows, self._frame(observation))

    def _frame(self, observation: Observation) -> Frame:
        """What the policy and the env say of one step."""
        outputs = self._act(observation)
        record = self.env.step(outputs["action"])
        frame: Frame = {(name,): x for name, x in outputs.items()}
        frame["reward",] = record.reward
        frame["terminated",] = record.terminated
        frame["truncated",] = record.truncated
        frame["valid",] = record.valid
        frame |= {("info", name): x for name, x in record.info.items()}
        frame |= {("observation", name): x for name, x in record.observation.items()}
        return frame

    def _act(self, observation: Observation) -> Mapping[str, Tensor]:
        outputs = self.policy(dict(observation))  # a dict of its own: the policy may pop from it
        if isinstance(outputs, Tensor):
            return {"action": outputs}
        if not isinstance(outputs, Mapping) or "action" not in outputs:
            raise TypeError(
                f"the policy must return the action, or a mapping with the key 'action', not {_describe(outputs)}"
            )
        clash = _OWN_KEYS.intersection(outputs)
        if clash:
            raise ValueError(f"the policy gave {min(clash)!r}, a key the collector fills itself: name it otherwise")
        return outputs

    def _value(self, observation: Observation) -> Tensor:
        value = getattr(self.policy, "value", None)
        return value(dict(observation)) if callable(value) else self._act(observation)["value"]

    # -- around it ---------------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        """Resets the env at the first use, and after a rollout that was broken off: its state may be half a step on."""
        if self._needs_reset:
            self._set_present(self.env.reset())
            self.episodes.restart()
            self._needs_reset = False

    def _collect_into(self, slot: int) -> None:
        """Fills a slot; whatever stops it midway, Ctrl-C too, drops the batch and leaves the collector usable."""
        if not self._slots:
            self._slots = [RolloutMemory(self._steps, self._present) for _ in range(self._num_slots)]
        explore = chosen_exploration_type() or self.exploration_type
        self._needs_reset = True
        with set_exploration_type(explore), self._clock:
            self._fills[slot]()
        self._needs_reset = False
        self._frames += self.frames_per_batch

    def _deliver(self, slot: int) -> TensorDict:
        """The filled slot as a batch: itself, a copy, or cut into trajectories."""
        memory = self._slots[slot]
        if self.split_trajs:
            return split_trajectories(memory.batch()).to(self.device)
        if not self._lends:
            return memory.copy(self.device).batch()
        if self._crosses:
            if not self._delivered:
                self._delivered = [memory.copy(self.device) for _ in self._lent]
            self._delivered[self._turn].copy_(memory)
            memory = self._delivered[self._turn]
        batch = memory.batch()
        self._lent[self._turn] = shells(batch)
        self._turn = (self._turn + 1) % len(self._lent)
        return batch

    def _take_back(self, place: int) -> None:
        """The batch that was handed out of this place is about to be overwritten: whoever still reads it must hear of it."""
        lent, self._lent[place] = self._lent[place], []
        invalidate(lent)

    def _set_present(self, observation: Mapping[str, Tensor]) -> None:
        if not self._present:
            for name, x in observation.items():
                if x.shape[:1] != (self.env.num_envs,):
                    raise ValueError(
                        f"observation {name!r} must have shape [{self.env.num_envs}, ...], not {list(x.shape)}"
                    )
            self._present = {name: x.to(self.env.device, copy=True).contiguous() for name, x in observation.items()}
            return
        for name, mine in self._present.items():
            if name not in observation or observation[name].shape != mine.shape:
                raise ValueError(
                    f"no observation {name!r} of shape {list(mine.shape)} here: build env and collector as they were saved"
                )
            mine.copy_(observation[name])

    def _complete_slots(self, frame: Frame) -> None:
        """The first frame shows which keys there are."""
        n = self.env.num_envs
        for key, x in frame.items():
            name = key[-1]
            if not isinstance(x, Tensor) or x.shape[:1] != (n,):
                raise ValueError(f"{name!r} must be a tensor of shape [{n}, ...], not {_describe(x)}")
            if key in {("log_prob",), ("value",), ("reward",)} and x.shape != (n,):
                raise ValueError(
                    f"{name!r} must have shape [{n}], not {list(x.shape)}: squeeze or sum its last dimension"
                )
        if {key[1] for key in frame if key[0] == "observation"} != set(self._present):
            raise ValueError(
                f"env.reset() gave observations {sorted(self._present)}, env.step() others: give the same names"
            )
        for memory in self._slots:
            memory.complete_like(frame)

    def _raise_if_closed(self) -> None:
        if self._closed:
            raise RuntimeError("this collector was shut down: build a new SyncDataCollector")


class _RolloutClock:
    """How long a `with` block took on the device, asked for only when somebody looks."""

    def __init__(self, device: torch.device) -> None:
        cuda = device.type == "cuda"
        self._events = [torch.cuda.Event(enable_timing=True) for _ in range(2)] if cuda else []
        self._seconds = 0.0

    def __enter__(self) -> None:
        if self._events:
            self._events[0].record()
        self._start = time.perf_counter()

    def __exit__(self, *exc: object) -> None:
        self._seconds = time.perf_counter() - self._start
        if self._events:
            self._events[1].record()

    def seconds(self) -> float:
        """Of the last block; 0 before the first. On a GPU this waits for the block to end."""
        if not self._events or not self._seconds:
            return self._seconds
        self._events[1].synchronize()
        return self._events[0].elapsed_time(self._events[1]) / 1000


def _resolve(device: torch.device | str) -> torch.device:
    """With its index: "cuda" and "cuda:0" are one device, but do not compare equal."""
    return torch.empty(0, device=device).device


def _check_counts(frames_per_batch: int, num_envs: int, total_frames: int, ring_size: int) -> None:
    if frames_per_batch < 1 or frames_per_batch % num_envs:
        below, above = frames_per_batch // num_envs * num_envs, (frames_per_batch // num_envs + 1) * num_envs
        use = f"{below} or {above}" if below > 0 else f"{num_envs}"
        raise ValueError(
            f"frames_per_batch ({frames_per_batch}) must be a multiple of num_envs ({num_envs}): use {use}"
        )
    if total_frames < 1 and total_frames != -1:
        raise ValueError(f"total_frames ({total_frames}) must be positive, or -1 to collect without end")
    if ring_size < 1:
        raise ValueError(f"ring_size ({ring_size}) must be at least 1")


def _describe(x: object) -> str:
    if isinstance(x, Tensor):
        return f"shape {list(x.shape)}"
    return f"{type(x).__name__} of {list(x)}" if isinstance(x, Mapping) else type(x).__name__
