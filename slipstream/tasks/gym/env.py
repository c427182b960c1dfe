"""GymEnv: any Gymnasium env as a TensorEnv.

    slipstream train task=gym env.id=CartPole-v1 algo=dqn

Gymnasium's vector envs reset on the next step, as ours do, so their frames are used as they are. Each episode has a
seed of its own, derived from the env's seed, the environment and the episode number. A saved env is restored by
replaying the present episodes action by action, which works for any env that is deterministic given its seed.
"""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from slipstream.config.registry import search_current_folder
from slipstream.config.validation import check_range
from slipstream.envs.base import Outcome, TensorEnv
from slipstream.envs.specs import Box, Discrete, Observation, Spec
from slipstream.sim.random import derive_seed

try:
    import gymnasium
    from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv, VectorEnv
    from gymnasium.vector.async_vector_env import AsyncState
except ImportError as error:
    raise ImportError("task=gym needs Gymnasium: pip install -e '.[gym]'") from error

VECTORIZATIONS = ("sync", "async")
_OWN_STATISTICS = ("count", "return", "length")  # of an episode; an info of these names is not logged


@dataclass
class GymConfig:
    """The settings of `env.*`."""

    num_envs: int = 1
    id: str = "CartPole-v1"  # the registered id; module:Name-v0 imports the module first
    vectorization: str = "sync"  # async: one process per env
    max_episode_steps: int = 0  # 0: the registered limit
    info: list[str] = field(default_factory=list)  # numbers in the env's info to log; default: those of the first step
    kwargs: dict[str, Any] = field(default_factory=dict)  # arguments of the env: 'env.kwargs={g: 9.8}'

    def __post_init__(self) -> None:
        check_range(self, "num_envs", minimum=1, section="env.")
        check_range(self, "max_episode_steps", minimum=0, section="env.")
        if self.vectorization not in VECTORIZATIONS:
            raise ValueError(f"env.vectorization must be {' or '.join(VECTORIZATIONS)}, not '{self.vectorization}'")


