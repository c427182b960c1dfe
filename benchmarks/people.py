"""How a person-like player does against the agents of `slipstream play`: python benchmarks/people.py [games]

It sees what the page shows 0.3 s late, decides ten times a second, presses whole keys (rudder left, none, right; full
throttle), presses a wrong one in 1 of 20 decisions, and judges ranges to 10 %. It fires inside 0.8 R_max with 6 s
between two shots, turns away from a missile that is 10 s away or less, and otherwise flies at the enemy.
"""

from __future__ import annotations

import sys

import torch

from slipstream.sim.devices import set_threads
from slipstream.tasks.aircombat.agents import create_agent, enemy_bearing, is_threatened
from slipstream.tasks.aircombat.env import AirCombatConfig, AirCombatEnv
from slipstream.tasks.aircombat.observation import TIME_SCALE_S

TICKS = 6  # of 1/60 s between two decisions
LATE = 3  # decisions: 0.3 s
WRONG, MISJUDGED = 0.05, 0.1
SHARE, PAUSE_S, DANGER_S = 0.8, 6.0, 10.0


def decide(seen, ready, rng):
    """Return the keys [N, 3] for what is seen, and who wants to fire [N]."""
    sine, cosine = enemy_bearing(seen)
    threat = is_threatened(seen) & (seen["incoming_1_time_to_go"] * TIME_SCALE_S < DANGER_S)
    sine = torch.where(threat, -seen["incoming_1_bearing_sin"], sine)
    cosine = torch.where(threat, -seen["incoming_1_bearing_cos"], cosine)
    off = torch.atan2(sine, cosine)
    key = torch.where(off.abs() > 0.15, off.sign(), 0.0)
    slip = torch.rand(len(key), generator=rng) < WRONG
    key = torch.where(slip, torch.randint(-1, 2, key.shape, generator=rng).float(), key)
    judged = seen["enemy_range"] * (1 + MISJUDGED * torch.randn(len(key), generator=rng))
    ahead = enemy_bearing(seen)[1] > 0.85
    fire = (judged < SHARE * seen["enemy_r_max"]) & ahead & ready
    return torch.stack((key, torch.ones_like(key), fire.float()), -1), fire


def play(opponent: str, games: int, seconds: float) -> list[float]:
    """Return the shares of games won, drawn and lost."""
    env = AirCombatEnv(games, "cpu", 1, AirCombatConfig(num_envs=games, sides=2, start="random", episode_s=seconds))
    agent, rng = create_agent(opponent, games).eval(), torch.Generator().manual_seed(1)
    hold = max(1, round(getattr(agent, "time_scale", None) or 1))
    duels, never, seen = env.engine.duels, torch.zeros(games, dtype=torch.bool), []
    action, since = torch.zeros(2, games, 3), torch.full((games,), PAUSE_S)
    for tick in range(round(60 * seconds)):
        mine, theirs = env.views()
        if tick % hold == 0:
            action[1] = agent.act(theirs)
        if tick % TICKS == 0:
            seen.append(type(mine)({name: x.clone() for name, x in mine.items()}))
            if len(seen) > LATE:
                action[0], fired = decide(seen.pop(0), since >= PAUSE_S, rng)
                since = torch.where(fired, 0.0, since + TICKS / 60)
        env.engine.step(action, never)
    return [float((duels.winner == k).float().mean()) for k in (1, 0, 2)]


if __name__ == "__main__":
    set_threads(1)
    games = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    print(f"{games} games, random starts, 60 s: won / drawn / lost by a person-like player")
    for opponent in ("placeholder", "pursuit", "crank", "learned"):
        with torch.no_grad():
            print(f"{opponent:12s}", " / ".join(f"{x:.3f}" for x in play(opponent, games, 60.0)), flush=True)
