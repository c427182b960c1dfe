"""AirCombatEnv: duels of two fighters with missiles beyond visual range, thousands at once.

midrangeRL's task in plain tensors. One side learns against an opponent that the env flies, or both sides act.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from slipstream.config.validation import check_range
from slipstream.envs.base import BadActionError, Outcome, StepRecord, TensorEnv
from slipstream.envs.specs import Box, Hybrid, Observation
from slipstream.tasks.aircombat.agents import BaseAgent, action_of, agent_class, as_action, create_agent
from slipstream.tasks.aircombat.observation import GROUPS, SideView, split_view
from slipstream.tasks.aircombat.physics.duel import Duels, describe_duel
from slipstream.tasks.aircombat.physics.engine import FACTS, DuelConfig, make_engine
from slipstream.tasks.aircombat.rewards import BaseReward, create_reward, reward_class

ACTION_SPEC = Hybrid((-1.0, 0.0), (1.0, 1.0), switches=1, mask="can_fire", names=("rudder", "throttle", "fire"))


@dataclass
class AirCombatConfig(DuelConfig):
    """The settings of `env.*`."""

    num_envs: int = 256
    sides: int = 1  # 1: fly against `opponent`; 2: both sides act (self-play), and all tensors are [2, N]
    opponent: str = "placeholder"  # pursuit, crank, evade, learned; a checkpoint's path; my_package.my_module:MyAgent
    reward: str = "outcome"  # a name of REWARDS, or my_package.my_module:MyReward
    sampled: bool = False  # a learned opponent draws its actions, instead of taking their mean
    backend: str = "auto"  # of the physics: torch, native (CPU), triton (CUDA)

    def __post_init__(self) -> None:
        check_range(self, "num_envs", minimum=1, section="env.")
        if self.sides not in (1, 2):
            raise ValueError(f"env.sides must be 1 (against env.opponent) or 2 (both sides act), not {self.sides}")
        agent_class(self.opponent)
        reward_class(self.reward)
        super().__post_init__()


class AirCombatEnv(TensorEnv):
    """N duels. Side 1 belongs to the learner; side 2 to `opponent`, or, with `sides=2`, to the learner too.

    Args:
        num_envs: the number of duels N (default: config.num_envs).
        device: where the duels are simulated.
        seed: of the starts.
        config: the settings of `env.*`.
        opponent: flies side 2 instead of the agent named in the config; only with `sides=1`.
        reward: replaces the reward named in the config.
    """

    Config = AirCombatConfig
    episode_settings = {"start": "random"}

    def __init__(
        self,
        num_envs: int | None = None,
        device: torch.device | str = "cpu",
        seed: int = 0,
        config: AirCombatConfig | None = None,
        opponent: BaseAgent | None = None,
        reward: BaseReward | None = None,
    ) -> None:
        self.config = config = config or AirCombatConfig()
        super().__init__(config.num_envs if num_envs is None else num_envs, device, seed)
        n, device = self.num_envs, self.device
        self.sides = config.sides
        if opponent is not None and self.sides == 2:
            raise ValueError("with env.sides=2 there is no opponent: leave it out, or use env.sides=1")
        self.engine = make_engine(n, config, seed, device, config.backend)
        self.opponent = opponent or (create_agent(config.opponent, n, device) if self.sides == 1 else None)
        if config.sampled and self.opponent is not None:
            self.opponent.train()
        self.reward = reward or create_reward(config.reward, device)
        self.returns = torch.zeros(self.batch_shape, device=device)  # [N] or [2, N]: of the running duels
        self._before = torch.zeros_like(self.engine.view) if self.reward.needs_before else self.engine.view
        self._command = torch.zeros(2, n, 3, device=device)
        self._ticks: int | None = None
        self._resetting = torch.zeros_like(self._pending)
        self._never = torch.zeros_like(self._pending)  # nothing is truncated: the time left is observed
        self.state_names = ("returns",)
        self.action_spec = ACTION_SPEC
        self.observation_spec = {name: Box(shape) for name, shape in GROUPS.items()}
        self.reset()

    # -- public ------------------------------------------------------------------------------------------------------

    def set_opponent(self, opponent: BaseAgent) -> None:
        """Replace the agent that flies side 2."""
        if self.sides == 2:
            raise ValueError("with env.sides=2 there is no opponent to set: build the env with env.sides=1")
        self.opponent = opponent

    def fly(self, action: Tensor, ticks: int | None = None) -> StepRecord:
        """Take one step of `ticks` physics steps (default: those of `time_scale`)."""
        self._ticks = ticks
        try:
            return self.step(action)
        finally:
            self._ticks = None

    def named_facts(self) -> dict[str, Tensor]:
        """Return the facts of the last step by name (see FACTS), [2, N] each."""
        return dict(zip(FACTS, self.engine.facts.unbind(0), strict=True))

    def compute_reward(self, facts: Tensor, over: Tensor) -> Tensor:
        """Compute the reward [N] or [2, N] of the last step with these `facts` [facts, 2, N] and ended duels `over`
        [N]."""
        facts = facts if self.sides == 2 else facts[:, 0]
        info = dict(zip(FACTS, facts.unbind(0), strict=True))
        command = self._command if self.sides == 2 else self._command[0]
        reward = self.reward.compute(self._acting(self._before), self._acting(self.engine.view), command, over, info)
        if not isinstance(reward, Tensor) or reward.shape != self.batch_shape:
            given = list(reward.shape) if isinstance(reward, Tensor) else type(reward).__name__
            name, expected = type(self.reward).__name__, list(self.batch_shape)
            raise ValueError(f"{name}.compute gave {given}, not a tensor of shape {expected}")
        return reward.to(torch.float32)

    def check(self) -> None:
        """Raise if an action since the last check was NaN or out of bounds. Synchronizes with the device."""
        theirs = self.engine.bad[1] if self.opponent is not None else None
        self._bad_action.logical_or_(self.engine.bad[0] if theirs is not None else self.engine.bad.any(0))
        opponent_wrong = theirs is not None and bool(theirs.any())
        self.engine.bad.zero_()
        super().check()
        if opponent_wrong:
            name = type(self.opponent).__name__
            raise BadActionError(f"the opponent {name} gave NaN, infinite or out-of-range actions; they were replaced")

    def classic(self) -> Any:
        """Return a `ClassicView`: midrangeRL's interface to this env."""
        from slipstream.tasks.aircombat.classic import ClassicView

        return ClassicView(self)

    def get_render_state(self, env_idx: int = 0) -> dict[str, Any]:
        """Return one duel as plain numbers: time, winner, both aircraft and the missiles in flight."""
        return describe_duel(self.duel(env_idx), self.engine.rules)

    def duel(self, env_idx: int = 0) -> Duels:
        """Return a copy of one duel on the CPU, as [1, ...]. Synchronizes with the device."""
        if not 0 <= env_idx < self.num_envs:
            raise IndexError(f"env_idx={env_idx} must be in 0 to {self.num_envs - 1}")
        return self.engine.duels.map(lambda x: x[env_idx : env_idx + 1].to("cpu", copy=True))

    def render(self, env_idx: int = 0) -> np.ndarray:
        """Return the spacetime diagram of one duel as side 1 sees it: an image, uint8 [height, width, 3]."""
        from slipstream.tasks.aircombat.spacetime import draw_duel
        from slipstream.ui.figures import pixels

        return pixels(draw_duel(self.duel(env_idx), rules=self.engine.rules))

    @property
    def bad_actions(self) -> Tensor:
        """The duels [N] in which a command of either side was invalid since the last check; still on the device."""
        return self._bad_action | self.engine.bad.any(0)

    def views(self) -> tuple[SideView, SideView]:
        """Return the present observation of each side."""
        return split_view(self.engine.view[0]), split_view(self.engine.view[1])

    # -- one step ----------------------------------------------------------------------------------------------------

    def _reset(self, mask: Tensor) -> None:
        self.engine.begin(mask)
        self.engine.refresh(where=mask)
        self.engine.draw_limits(mask)
        self.returns.masked_fill_(mask, 0.0)
        if self.opponent is not None:
            self.opponent.reset(mask)

    def _advance(self, action: Tensor) -> None:
        self._transition(action, self._never)

    def _transition(self, action: Tensor, resetting: Tensor) -> None:
        if self._before is not self.engine.view:
            self._before.copy_(self.engine.view)
        if self.opponent is None:
            self._command.copy_(action)
        else:
            self._command[0].copy_(action)
            self._command[1].copy_(action_of(self.opponent, split_view(self.engine.view[1])))
        self.engine.step(self._command, resetting, self._ticks)
        self.engine.draw_limits(resetting)
        if self.opponent is not None:
            self.opponent.reset(resetting)
        self._resetting = resetting

    def _safe_action(self, action: Tensor) -> Tensor:
        """Check shape and dtype only: the engine replaces bad values in its own pass. A mapping is taken too."""
        action = as_action(action) if isinstance(action, Mapping) else action
        self._check_shape(action)
        if not action.is_floating_point():
            raise ValueError(f"actions must be {self.action_spec.dtype}, not {action.dtype}")
        return action.detach()

    def _observe(self) -> Observation:
        return self._acting(self.engine.view)

    def _outcome(self) -> Outcome:
        over = self.engine.duels.winner >= 0
        reward = self.compute_reward(self.engine.facts, over)
        info = {name: x if self.sides == 2 else x[0] for name, x in self.named_facts().items()}
        info["episode_return"] = self.returns.add_(reward).masked_fill_(self._resetting, 0.0)
        return Outcome(reward, over, self._never, info)

    def _acting(self, packed: Tensor) -> SideView:
        """Return the observation of the sides that act: [N, ...] or [2, N, ...]."""
        return split_view(packed if self.sides == 2 else packed[0])

    # -- state -------------------------------------------------------------------------------------------------------

    def state_tensors(self) -> dict[str, Tensor]:
        """Return the state, with that of the duels and the opponent."""
        duels = {f"duels.{name}": x for name, x in self.engine.duels.tensors().items()}
        opponent = {f"opponent.{name}": x for name, x in self.opponent.state_tensors().items()} if self.opponent else {}
        # The view follows from the rest, but not bit for bit with another backend.
        own = {"episode": self.engine.episode, "bad": self.engine.bad, "view": self.engine.view}
        own |= {"ahead": self.engine.ahead} if self.engine.varies_limits else {}
        return super().state_tensors() | own | duels | opponent

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore `state`, bit for bit."""
        if state["seed"] != self.seed:
            raise ValueError(f"the saved env has seed {state['seed']}, this one {self.seed}: build it with that seed")
        super().load_state_dict(state)