class GymEnv(TensorEnv):
    """N environments of one Gymnasium id. A single observation is named `observation`, those of a Dict keep their
    names."""

    Config = GymConfig
    spec_settings = ("id", "kwargs")

    def __init__(
        self,
        num_envs: int | None = None,
        device: torch.device | str = "cpu",
        seed: int = 0,
        config: GymConfig | None = None,
    ) -> None:
        self.config = config = config or GymConfig()
        super().__init__(config.num_envs if num_envs is None else num_envs, device, seed)
        self.vector: Any = _make_vector(config, self.num_envs, seed)
        self._spaces = _by_name(self.vector.single_observation_space)
        self.observation_spec = {name: _observation_spec(space, name) for name, space in self._spaces.items()}
        self.action_spec, self._to_gym = _actions(self.vector.single_action_space)
        self._info: dict[str, np.ndarray] | None = None  # each [N]; the names are known after the first step
        self._unseen = set(config.info)  # names that no step has had yet
        self.reset()

    # -- one step ------------------------------------------------------------------------------------------------------

    def _transition(self, action: Tensor, resetting: Tensor) -> None:
        self._clear_info(resetting)
        self._advance(action)  # the vector env resets ended environments itself

    def _advance(self, action: Tensor) -> None:
        try:
            *record, info = self.vector.step(self._to_gym(action.cpu().numpy()))
            self._observation, self._reward, self._terminated, self._truncated = record
            self._read_info(info)
        except (EOFError, ConnectionError) as error:
            self.vector._state = AsyncState.DEFAULT  # else close() would wait for the step
            self.vector.close(terminate=True)
            ended = f"a process of env.vectorization=async has ended while {self.config.id} stepped, perhaps killed for memory"
            raise ChildProcessError(f"{ended}: use fewer env.num_envs, or env.vectorization=sync") from error

    def _read_info(self, info: dict[str, Any]) -> None:
        """Take the numbers from the info of a step. Where a name is missing, its last value in the episode stays."""
        if self._info is None:
            names = self.config.info or [name for name in info if name not in _OWN_STATISTICS and _numbers(info, name)]
            self._info = {name: np.zeros(self.num_envs, np.float32) for name in names}
        for name, values in self._info.items():
            if numbers := _numbers(info, name):
                values[numbers[0]] = numbers[1]
                self._unseen.discard(name)
        if self._unseen and (self._terminated | self._truncated).any():
            absent = ", ".join(sorted(self._unseen))
            missed = f"no step of a complete episode had {absent} in its info"
            warnings.warn(f"env.info: {missed}: logged as 0", stacklevel=2)
            self._unseen = set()

    def _clear_info(self, mask: Tensor) -> None:
        begins = mask.cpu().numpy()
        for values in (self._info or {}).values():
            values[begins] = 0

    def _reset(self, mask: Tensor) -> None:
        self._clear_info(mask)
        chosen = mask.cpu().numpy()
        if chosen.any():
            self._observation, _ = self.vector.reset(options={"reset_mask": chosen})
        nothing = np.zeros(self.num_envs)
        self._reward, self._terminated, self._truncated = nothing, nothing > 0, nothing > 0

    def _observe(self) -> Observation:
        rows = _by_name(self._observation)
        return {name: self._tensor(rows[name], spec.dtype) for name, spec in self.observation_spec.items()}

    def _outcome(self) -> Outcome:
        facts = self._tensor(self._reward, torch.float32), self._tensor(self._terminated), self._tensor(self._truncated)
        info = self._info or {}
        renamed = {"is_success": "success"} if "success" not in info else {}  # SB3's name
        return Outcome(*facts, {renamed.get(name, name): self._tensor(values) for name, values in info.items()})

    def _tensor(self, array: np.ndarray, dtype: torch.dtype | None = None) -> Tensor:
        """Return a copy on the device: the vector env reuses its arrays."""
        return torch.from_numpy(np.ascontiguousarray(array)).to(self.device, dtype, copy=True)

    def _safe_action(self, action: Tensor) -> Tensor:
        """Check on the host first (Gymnasium's envs are there anyway): ten times cheaper than replacing bad values."""
        spec: Any = self.action_spec
        low, high = (0, spec.n - 1) if isinstance(spec, Discrete) else (spec.low, spec.high)
        if action.shape == (self.num_envs, *spec.shape) and action.dtype == spec.dtype:
            least, most = (x.item() for x in action.aminmax())
            if math.isfinite(least) and math.isfinite(most) and low <= least and most <= high:
                return action
        return super()._safe_action(action)

    # -- state ---------------------------------------------------------------------------------------------------------

    @property
    def supports_state_restore(self) -> bool:
        """False: Gymnasium's envs do not expose their state."""
        return False

    def state_dict(self) -> dict[str, Any]:
        """Return each environment's episode number and its actions."""
        state = super().state_dict()
        if self._info is not None:
            state["info"] = {name: torch.from_numpy(values.copy()) for name, values in self._info.items()}
        episodes, actions = zip(*self.vector.call("history"), strict=True)
        state |= {"episode": torch.tensor(episodes), "actions": [torch.as_tensor(np.array(taken)) for taken in actions]}
        return state | {"observation": {name: x.cpu() for name, x in self._observe().items()}}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore `state`, bit for bit if the env is deterministic."""
        super().load_state_dict(state)
        saved = state.get("info")
        self._info = None if saved is None else {name: values.numpy().copy() for name, values in saved.items()}
        self.vector.reset()  # clears its own pending resets; ours are restored
        actions = [taken.numpy() for taken in state["actions"]]
        seen = self.vector.call("replay", state["episode"].tolist(), actions, self._pending.cpu().tolist())
        named = [_by_name(one) for one in seen]
        self._observation = {name: np.stack([one[name] for one in named]) for name in self._spaces}
        if not all(torch.equal(now.cpu(), state["observation"][name]) for name, now in self._observe().items()):
            differs = "is not deterministic given its seed: the restored state differs from the saved one"
            warnings.warn(f"{self.config.id} {differs}", stacklevel=2)

    def close(self) -> None:
        """End the processes of env.vectorization=async."""
        self.vector.close()


class SeededEpisodes(gymnasium.Wrapper):
    """Give each episode a seed of its own and record its actions, so that it can be replayed."""

    def __init__(self, env: gymnasium.Env, seed: int, index: int) -> None:
        super().__init__(env)
        self._seed, self._index = seed, index
        self._episode = 0
        self._taken: list[Any] = []
        self._over = False  # restored at the end of an episode: the next step only resets

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start the next episode, with its own seed."""
        self._episode += 1
        self._taken, self._over = [], False
        own_seed = derive_seed(self._seed, f"episode {self._index}.{self._episode}") % 2**31
        return self.env.reset(seed=own_seed, options=options)

    def step(self, action: Any) -> Any:
        """Take one step and record the action."""
        if self._over:
            return self.reset()[0], 0.0, False, False, {}
        self._taken.append(np.array(action))
        return self.env.step(action)

    def history(self) -> tuple[int, list[Any]]:
        """Return the number of the present episode and its actions."""
        return self._episode, self._taken

    def replay(self, episodes: list[int], actions: list[np.ndarray], over: list[bool]) -> Any:
        """Replay this environment's episode. Returns the last observation."""
        self._episode = episodes[self._index] - 1
        seen = self.reset()[0]
        for action in actions[self._index]:
            seen = self.step(action if action.shape else action[()])[0]
        self._over = over[self._index]
        return seen


