"""midrangeRL's calls on an AirCombatEnv: dictionaries of p1_… and p2_…, reset by hand."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from slipstream.envs.base import StepRecord
from slipstream.tasks.aircombat.agents import COMMANDS
from slipstream.tasks.aircombat.env import OBSERVED, AirCombatEnv, SideView

PLAYERS = ("p1", "p2")
Players = dict[str, dict[str, Tensor]]


class ClassicView:
    """A thin view: the env, its duels and its rewards are the same.

    Duels that end are reset by `reset(env_mask=dones)`, or, if you do not call it, by the next step, which is then `valid=False`
    for them. With an opponent of the env's own (`sides=1`) only the keys p1_… are given.
    """

    def __init__(self, env: AirCombatEnv) -> None:
        self.env = env
        self.num_envs, self.device = env.num_envs, env.device

    def reset(self, env_mask: Tensor | None = None) -> Players:
        """Starts new duels where the mask [N] says (everywhere by default); gives all observations."""
        self.env.reset(env_mask)
        return self.get_observations()

    def step(
        self, actions: dict[str, Tensor], dt: float | None = None
    ) -> tuple[Players, dict[str, Tensor], Tensor, dict[str, Tensor]]:
        """Observations, rewards, dones [N] and infos of one step of `dt` seconds (the env's decision by default)."""
        record = self.env.fly(self._action(actions), self._ticks(dt))
        return (
            self.get_observations(),
            self._by_player(record.reward),
            self._both(record.terminated)[0],
            self._infos(record),
        )

    def compute_rewards(self, done_mask: Tensor, winner_mask: Tensor) -> dict[str, Tensor]:
        """What a step is worth in which the duels of `done_mask` [N] end with `winner_mask` [N] (0 a draw, 1, 2), by the env's reward.

        Shots, hits and time are those of the last step.
        """
        env = self.env
        self._check("done_mask", done_mask)
        self._check("winner_mask", winner_mask)
        facts = env.engine.facts.clone()
        over = done_mask.to(torch.bool)
        for side in range(2):
            facts[0, side] = (over & (winner_mask == side + 1)).float()
            facts[1, side] = (over & (winner_mask == 2 - side)).float()
            facts[2, side] = (over & (winner_mask == 0)).float()
            facts[3, side] = torch.where(over, winner_mask, -1).float()
        return self._by_player(env.worth(facts, over))

    def get_observations(self) -> Players:
        """What each player sees, every number by its name."""
        return {player: _by_name(view) for player, view in zip(PLAYERS, self.env.views(), strict=True)}

    def close(self) -> None:
        """Nothing is held that Python does not free itself."""

    # -- inside ------------------------------------------------------------------------------------------------------

    def _action(self, actions: dict[str, Tensor]) -> Tensor:
        players = PLAYERS[: self.env.sides]
        wanted = [f"{player}_{name}" for player in players for name in COMMANDS]
        missing = [key for key in wanted if key not in actions]
        unknown = [key for key in actions if key not in wanted]
        if missing or unknown:
            hint = "" if self.env.sides == 2 else " (the env flies p2 itself: use sides=2 to fly both)"
            raise ValueError(
                f"actions must be {', '.join(wanted)}; missing: {missing or 'none'}, unknown: {unknown or 'none'}{hint}"
            )
        for key in wanted:
            self._check(key, actions[key])
        rows = [
            torch.stack([actions[f"{player}_{name}"].to(torch.float32) for name in COMMANDS], -1) for player in players
        ]
        return rows[0] if self.env.sides == 1 else torch.stack(rows)

    def _check(self, name: str, x: Tensor) -> None:
        if not isinstance(x, Tensor) or x.shape != (self.num_envs,):
            what = list(x.shape) if isinstance(x, Tensor) else type(x).__name__
            raise ValueError(f"{name} must be a tensor of shape [{self.num_envs}], not {what}")

    def _ticks(self, dt: float | None) -> int | None:
        if dt is None:
            return None
        if not (math.isfinite(dt) and dt > 0):
            raise ValueError(f"dt must be a positive number of seconds, not {dt}")
        step = self.env.engine.rules.dt_s
        ticks = round(dt / step)
        if ticks < 1 or abs(ticks * step - dt) > 1e-4 * step:
            scale = f"build the env with time_scale={dt * 60:g}"
            raise ValueError(f"dt must be a whole number of physics steps of {step:.6g} s, not {dt:.6g}: {scale}")
        return ticks

    def _by_player(self, x: Tensor) -> dict[str, Tensor]:
        return dict(zip(PLAYERS, x if self.env.sides == 2 else x[None], strict=False))

    def _both(self, x: Tensor) -> Tensor:
        return x if self.env.sides == 2 else x[None]

    def _infos(self, record: StepRecord) -> dict[str, Any]:
        facts, returns = self.env.named_facts(), self._both(record.info["episode_return"])
        infos = {
            "winner": facts["winner"][0].to(torch.int64),
            "time": facts["elapsed_s"][0],
            "valid": self._both(record.valid)[0],
        }
        for side, player in enumerate(PLAYERS):
            infos[f"{player}_alive"] = facts["alive"][side] > 0
            infos[f"{player}_shots"], infos[f"{player}_hits"] = facts["shots"][side], facts["hits"][side]
            if side < self.env.sides:
                infos[f"{player}_return"] = returns[side]
        return {name: x.clone() for name, x in infos.items()}


def _by_name(view: SideView) -> dict[str, Tensor]:
    """Copies of all that a side sees, [N] each."""
    return {name: (view[name].squeeze(-1) if name == "can_fire" else view[name]).clone() for name in OBSERVED}
