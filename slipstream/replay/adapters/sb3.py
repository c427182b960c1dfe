"""Stable-Baselines3 on our buffer: `DQN("CnnPolicy", env, replay_buffer_class=SlipstreamReplayBuffer)`."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3.common.buffers import BaseBuffer
from stable_baselines3.common.buffers import ReplayBuffer as Sb3ReplayBuffer
from stable_baselines3.common.type_aliases import DictReplayBufferSamples, ReplayBufferSamples
from stable_baselines3.common.vec_env import VecNormalize

from slipstream.replay.buffer import ReplayBuffer

_MOST_WAITING = 16


class SlipstreamReplayBuffer(Sb3ReplayBuffer):
    """An SB3 replay buffer (for DQN, SAC, TD3, DDPG) that stores observations once, compressed; also dict observations.

    `replay_buffer_kwargs` may have codec, group, sampler, seed and other arguments of `ReplayBuffer`, and n_steps with
    gamma. The default seed comes from NumPy's generator, which SB3 seeds.
    """

    def __init__(
        self,
        buffer_size: int,
        observation_space: spaces.Space[Any],
        action_space: spaces.Space[Any],
        device: torch.device | str = "auto",
        n_envs: int = 1,
        optimize_memory_usage: bool = False,
        handle_timeout_termination: bool = True,
        n_steps: int = 1,
        gamma: float = 0.99,
        **settings: Any,
    ) -> None:
        if optimize_memory_usage:
            raise ValueError("observations are stored once anyway: leave optimize_memory_usage out")
        # not SB3's own ReplayBuffer: it would allocate every array
        BaseBuffer.__init__(self, buffer_size, observation_space, action_space, device, n_envs=n_envs)
        self.buffer_size = max(buffer_size // n_envs, 1)
        self.optimize_memory_usage = False
        self.handle_timeout_termination = handle_timeout_termination
        self.n_steps, self.gamma = n_steps, gamma
        self._settings = settings if "seed" in settings else {"seed": int(np.random.randint(2**31)), **settings}
        self.buffer = ReplayBuffer(self.buffer_size * n_envs, **self._settings)
        # steps since the last draw: adding many at once is cheaper
        self._waiting: list[dict[tuple[str, ...], np.ndarray]] = []
        self._names = list(observation_space.spaces) if isinstance(observation_space, spaces.Dict) else None

    def __repr__(self) -> str:
        self._flush()
        return f"{type(self).__name__}({self.buffer!r})"

    def add(
        self,
        obs: Any,
        next_obs: Any,
        action: np.ndarray,
        reward: np.ndarray,
        done: np.ndarray,
        infos: list[dict[str, Any]],
    ) -> None:
        """Add one step of all environments."""
        ended = np.asarray(done, bool).reshape(self.n_envs, 1)
        timed = np.zeros_like(ended)
        if self.handle_timeout_termination:
            timed = np.array([[bool(info.get("TimeLimit.truncated", False))] for info in infos]) & ended
        action = np.asarray(action, self._maybe_cast_dtype(self.action_space.dtype)).reshape(
            self.n_envs, 1, self.action_dim
        )
        step = {
            ("action",): action,
            ("reward",): np.array(reward, np.float32).reshape(self.n_envs, 1),
            ("terminated",): ended & ~timed,
            ("truncated",): timed,
            **self._frames(("observation",), obs),
            **self._frames(("next", "observation"), next_obs),
        }
        self._waiting.append(step)
        if len(self._waiting) >= min(_MOST_WAITING, self.buffer_size):
            self._flush()
        self.pos += 1
        if self.pos == self.buffer_size:
            self.full, self.pos = True, 0

    def _frames(self, key: tuple[str, ...], obs: Any) -> dict[tuple[str, ...], np.ndarray]:
        """Return copies of the observations [N, 1, ...], with the dtypes of their spaces."""
        shapes: Any = self.obs_shape
        if self._names is None:
            return {key: np.array(obs, self.observation_space.dtype).reshape(self.n_envs, 1, *shapes)}
        space: Any = self.observation_space
        return {(*key, k): np.array(obs[k], space[k].dtype).reshape(self.n_envs, 1, *shapes[k]) for k in self._names}

    def _flush(self) -> None:
        """Add the waiting steps to the buffer as one batch."""
        if self._waiting:
            steps, self._waiting = self._waiting, []
            self.buffer.extend(
                {key: torch.from_numpy(np.concatenate([s[key] for s in steps], axis=1)) for key in steps[0]}
            )

    def sample(self, batch_size: int, env: VecNormalize | None = None) -> Any:
        """Return transitions, normalized by `env`, on the device."""
        self._flush()
        batch = self.buffer.sample(batch_size, n_step=self.n_steps, gamma=self.gamma)
        now, after = (self._normalized(b["observation"], env) for b in (batch, batch["next"]))
        reward = self._normalize_reward(batch["reward"].numpy().reshape(-1, 1), env).astype(np.float32)
        dones = batch["terminated"].reshape(-1, 1).to(torch.float32)
        discounts = None
        if self.n_steps > 1:  # SB3 multiplies by (1 - done) itself
            powers = torch.where(dones == 0, batch["discount"].reshape(-1, 1), 1.0)
            discounts = powers.to(self.device)
        rest = (
            batch["action"].to(self.device),
            after,
            dones.to(self.device),
            torch.from_numpy(reward).to(self.device),
            discounts,
        )
        return DictReplayBufferSamples(now, *rest) if self._names is not None else ReplayBufferSamples(now, *rest)

    def _normalized(self, observation: Any, env: VecNormalize | None) -> Any:
        if self._names is not None:
            frames = {k: observation[k].numpy() for k in self._names}
            return {k: torch.as_tensor(v).to(self.device) for k, v in self._normalize_obs(frames, env).items()}  # type: ignore[union-attr]
        return torch.as_tensor(self._normalize_obs(observation.numpy(), env)).to(self.device)

    def reset(self) -> None:
        """Remove everything."""
        super().reset()
        self._waiting = []
        self.buffer.close()
        self.buffer = ReplayBuffer(self.buffer_size * self.n_envs, **self._settings)

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for `model.save_replay_buffer`."""
        self._flush()
        return {**{k: v for k, v in self.__dict__.items() if k != "buffer"}, "state": self.buffer.state_dict()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        kept = state.pop("state")
        self.__dict__.update(state)
        self.buffer = ReplayBuffer(self.buffer_size * self.n_envs, **self._settings)
        self.buffer.load_state_dict(kept)
