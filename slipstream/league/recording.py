"""Games kept decision by decision, for pictures."""

from __future__ import annotations

import torch
from torch import Tensor

from slipstream.envs.aircombat import AirCombatEnv
from slipstream.league.matches import Games
from slipstream.sim.duel import GOING_ON, Duels


class Recorder:
    """The first `count` games of a match; hand it over as `watch`. It reads back at every decision: for a few games only."""

    def __init__(self, env: AirCombatEnv, count: int = 16) -> None:
        self.env = env
        self.count = min(count, env.num_envs)
        self._seen: list[dict[str, Tensor]] = []

    def __call__(self) -> None:
        """Keeps the state as it is."""
        self._seen.append({name: x[: self.count].to("cpu", copy=True) for name, x in self.env.engine.duels.tensors().items()})

    def game(self, index: int) -> list[Duels]:
        """The states of one game, a single duel each, from its start to its end."""
        states = []
        for seen in self._seen:
            states.append(Duels(**{name: x[index : index + 1] for name, x in seen.items()}))
            if int(states[-1].winner[0]) != GOING_ON:
                break
        return states

    def choose(self, games: Games) -> int:
        """A game worth looking at: the first that red won as side 1, else one that it won at all, else the first that was decided."""
        won, lost, swapped = (x[: self.count] for x in (games.won, games.lost, games.swapped))
        worth = 4 * (won & ~swapped).int() + 2 * won.int() + lost.int()
        return int(torch.argmax(worth))
