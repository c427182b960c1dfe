"""Games kept decision by decision, and the pictures of one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from slipstream.tasks.aircombat.env import AirCombatEnv
from slipstream.tasks.aircombat.league.matches import Games
from slipstream.tasks.aircombat.physics.duel import GOING_ON, Duels
from slipstream.tasks.aircombat.physics.duel_picture import describe_duel

FRAME_S = 1.5  # of game time between two pictures of an animation


class Recorder:
    """The first `count` games of a match; hand it over as `watch`. It reads back at every decision: for a few games only."""

    def __init__(self, env: AirCombatEnv, count: int = 16) -> None:
        self.env = env
        self.count = min(count, env.num_envs)
        self._seen: list[dict[str, Tensor]] = []

    def __call__(self) -> None:
        """Keeps the state as it is."""
        self._seen.append(
            {name: x[: self.count].to("cpu", copy=True) for name, x in self.env.engine.duels.tensors().items()}
        )

    def game(self, index: int) -> list[Duels]:
        """The states of one game, a single duel each, from its start to its end."""
        states = []
        for seen in self._seen:
            states.append(Duels(**{name: x[index : index + 1] for name, x in seen.items()}))
            if int(states[-1].winner[0]) != GOING_ON:
                break
        return states

    def states(self, index: int) -> list[dict[str, Any]]:
        """The same as plain numbers (`env.get_render_state`)."""
        return [describe_duel(duels, self.env.engine.rules, 0) for duels in self.game(index)]

    def choose(self, games: Games) -> int:
        """A game worth looking at: the first that red won as side 1, else one that it won at all, else the first that was decided."""
        won, lost, swapped = (x[: self.count] for x in (games.won, games.lost, games.swapped))
        worth = 4 * (won & ~swapped).int() + 2 * won.int() + lost.int()
        return int(torch.argmax(worth))


def draw_game(
    states: list[dict[str, Any]], side: int, path: Path, title: str, progress: Callable[[float], None]
) -> dict[str, str]:
    """Writes a game as `side` sees it: the spacetime diagram at its busiest moment as a PNG, and all of it as an animation.

    `path` names the animation (.gif, .html or .mp4); the PNG lies beside it.
    """
    from slipstream.tasks.aircombat.figures.animation import animate
    from slipstream.tasks.aircombat.figures.spacetime import spacetime
    from slipstream.tasks.aircombat.reach.scene import scenes_of_game

    shown = [states[0]]
    for state in states[1:]:
        if state["time"] - shown[-1]["time"] >= FRAME_S - 1e-6 or state is states[-1]:
            shown.append(state)
    scenes = scenes_of_game(shown, side)
    busiest = max(range(len(shown)), key=lambda k: len(shown[k]["missiles"]))
    picture = spacetime(path.with_suffix(".png"), scenes[busiest], title)
    film = animate(path, scenes, title, progress=lambda count: progress(count / len(scenes)))
    return {"picture": str(picture), "animation": str(film)}
