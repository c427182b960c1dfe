"""SyncDataCollector: policy and env take turns; each frame is written once, directly to the batch."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import torch
from tensordict import TensorDict
from torch import Tensor

from slipstream.collectors.batch import LentBatch, RolloutMemory, write
from slipstream.collectors.compressed import compression
from slipstream.collectors.episodes import EpisodeStatistics, split_trajectories
from slipstream.config.schema import CollectConfig
from slipstream.config.validation import check_range
from slipstream.envs.base import TensorEnv
from slipstream.envs.collector import Collector
from slipstream.envs.rollout import Frame, Rollout
from slipstream.envs.specs import Observation, Rows, Step
from slipstream.models.exploration import ExplorationType, chosen_exploration_type, set_exploration_type
from slipstream.models.memory import MEMORY, memory_size

Policy = Callable[[Observation], Tensor | Mapping[str, Tensor]]

_OWN_KEYS = frozenset({"observation", "reward", "terminated", "truncated", "done", "valid", "info", "next", "mask"})


class SyncDataCollector(Collector):
    """Collect batches [num_envs, T] of `policy` acting in `env`.

    Args:
        env: the environments, or a function that makes them. A TorchRL env is used with its own policy (a module over
            TensorDicts, or None for random actions); the batches have TorchRL's layout then.
        policy: `policy(observation)` returns the action, or a mapping with 'action' and optionally 'log_prob' [N],
            'value' [N] and other tensors [N, ...], which are stored too. If it has a method `value(observation)`, that
            computes the value after the last frame. If it has a `memory_size`, the observation holds its memory, and
            batches those before their first steps as 'memory' (docs/memory.md). Or a learner, such as `PPO(network)`.
        frames_per_batch: num_envs × T.
        total_frames: where iteration stops; -1 for never. Invalid frames count.
        device: where batches are delivered; None for the env's device. On another device each batch is a copy.
        return_same_td: True returns views of the collector's memory, without a copy: a batch is valid until the next
            one is collected, and raises `OverwrittenBatchError` afterwards. False returns a copy that the caller owns.
        exploration_type: how the policy acts, unless an outer `set_exploration_type` says otherwise.
        split_trajs: cut batches at episode ends, see `split_trajectories`.
        postproc: applied to every batch before it is returned.
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
    ) -> None:
        if callable(env) and not hasattr(env, "step"):
            env = env()  # a function that makes it, as in TorchRL
        if "torchrl" in sys.modules:  # env, policy and exploration type may be TorchRL's
            from slipstream.collectors import torchrl

            exploration_type = torchrl.exploration_of(exploration_type)
            env, policy, postproc = torchrl.adapt(env, policy, postproc)
        self.env = env
        self.policy = policy if callable(policy) else getattr(policy, "policy", policy)  # a learner has one
        self.frames_per_batch = frames_per_batch
        self.total_frames = total_frames
        self._steps, rest = divmod(frames_per_batch, env.num_envs)
        if rest or not self._steps:
            below = max(1, self._steps) * env.num_envs
            raise ValueError(
                f"frames_per_batch={frames_per_batch} must be a multiple of num_envs={env.num_envs}: use {below} or "
                f"{below + env.num_envs}"
            )
        check_range(self, "frames_per_batch", minimum=1)
        if total_frames != -1:
            check_range(self, "total_frames", minimum=1, hint=", or -1 to collect without end")
        env_device = _with_index(env.device)
        self.device = env_device if device is None else _with_index(device)
        self.return_same_td = return_same_td
        self.exploration_type = exploration_type
        self.split_trajs = split_trajs
        self.postproc = postproc
        self.episodes = EpisodeStatistics(env.num_envs, env.device)
        self._span: Any = None  # start and end of the last rollout, see `_now`
        self._observation: Observation = {}  # the env's current one, where the next rollout starts
        size = memory_size(self.policy)
        self._memory = torch.zeros(env.num_envs, size, device=env_device) if size else None  # the policy's present one
        self._needs_reset = True
        self._lends = return_same_td and not split_trajs and self.device == env_device
        self._rows: RolloutMemory | None = None  # what a rollout is written to
        self._lent: LentBatch | None = None  # the batch that is a view of it
        self._captured_fill: Callable[[], None] = self._fill
        self._compiled_step: Step = self._step

    @classmethod
    def build(cls, env: TensorEnv, policy: Policy, frames: int, settings: CollectConfig, seed: int) -> Collector:
        """Return the collector of a training, with batches of `frames` frames in one memory."""
        return cls(env, policy, frames, return_same_td=True, postproc=compression(settings))

    # -- public interface --------------------------------------------------------------------------------------------

    def rollout(self, check: bool = True) -> Any:
        """Collect the next batch, a TensorDict [N, T]. With `return_same_td` it is the collector's memory: clone what
        you keep.

        Args:
            check: read back, once per batch, whether all actions were valid. A loop that reads back anyway passes False
                and calls `check()` itself.
        """
        batch = self.collect_rollout(check)
        return self._deliver(batch) if isinstance(batch, Rollout) else batch

    collect = rollout

    def collect_rollout(self, check: bool = True) -> Any:
        """Collect the next batch for a learner: a `Rollout`, without the way around a TensorDict, or what `postproc` or
        `split_trajs` made of it. With `return_same_td` it is valid until the next one is collected.

        Any interruption, also Ctrl-C, drops the steps and leaves the collector usable.
        """
        self._raise_if_closed()
        lent, self._lent = self._lent, None
        if lent is not None:
            lent.expire()
        with torch.no_grad():
            self._reset_if_needed()
            if self._rows is None:
                self._rows = RolloutMemory(self._steps, self._observation, self._memory)
            self._needs_reset = True
            start = self._now()
            with set_exploration_type(chosen_exploration_type() or self.exploration_type):
                self._captured_fill()
            self._span = start, self._now()
            self._needs_reset = False
            self._frames += self.frames_per_batch
            if check:
                self.check()
            rollout = Rollout.of_rows(self._rows.tensors)
            if not self._lends and not self.split_trajs:
                rollout = rollout.copy(self.device)
        return rollout if self.postproc is None and not self.split_trajs else self._deliver(rollout)

    def iterator(self) -> Iterator[Any]:
        """Yield batches until `total_frames` have been collected in the collector's lifetime."""
        while self.total_frames < 0 or self._frames < self.total_frames:
            yield self.rollout()

    __iter__ = iterator

    def update_policy_weights_(self) -> None:
        """Do nothing: the collector acts with the policy itself, not with a copy. For loops written for TorchRL."""

    def check(self) -> None:
        """Raise `BadActionError` if the policy returned invalid actions since the last check. Env and collector stay
        usable."""
        self._raise_if_closed()
        if hasattr(self.env, "check"):
            self.env.check()

    @property
    def bad_actions(self) -> Tensor:
        """Whether the policy returned invalid actions since the last check: bool [], on the device."""
        return self.env.bad_actions.any()

    @property
    def fps(self) -> float:
        """Frames per second of the last rollout, without the learner's time; 0 before the first. On a GPU this waits
        for the rollout's end."""
        if self._span is None:
            return 0.0
        start, end = self._span
        if isinstance(start, float):
            return self.frames_per_batch / (end - start)
        end.synchronize()
        return self.frames_per_batch / start.elapsed_time(end) * 1000

    _fps = fps  # NavRL's train.py reads this name

    def act_with(self, policy: Policy) -> None:
        """Act with another policy from the next rollout on."""
        self.policy = policy

    def capture_with(self, capture: Callable[[Callable[[], None]], Callable[[], None]]) -> None:
        """Wrap the device work of a rollout with `capture`; all of its tensors keep their memory (a CUDA graph)."""
        self._captured_fill = capture(self._fill)

    def compile_with(self, compile: Callable[[Step, TensorEnv], Step]) -> None:
        """Wrap the device work of one step (policy, env, writing the frame) with `compile` (`torch.compile`)."""
        self._compiled_step = compile(self._step, self.env)

    def shutdown(self) -> None:
        """Free the memory. The env stays the caller's; returned batches stay readable."""
        self._closed = True
        self._rows, self._observation, self._lent = None, {}, None

    def state_dict(self) -> dict[str, Any]:
        """Return copies of everything the next batches depend on, except the policy and torch's global generators."""
        self._raise_if_closed()
        self._reset_if_needed()
        return {
            "env": self.env.state_dict(),
            "observation": {name: x.clone() for name, x in self._observation.items()},
            "episodes": self.episodes.state_dict(),
            "frames": self._frames,
            **({} if self._memory is None else {MEMORY: self._memory.clone()}),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from `state`: on a CPU the next batches are the same bit for bit."""
        self._raise_if_closed()
        self.env.load_state_dict(state["env"])
        self._set_observation(state["observation"])
        self.episodes.load_state_dict(state["episodes"])
        if self._memory is not None:
            self._memory.copy_(state[MEMORY])
        self._frames = state["frames"]
        self._needs_reset = False

    # -- one rollout ---------------------------------------------------------------------------------------------------

    def _fill(self) -> None:
        """Write T steps. No host synchronization, preallocated tensors only: a CUDA graph can capture it."""
        memory = self._rows
        assert memory is not None
        present = self._observation if self._memory is None else {**self._observation, MEMORY: self._memory}
        torch._foreach_copy_(list(memory.observations[0].values()), list(present.values()))
        for observation, rows in zip(memory.observations[:-1], memory.rows, strict=True):
            step = self._compiled_step if rows else self._step  # the first step of all allocates the rows
            step(observation, rows)
        tensors, last = memory.tensors, memory.observations[-1]
        if ("value",) in tensors:
            policy: Any = self.policy
            has_value = callable(getattr(policy, "value", None))
            tensors["value",][-1].copy_(policy.value(dict(last)) if has_value else policy(dict(last))["value"])
        torch._foreach_copy_(list(present.values()), list(last.values()))
        torch.logical_or(tensors["terminated",], tensors["truncated",], out=tensors["done",])
        info = {key[1]: x for key, x in tensors.items() if key[0] == "info"}
        self.episodes.update(tensors["reward",], tensors["done",], tensors["valid",], info)

    def _step(self, observation: Observation, rows: Rows) -> None:
        """Act, step all environments, and write the frame to `rows`."""
        outputs: Any = self.policy(dict(observation))  # a dict of its own: the policy may pop from it
        outputs = {"action": outputs} if isinstance(outputs, Tensor) else outputs
        if not rows:
            self._check_outputs(outputs)
        record = self.env.step(outputs["action"])
        frame: Frame = {(name,): x for name, x in outputs.items()}
        frame |= {(name,): getattr(record, name) for name in ("reward", "terminated", "truncated", "valid")}
        if self._memory is not None:  # a frame that is not valid has reset the environment
            frame[MEMORY,] = torch.where(record.valid.unsqueeze(-1), outputs[MEMORY], 0.0)
        frame |= {("info", name): x for name, x in record.info.items()}
        frame |= {("observation", name): x for name, x in record.observation.items()}
        if not rows:
            self._check_frame(frame)
            assert self._rows is not None
            self._rows.allocate(frame)
        write(rows, frame)

    def _deliver(self, rollout: Rollout) -> Any:
        """Return the batch that users see."""
        if self.split_trajs:  # the policy's memory is of the first frames of the batch, not of the trajectories
            batch = split_trajectories(replace(rollout, memory=None).to_tensordict()).to(self.device)
        elif self._lends:
            batch = self._lent = rollout.to_tensordict(LentBatch)
        else:
            batch = rollout.to_tensordict()
        return batch if self.postproc is None else self.postproc(batch)

    # -- around it -----------------------------------------------------------------------------------------------------

    def _now(self) -> Any:
        """Return the present time, on a GPU as an event in its queue."""
        if self.env.device.type != "cuda":
            return time.perf_counter()
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def _reset_if_needed(self) -> None:
        """Reset the env at the first use, and after an interrupted rollout: its state may be in the middle of a
        step."""
        if self._needs_reset:
            self._set_observation(self.env.reset())
            self.episodes.restart()
            if self._memory is not None:
                self._memory.zero_()
            self._needs_reset = False

    def _set_observation(self, observation: Mapping[str, Tensor]) -> None:
        if self._memory is not None and MEMORY in observation:
            raise ValueError(f"the env has an observation named {MEMORY!r}, where the policy's memory is: rename it")
        if not self._observation:
            self._observation = {name: x.to(self.env.device, copy=True).contiguous() for name, x in observation.items()}
            return
        for name, mine in self._observation.items():
            if name not in observation or observation[name].shape != mine.shape:
                raise ValueError(
                    f"no observation {name!r} of shape {list(mine.shape)}: build env and collector as saved"
                )
            mine.copy_(observation[name])

    def _check_outputs(self, outputs: Any) -> None:
        """Raise TypeError or ValueError if a policy's first output is not what a policy returns."""
        if not isinstance(outputs, Mapping) or "action" not in outputs:
            raise TypeError(
                f"the policy must return an action or a mapping with the key 'action', not {_describe(outputs)}"
            )
        clash = _OWN_KEYS.intersection(outputs)
        if clash:
            raise ValueError(f"the policy returned {min(clash)!r}, a key that the collector fills: use another name")
        if self._memory is not None and MEMORY not in outputs:
            raise ValueError(f"the policy has memory_size={self._memory.shape[1]} and returned no {MEMORY!r}")

    def _check_frame(self, frame: Frame) -> None:
        """Raise ValueError if the first frame has a tensor of another shape than [N, ...], or other observations than
        `reset` returned."""
        n = self.env.num_envs
        for key, x in frame.items():
            name = key[-1]
            if not isinstance(x, Tensor) or x.shape[:1] != (n,):
                raise ValueError(f"{name!r} must be a tensor of shape [{n}, ...], not {_describe(x)}")
            if key in {("log_prob",), ("value",), ("reward",)} and x.shape != (n,):
                raise ValueError(f"{name!r} must have shape [{n}], not {list(x.shape)}: squeeze or sum the rest")
        names = {key[1] for key in frame if key[0] == "observation"}
        if names != set(self._observation):
            raise ValueError(
                f"env.reset() returned the observations {sorted(self._observation)}, env.step() {sorted(names)}: "
                "return the same names"
            )


def _with_index(device: torch.device | str) -> torch.device:
    """Return the device with its index: "cuda" and "cuda:0" are the same, but do not compare equal."""
    return torch.empty(0, device=device).device


def _describe(x: object) -> str:
    if isinstance(x, Tensor):
        return f"shape {list(x.shape)}"
    return f"{type(x).__name__} of {list(x)}" if isinstance(x, Mapping) else type(x).__name__
