"""PettingZoo: a few agents in one world as `ParallelEnv`."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import torch
from pettingzoo import ParallelEnv
from torch import Tensor

from slipstream.envs.adapters import spaces
from slipstream.envs.adapters.spaces import Arrays
from slipstream.envs.base import TensorEnv
from slipstream.envs.specs import Discrete, Observation

SIDES = ("red", "blue")


class PettingZooEnv(ParallelEnv[str, Arrays, Any]):
    """The two sides of one duel (`red`, `blue`), or the N environments of another TensorEnv as agents of one world
    (`agent_0`, ...).

    An agent whose episode has ended leaves `agents`; when all have left, call `reset`.
    """

    def __init__(self, env: TensorEnv) -> None:
        self.env = env
        two_sided = env.sides == 2
        if two_sided and env.num_envs != 1:
            raise ValueError(f"PettingZooEnv needs one duel, not {env.num_envs}: build it with num_envs=1")
        name = f"slipstream_{type(env).__name__.removesuffix('Env').lower()}_v0"
        self.metadata = {"name": name, "render_modes": [], "is_parallelizable": True}
        self.render_mode = None
        self.possible_agents = list(SIDES) if two_sided else [f"agent_{i}" for i in range(env.num_envs)]
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
        """Start a new episode of all agents. A seed rebuilds the env with it, worlds included."""
        if seed is not None:
            self.env = spaces.reseeded(self.env, seed)
        self.agents = list(self.possible_agents)
        return self._rows_of(self.env.reset(), self.agents), {agent: {} for agent in self.agents}

    def step(
        self, actions: dict[str, Any]
    ) -> tuple[dict[str, Arrays], dict[str, float], dict[str, bool], dict[str, bool], dict[str, dict[str, Any]]]:
        """Step the active agents. Results are for them; agents whose episode ended are removed from `agents`."""
        flying = self.agents
        missing = [agent for agent in flying if agent not in actions]
        if missing:
            raise ValueError(f"no action for {', '.join(missing)}: give one for each of env.agents")
        if not flying:
            return {}, {}, {}, {}, {}
        record = self.env.step(self._batched(actions))
        ends = record.reward, record.terminated, record.truncated
        reward, terminated, truncated = (self._by_agent(x, flying) for x in ends)
        facts = {name: self._by_agent(x.expand(self.env.batch_shape), flying) for name, x in record.info.items()}
        self.agents = [agent for agent in flying if not (terminated[agent] or truncated[agent])]
        if self.env.sides == 1:
            left = [agent not in self.agents for agent in self.possible_agents]
            self.env.retire(torch.tensor(left, device=self.env.device))
        each = {agent: {name: values[agent] for name, values in facts.items()} for agent in flying}
        return self._rows_of(record.observation, flying), reward, terminated, truncated, each

    def _by_agent(self, x: Tensor, agents: list[str]) -> dict[str, Any]:
        """Return one number of each agent."""
        values = dict(zip(self.possible_agents, x.flatten().tolist(), strict=True))
        return {agent: values[agent] for agent in agents}

    def _rows_of(self, observation: Observation, agents: list[str]) -> dict[str, Arrays]:
        """Return a copy of each agent's row."""
        last = len(self.env.batch_shape) - 1  # [2, 1, ...] or [N, ...]: flat, one row an agent
        flat = {name: spaces.to_array(tensor.flatten(0, last)) for name, tensor in observation.items()}
        return {agent: spaces.row(flat, self.possible_agents.index(agent)) for agent in agents}

    def _batched(self, actions: dict[str, Any]) -> Any:
        """Return the actions as one tensor, with zeros for agents that have left, which the env ignores."""
        spec = self.env.action_spec
        rest = np.zeros(spec.shape)
        if not isinstance(spec, Discrete):
            rest = np.clip(rest, *spaces.bounds_of(spec))
        rows = []
        for agent in self.possible_agents:
            row = np.asarray(actions[agent] if agent in self.agents else rest.astype(self.action_spaces[agent].dtype))
            if row.shape != spec.shape:
                raise ValueError(f"the action of {agent} must have shape {list(spec.shape)}, not {list(row.shape)}")
            rows.append(row)
        return spaces.to_action(self.env, np.stack(rows).reshape(*self.env.batch_shape, *spec.shape))
