"""A group of drones as a `ParallelEnv` of PettingZoo (`pip install 'slipstream-rl[adapters]'`)."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import torch
from pettingzoo import ParallelEnv

from slipstream.envs.adapters import spaces
from slipstream.envs.adapters.spaces import Arrays
from slipstream.envs.specs import Observation
from slipstream.tasks.navigation.env import NavigationEnv


class SwarmParallelEnv(ParallelEnv[str, Arrays, Any]):
    """The drones of one group, `drone_0` to `drone_{K-1}`.

    A drone whose flight has ended leaves `agents`, and the others do not meet it any more; when all have left, call
    `reset`.

    Args:
        env: Of one group: `NavigationEnv(8, config=NavigationConfig(swarm=8))`.
    """

    def __init__(self, env: NavigationEnv) -> None:
        if env.num_envs != env.config.swarm:
            raise ValueError(f"env has {env.num_envs} drones in groups of {env.config.swarm}: build one group")
        self.env = env
        self.metadata = {"name": "slipstream_swarm_v0", "render_modes": [], "is_parallelizable": True}
        self.render_mode = None
        self.possible_agents = [f"drone_{k}" for k in range(env.num_envs)]
        self.agents: list[str] = []
        self.observation_spaces = {agent: spaces.observation_space(env) for agent in self.possible_agents}
        self.action_spaces = {agent: spaces.to_space(env.action_spec) for agent in self.possible_agents}

    def observation_space(self, agent: str) -> gymnasium.Space[Any]:
        """Return the observation space of `agent`; always the same object."""
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> gymnasium.Space[Any]:
        """Return the action space of `agent`; always the same object."""
        return self.action_spaces[agent]

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Arrays], dict[str, dict[str, Any]]]:
        """Start a new flight of all drones. A seed rebuilds the env with it, worlds included."""
        if seed is not None:
            self.env = spaces.reseeded(self.env, seed)  # type: ignore[assignment]
        self.agents = list(self.possible_agents)
        return self._rows(self.env.reset()), {agent: {} for agent in self.agents}

    def step(
        self, actions: dict[str, Any]
    ) -> tuple[dict[str, Arrays], dict[str, float], dict[str, bool], dict[str, bool], dict[str, dict[str, Any]]]:
        """Step the drones in `agents`, each with its action."""
        if missing := [agent for agent in self.agents if agent not in actions]:
            raise ValueError(f"no action for {', '.join(missing)}: give one for each of env.agents")
        rest = np.zeros(self.env.action_spec.shape)  # of those that have left
        rest = rest.astype(int) if isinstance(self.action_spaces["drone_0"], gymnasium.spaces.Discrete) else rest
        rows = [actions[agent] if agent in self.agents else rest for agent in self.possible_agents]
        record = self.env.step(spaces.to_action(self.env, np.stack(rows)))
        flying = {agent: self.possible_agents.index(agent) for agent in self.agents}
        seen = self._rows(record.observation)
        terminated = {agent: bool(record.terminated[k]) for agent, k in flying.items()}
        truncated = {agent: bool(record.truncated[k]) for agent, k in flying.items()}
        info = {agent: {name: float(x[k]) for name, x in record.info.items()} for agent, k in flying.items()}
        reward = {agent: float(record.reward[k]) for agent, k in flying.items()}
        self.agents = [agent for agent in flying if not (terminated[agent] or truncated[agent])]
        left = [agent not in self.agents for agent in self.possible_agents]
        self.env.retire(torch.tensor(left, device=self.env.device))
        return seen, reward, terminated, truncated, info

    def _rows(self, observation: Observation) -> dict[str, Arrays]:
        """Return a copy of the row of each of `agents`."""
        arrays = spaces.to_arrays(observation, copy=False)
        rows = {agent: self.possible_agents.index(agent) for agent in self.agents}
        return {agent: {name: x[k].copy() for name, x in arrays.items()} for agent, k in rows.items()}
