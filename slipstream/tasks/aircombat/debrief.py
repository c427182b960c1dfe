"""The moment that decided a game: until when turning away would have saved the side that was shot down.

The game is flown on from its state every half second: the side that was shot down puts its tail to the threat and runs
(`EvadeAgent`), the other one steers and fires as it did in the game. R_ne is that of the reach table.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from slipstream.tasks.aircombat.agents import EvadeAgent, action_of
from slipstream.tasks.aircombat.env import AirCombatConfig, AirCombatEnv
from slipstream.tasks.aircombat.physics.duel import CARRIED, GOING_ON, GONE, SIDES, Duels
from slipstream.tasks.aircombat.physics.flight import PHYSICS_DT_S, towards
from slipstream.tasks.aircombat.reach.forecast import look_up

TRIED_S = 0.5  # between two moments that are flown on
BEFORE_S = 20.0  # the first of them is so long before the launch of the missile that hit
RUN_S = 3600.0  # no limit for the missiles in flight


@torch.no_grad()
def debrief(states: Sequence[Duels], commands: Tensor) -> dict[str, Any]:
    """Return what decided a duel that is over; times in s, ranges in m.

    Args:
        states: of one duel, in order, to its end.
        commands: [T, 2, 3] of both sides at every tick.

    Returns:
        `victim`, the side that was hit (1 if both were, 0 if none), and `time`, the last moment at which turning away
        would have saved it, None if there was none. The missile that hit was fired at `launch`; `range` and `r_ne` are
        from then; the victim was inside R_ne since `entered`, or not (None). If none was hit, `time`, `range` and
        `r_ne` are those of the best shot that side 1 could have had.
    """
    rows = Duels.cat(states[:-1])
    alive, times = states[-1].alive[0], (rows.clock * PHYSICS_DT_S).tolist()
    victim = int(alive[0])
    shooter = 0 if alive.all() else 1 - victim
    distance, line = (x[:, shooter] for x in towards(rows.pos.flip(1) - rows.pos))
    r_ne = look_up(rows.vel[:, shooter], rows.vel[:, 1 - shooter], line)[:, 2]
    if alive.all():
        best = int((r_ne / distance * (rows.left[:, shooter] > 0)).argmax())
        return {"victim": 0, "time": times[best], "range": float(distance[best]), "r_ne": float(r_ne[best])}
    away = (rows.missile_pos[-1] - rows.pos[-1, victim]).norm(dim=-1).view(SIDES, CARRIED)[shooter]
    ages = rows.missile_age[-1].view(SIDES, CARRIED)[shooter]
    age = ages[torch.where(ages == GONE, torch.inf, away).argmin()].clamp(min=0)
    launch = int((rows.clock < rows.clock[-1] - age).sum())
    entered = max((row + 1 for row in range(launch + 1) if distance[row] > r_ne[row]), default=0)
    first = max(int(times[launch] - BEFORE_S), 0)
    tried = [bisect_left(times, TRIED_S * k) for k in range(int(first / TRIED_S), int(times[-1] / TRIED_S) + 1)]
    saved = _run_away(rows.map(lambda x: x[tried]), commands, victim).tolist()
    time = max((times[row] for row, survives in zip(tried, saved, strict=True) if survives), default=None)
    facts = {"victim": victim + 1, "time": time, "launch": times[launch]}
    facts["entered"] = times[entered] if entered <= launch else None
    return facts | {"range": float(distance[launch]), "r_ne": float(r_ne[launch])}


def _run_away(starts: Duels, commands: Tensor, victim: int) -> Tensor:
    """Return in which of these duels [N] the victim survives if it runs from now on."""
    num, last = len(starts.clock), len(commands)
    commands = torch.cat((commands, torch.tensor([0.0, 1.0, 0.0]).expand(1, SIDES, 3)))  # after the game: straight on
    env = AirCombatEnv(num, "cpu", 0, AirCombatConfig(num_envs=num, sides=SIDES, episode_s=RUN_S))
    duels, agent, never = env.engine.duels, EvadeAgent(num), torch.zeros(num, dtype=torch.bool)
    duels.copy_(starts)
    env.engine.refresh()
    action = torch.zeros(SIDES, num, 3)
    while ((duels.winner == GOING_ON) & ((duels.clock < last) | (duels.missile_age != GONE).any(1))).any():
        action[victim] = action_of(agent, env.views()[victim])
        action[1 - victim] = commands[duels.clock.clamp(max=last), 1 - victim]
        env.engine.step(action, never)
    return duels.alive[:, victim]
