"""midrangeRL's interface to an AirCombatEnv: dictionaries with p1_… and p2_… keys, duels reset by the caller."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from slipstream.envs.base import StepRecord
from slipstream.tasks.aircombat.agents import COMMANDS
from slipstream.tasks.aircombat.env import AirCombatEnv
from slipstream.tasks.aircombat.observation import to_named
from slipstream.tasks.aircombat.physics.duel import CARRIED, GONE, guide
from slipstream.tasks.aircombat.physics.flight import speed_of

PLAYERS = ("p1", "p2")
Players = dict[str, dict[str, Tensor]]


class ClassicView:
    """A thin view: env, duels and rewards are the same objects. All returned tensors are copies.

    Ended duels are reset by `reset(env_mask=dones)`, or else by the next step, which is then `valid=False` for them.
    With `sides=1` the env flies p2 itself and takes only the keys p1_….
    """

    def __init__(self, env: AirCombatEnv) -> None:
        self.env = env
        self.num_envs, self.device = env.num_envs, env.device

    def reset(self, env_mask: Tensor | None = None) -> Players:
        """Start new duels in the mask [N] (default: all). Returns the observations of all duels."""
        self.env.reset(env_mask)
        return self.get_observations()

    def step(
        self, actions: dict[str, Tensor], dt: float | None = None
    ) -> tuple[Players, dict[str, Tensor], Tensor, dict[str, Any]]:
        """Take one step.

        Args:
            actions: p1_rudder, p1_throttle, p1_fire, and with `sides=2` those of p2, [N] each.
            dt: game time in s, a multiple of the physics step (default: the env's decision time).

        Returns:
            Observations per player, rewards per player [N], dones [N], and infos [N]: winner (0 draw, 1, 2), time (s),
            valid, `p1_alive`, `p1_shots`, `p1_hits`, `p1_return` (and p2's), and the facts that rewards read (success,
            lost, draw, …): p1's at the top, those of each player in `infos["p1"]` and `infos["p2"]`.
        """
        record = self.env.fly(self._action(actions), self._ticks(dt))
        dones = self._both(record.terminated)[0]
        return self.get_observations(), self._by_player(record.reward), dones, self._infos(record)

    def compute_rewards(self, done_mask: Tensor, winner_mask: Tensor) -> dict[str, Tensor]:
        """Compute the rewards of a step that ends the duels of `done_mask` [N] with `winner_mask` [N] (0 a draw, 1, 2).

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
        return self._by_player(env.compute_reward(facts, over))

    def get_observations(self) -> Players:
        """Return the observation of each player, every number by its name, [N] each."""
        return {player: to_named(view) for player, view in zip(PLAYERS, self.env.views(), strict=True)}

    @property
    def states(self) -> dict[str, Tensor]:
        """The bodies of all duels, [N, 14] each: p1's aircraft, p2's, then the missile slots, six of p1 and six of p2.

        x, y (m), vx, vy, speed (m/s), angle (rad), rudder, alive, is_missile, is_player1, missile_count (still
        carried), target_idx.
        """
        duels = self.env.engine.duels
        pos, vel = torch.cat((duels.pos, duels.missile_pos), 1), torch.cat((duels.vel, duels.missile_vel), 1)
        flying = duels.missile_age != GONE
        owner = torch.tensor([0, 1, *[0] * CARRIED, *[1] * CARRIED], device=self.device).expand(self.num_envs, -1)
        is_missile = torch.zeros_like(owner, dtype=torch.bool)
        is_missile[:, 2:] = flying
        return {
            "x": pos[..., 0].clone(),
            "y": pos[..., 1].clone(),
            "vx": vel[..., 0].clone(),
            "vy": vel[..., 1].clone(),
            "speed": speed_of(vel),
            "angle": torch.atan2(vel[..., 1], vel[..., 0]),
            "rudder": torch.cat((duels.rudder, guide(duels, self.env.engine.rules.dt_s)), 1),
            "alive": torch.cat((duels.alive, flying), 1),
            "is_missile": is_missile,
            "is_player1": owner == 0,
            "missile_count": torch.cat((duels.left, torch.zeros_like(duels.missile_age)), 1),
            "target_idx": torch.where(is_missile, 1 - owner, -1),
        }

    def close(self) -> None:
        """Do nothing: there is nothing to release."""

    def _action(self, actions: dict[str, Tensor]) -> Tensor:
        expected = [f"{player}_{name}" for player in PLAYERS[: self.env.sides] for name in COMMANDS]
        if set(actions) != set(expected):
            hint = "" if self.env.sides == 2 else " (the env flies p2 itself: use sides=2 to fly both)"
            raise ValueError(f"actions must be {', '.join(expected)}, not {', '.join(actions)}{hint}")
        for key in expected:
            self._check(key, actions[key])
        commands = torch.stack([actions[key].to(torch.float32) for key in expected], -1).unflatten(-1, (-1, 3))
        return commands[:, 0] if self.env.sides == 1 else commands.transpose(0, 1)

    def _check(self, name: str, x: Any) -> None:
        shape = list(x.shape) if isinstance(x, Tensor) else type(x).__name__
        if shape != [self.num_envs]:
            raise ValueError(f"{name} must be a tensor of shape [{self.num_envs}], not {shape}")

    def _ticks(self, dt: float | None) -> int | None:
        if dt is None:
            return None
        step = self.env.engine.rules.dt_s
        ticks = round(dt / step) if math.isfinite(dt) else 0
        if ticks < 1 or abs(ticks * step - dt) > 1e-4 * step:
            step_s, remedy = f"the physics step of {step:.6g} s", f"build the env with time_scale={dt * 60:g}"
            raise ValueError(f"dt={dt:.6g} s must be a positive multiple of {step_s}: {remedy}")
        return ticks

    def _both(self, x: Tensor) -> Tensor:
        return x if self.env.sides == 2 else x[None]

    def _by_player(self, x: Tensor) -> dict[str, Tensor]:
        return dict(zip(PLAYERS, self._both(x), strict=False))

    def _infos(self, record: StepRecord) -> dict[str, Any]:
        facts, returns = self.env.named_facts(), self._both(record.info["episode_return"])
        per_player = [{name: x[side].clone() for name, x in facts.items()} for side in range(len(PLAYERS))]
        infos: dict[str, Any] = per_player[0] | {
            "winner": facts["winner"][0].to(torch.int64),
            "time": facts["elapsed_s"][0].clone(),
            "valid": self._both(record.valid)[0].clone(),
        }
        for side, player in enumerate(PLAYERS):
            own = infos[player] = per_player[side]
            infos[f"{player}_alive"] = own["alive"] > 0
            infos[f"{player}_shots"], infos[f"{player}_hits"] = own["shots"], own["hits"]
            if side < self.env.sides:
                infos[f"{player}_return"] = returns[side].clone()
        return infos