# -- Gymnasium's envs and spaces as ours -------------------------------------------------------------------------------


def _make_vector(config: GymConfig, num_envs: int, seed: int) -> VectorEnv:
    kwargs = dict(config.kwargs)
    if ":" in config.id:  # Gymnasium imports the module
        search_current_folder(config.id.partition(":")[0])
    if config.max_episode_steps:
        kwargs["max_episode_steps"] = config.max_episode_steps
    makers = [partial(_make_one, config.id, kwargs, seed, index) for index in range(num_envs)]
    try:
        if config.vectorization == "async":  # forked, so that workers know the ids registered here
            return AsyncVectorEnv(makers, context="fork" if sys.platform == "linux" else None)
        return SyncVectorEnv(makers, copy=False)
    except (gymnasium.error.Error, TypeError) as error:
        hint = "" if ":" in config.id else f" (if a module of yours registers it, write env.id=my_module:{config.id})"
        raise ValueError(f"env.id={config.id}: {error}{hint}") from error


def _make_one(id: str, kwargs: dict[str, Any], seed: int, index: int) -> gymnasium.Env:
    # The passive checker would check every step.
    try:
        made = gymnasium.make(id, disable_env_checker=True, **kwargs)
    except ModuleNotFoundError as error:
        remedy = f"pip install {error.name}, or the extra of Gymnasium for this env, such as 'gymnasium[mujoco]'"
        raise ImportError(f"env.id={id} needs the package {error.name}: {remedy}") from error
    return SeededEpisodes(made, seed, index)


def _numbers(info: dict[str, Any], name: str) -> tuple[np.ndarray, np.ndarray] | None:
    """Return where the environments' info has this name, bool [N], and its numbers there; None if it has none."""
    values = info.get(name)
    if not isinstance(values, np.ndarray) or values.ndim != 1 or name.startswith("_"):
        return None
    present = info.get(f"_{name}", np.ones(len(values), bool))
    try:
        return present, np.asarray(values[present], np.float32)
    except (TypeError, ValueError):
        return None


def _by_name(observation: Any) -> dict[str, Any]:
    """Return an observation, or its space, by name."""
    return dict(observation) if isinstance(observation, Mapping) else {"observation": observation}


def _observation_spec(space: gymnasium.Space, name: str) -> Spec:
    if isinstance(space, gymnasium.spaces.Discrete) and space.start == 0:
        return Discrete(int(space.n))
    if isinstance(space, gymnasium.spaces.Box) and 0 not in space.shape:
        kind = np.float32 if np.issubdtype(space.dtype, np.floating) else space.dtype  # networks use float32
        dtype = torch.from_numpy(np.zeros(1, kind)).dtype
        return Box(space.shape, float(space.low.min()), float(space.high.max()), dtype)
    known = "only Box, Discrete and a Dict of these, none of them empty, can be used"
    raise ValueError(f"observation '{name}' is a {space}: {known}; wrap the env to flatten it")


def _actions(space: gymnasium.Space) -> tuple[Spec, Callable[[np.ndarray], np.ndarray]]:
    """Return our action spec, and a function that converts our actions [N, ...] to Gymnasium's."""
    if isinstance(space, gymnasium.spaces.Discrete):
        return Discrete(int(space.n)), lambda action: action + space.start
    if not isinstance(space, gymnasium.spaces.Box) or len(space.shape) != 1 or not space.shape[0]:
        raise ValueError(f"actions of {space} cannot be used: only Discrete and vectors (Box) can; wrap the env")
    low, high, dtype = space.low, space.high, space.dtype
    if (low == low[0]).all() and (high == high[0]).all():
        return Box(space.shape, float(low[0]), float(high[0])), lambda action: action.astype(dtype, copy=False)
    if not all(math.isfinite(x) for x in (*low, *high)):
        raise ValueError(f"actions of {space} have bounds on some dimensions only: wrap the env to bound all or none")
    half, middle = (high - low) / 2, (high + low) / 2  # bounds that differ: the policy's actions are in [-1, 1]
    return Box(space.shape, -1.0, 1.0), lambda action: (action * half + middle).astype(dtype, copy=False)
