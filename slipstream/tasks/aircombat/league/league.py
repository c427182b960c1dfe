"""League: the learner's opponents in a training run, chosen by its evaluations.

At every evaluation the learner plays the scripted agents and its past policies. The scores give ratings, promotion
through the curriculum, snapshots, and the seats of the opponents until the next evaluation.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

import numpy as np

from slipstream.models.policy import ActorCritic
from slipstream.sim.random import derive_seed
from slipstream.tasks.aircombat.env import AirCombatEnv
from slipstream.tasks.aircombat.league.curriculum import Curriculum, LeagueConfig, priorities, seating
from slipstream.tasks.aircombat.league.matches import Match
from slipstream.tasks.aircombat.league.policies import LearnedAgent, PolicyPool, Seat, SeatedOpponent
from slipstream.tasks.aircombat.league.ratings import Score, rate, total

NOW = "now"  # the present learner


class League:
    """Owns the pool, the curriculum and all results. `opponent` flies side 2 of the training's env."""

    name = "league"  # of its state in a checkpoint

    def __init__(self, config: LeagueConfig, env: AirCombatEnv, policy: ActorCritic, seed: int) -> None:
        self.config = config
        self.policy = policy
        self.seed = seed
        self.curriculum = Curriculum(config)
        self.pool = PolicyPool(policy, config.pool)
        self.members: list[str | None] = [None] * config.pool  # the name of each past policy
        self.results: dict[tuple[str, str], Score] = {}  # of all players but the present learner
        self.evaluations = 0
        self.ended: str | None = None  # the stage ended by the last evaluation
        self.opponent = SeatedOpponent(config.scripted, self.pool, config.seats, env.num_envs, sampled=True)
        self._judged = SeatedOpponent(
            config.rated, self.pool, len(config.rated) + config.pool, self._games(), sampled=False
        )
        judging = replace(env.config, num_envs=self._games(), sides=2, reward="zero")
        judge_env = AirCombatEnv(self._games(), env.device, derive_seed(seed, "league"), judging)
        self._match = Match(
            judge_env, LearnedAgent(self._games(), env.device, policy=policy), self._judged, capture=True
        )
        self._seat([])
        env.set_opponent(self.opponent)

    def _games(self) -> int:
        return self.config.games * (len(self.config.rated) + self.config.pool)

    # -- an evaluation -----------------------------------------------------------------------------------------------

    def evaluate(self) -> dict[str, float]:
        """Play all opponents, update curriculum, pool and seats. Returns the metrics."""
        scores = self.play()
        members = {name: scores[name] for name in self.members if name is not None}
        ratings = rate(self.results | {(NOW, name): score for name, score in scores.items()}, self.config.anchor)
        stage = self.curriculum.stage
        metrics = self.metrics(scores, members) | {"league/stage": float(stage + 1)}
        metrics |= {
            "league/elo": ratings[NOW].elo,
            "league/elo_low": ratings[NOW].low,
            "league/elo_high": ratings[NOW].high,
        }
        metrics |= {f"league/{name}/elo": ratings[name].elo for name in scores if name in self.config.rated}
        promoted = self.curriculum.judge(scores)
        self.evaluations += 1
        self.ended = f"stage{stage + 1}" if promoted else None
        if self.ended:
            self.keep(self.ended, scores)
        elif self.curriculum.is_last and self.curriculum.evaluations % self.config.snapshot_every == 0:
            self.keep(f"self{self.evaluations}", scores)
        self._seat([scores.get(name, Score()) for name in self.members if name is not None])
        return metrics

    def play(self) -> dict[str, Score]:
        """Play the learner against every rated agent and every past policy."""
        rated = self.config.rated
        seats: list[Seat] = [*rated, *(i if name else rated[0] for i, name in enumerate(self.members))]
        self._judged.seat(seats)
        games = self._match.play()
        each = self.config.games
        scores = {}
        for k, name in enumerate([*rated, *self.members]):
            if name is not None:
                scores[name] = games.score(slice(k * each, (k + 1) * each))
        return scores

    def metrics(self, scores: dict[str, Score], members: dict[str, Score]) -> dict[str, float]:
        """Return the metrics of an evaluation, as shares of games: against all judges, and against each opponent."""
        judges = total(scores[name] for name in self.config.judges)
        found = {"success": judges.share("won"), "lost": judges.share("lost"), "draw": judges.share("draw")}
        found["score"] = judges.share("won") - judges.share("lost")
        shown = {name: score for name, score in scores.items() if name in self.config.rated or name.startswith("stage")}
        if members:
            shown["pool"] = total(members.values())
        for name, score in shown.items():
            found |= {f"league/{name}/{what}": score.share(what) for what in ("won", "draw", "lost")}
        return found

    def checkpoint_tags(self) -> list[str]:
        """Return the name of the stage that the last evaluation ended: its champion is kept."""
        return [f"{self.ended}-champion"] if self.ended else []  # a number last would make a series of them

    def keep(self, name: str, scores: dict[str, Score]) -> None:
        """Store the present learner in the pool; if it is full, it replaces the past policy that the learner beats
        most."""
        if None in self.members:
            place = self.members.index(None)
        else:
            others = [i for i, member in enumerate(self.members) if member and not member.startswith("stage")]
            place = max(others, key=lambda i: scores[self.members[i]].share("won"))  # type: ignore[index]
            removed = self.members[place]
            self.results = {pair: score for pair, score in self.results.items() if removed not in pair}
        self.pool.put(place, self.policy)
        self.results |= {(name, other): score for other, score in scores.items() if other != self.members[place]}
        self.members[place] = name

    def _seat(self, scores: list[Score]) -> None:
        """Draw the opponents of the training; `scores` are those against the members, in order."""
        held = [i for i, name in enumerate(self.members) if name is not None]
        rng = np.random.default_rng([derive_seed(self.seed, "seats"), self.evaluations])
        weights = priorities(scores, self.config.hardness)
        self.opponent.seat(seating(self.curriculum.mix, self.config.seats, held, weights, rng))

    # -- state -------------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Return stage, pool, results and seats."""
        return {
            "stage": self.curriculum.stage,
            "stage_evaluations": self.curriculum.evaluations,
            "evaluations": self.evaluations,
            "members": [name or "" for name in self.members],
            "seats": [str(seat) if isinstance(seat, str) else f"#{seat}" for seat in self.opponent.seats],
            "results": [{"red": red, "blue": blue, **asdict(score)} for (red, blue), score in self.results.items()],
            "pool": self.pool.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore `state`."""
        self.pool.load_state_dict(state["pool"])
        self.curriculum.stage, self.curriculum.evaluations = state["stage"], state["stage_evaluations"]
        self.evaluations = state["evaluations"]
        self.members = [name or None for name in state["members"]]
        self.results = {
            (row["red"], row["blue"]): Score(row["won"], row["draw"], row["lost"]) for row in state["results"]
        }
        self.opponent.seat([int(seat[1:]) if seat.startswith("#") else seat for seat in state["seats"]])
