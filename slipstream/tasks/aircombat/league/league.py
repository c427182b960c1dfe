"""League: the learner's opponents in a training run, chosen by its evaluations and a curriculum.

At every evaluation the learner plays the scripted agents and its past policies. The scores give ratings, promotion
through the curriculum, snapshots, and the seats of the opponents until the next evaluation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from slipstream.config.validation import check_range
from slipstream.models.policy import ActorCritic
from slipstream.sim.random import derive_seed
from slipstream.tasks.aircombat.env import AirCombatEnv
from slipstream.tasks.aircombat.league.matches import Match, Score, rate, total
from slipstream.tasks.aircombat.league.policies import LearnedAgent, PolicyPool, Seat, SeatedOpponent
from slipstream.tasks.evaluation import wilson

NOW = "now"  # the present learner
POOL = "pool"  # in a stage's mix: past policies of the learner


@dataclass
class LeagueConfig:
    """The settings of `league.*` (task=aircombat): opponents per stage; the last stage includes past policies."""

    enabled: bool = False  # replaces env.opponent
    mixes: list[dict[str, float]] = field(  # per stage: agents and their shares of the duels; pool: past policies
        default_factory=lambda: [
            {"placeholder": 1.0},
            {"pursuit": 0.5, "crank": 0.5},
            {"pursuit": 0.3, "crank": 0.4, "evade": 0.3},
            {"pursuit": 0.15, "crank": 0.25, "evade": 0.1, POOL: 0.5},
        ]
    )
    promote: list[float] = field(default_factory=lambda: [0.08, 0.5, 0.5])  # share of games won that ends each stage
    patience: int = 20  # evaluations after which a stage ends anyway (evade is rarely beaten); 0: never
    seats: int = 16  # groups of duels, each with one opponent; divides env.num_envs
    pool: int = 12  # past policies kept
    snapshot_every: int = 2  # evaluations between two snapshots in the last stage
    hardness: float = 2.0  # a past policy is met in proportion to (share of games not won)^hardness
    games: int = 64  # per opponent and evaluation
    # in every evaluation
    rated: list[str] = field(default_factory=lambda: ["placeholder", "pursuit", "crank", "evade"])
    judges: list[str] = field(default_factory=lambda: ["pursuit", "crank"])  # of the rated: select the best policy
    anchor: str = "pursuit"  # its rating is 1000

    def __post_init__(self) -> None:
        if not self.mixes or len(self.promote) != len(self.mixes) - 1:
            raise ValueError(
                f"league.promote needs one number per stage but the last: {len(self.mixes) - 1}, not {len(self.promote)}"
            )
        for mix in self.mixes:
            if not mix or min(mix.values()) < 0 or sum(mix.values()) <= 0:
                raise ValueError(f"a stage of league.mixes needs agents with positive shares, not {dict(mix)}")
        if POOL in self.mixes[0]:
            raise ValueError("the first stage of league.mixes has no past policies: leave pool out of it")
        check_range(self, "seats", "pool", "snapshot_every", "games", minimum=1, section="league.")
        check_range(self, "patience", "hardness", minimum=0, section="league.")
        if self.games % 2:
            raise ValueError(f"league.games={self.games} must be even: half of the games are played with swapped sides")
        missing = [name for name in (self.anchor, *self.judges) if name not in self.rated]
        if missing or not self.judges:
            raise ValueError(
                f"league.anchor and league.judges must be in league.rated, which lacks {', '.join(missing) or 'judges'}"
            )
        if self.pool < len(self.mixes):
            raise ValueError(f"league.pool={self.pool} must hold one policy per stage: use at least {len(self.mixes)}")

    @property
    def scripted(self) -> list[str]:
        """All agents except past policies."""
        names = [name for mix in self.mixes for name in mix if name != POOL]
        return list(dict.fromkeys([*self.rated, *names]))


@dataclass
class Curriculum:
    """The learner's stage, by its evaluations."""

    config: LeagueConfig
    stage: int = 0
    evaluations: int = 0  # in this stage

    @property
    def mix(self) -> Mapping[str, float]:
        """The shares of this stage's opponents."""
        return self.config.mixes[self.stage]

    @property
    def is_last(self) -> bool:
        """Whether this is the last stage."""
        return self.stage == len(self.config.mixes) - 1

    def update(self, scores: Mapping[str, Score]) -> bool:
        """Process an evaluation's scores. Returns whether the learner is promoted; `stage` is then the next one.

        It is promoted if the lower end of the 95 % interval of its share of games won against this stage's scripted
        opponents reaches `league.promote`, or if `league.patience` is exhausted.
        """
        self.evaluations += 1
        if self.is_last:
            return False
        met = total(scores[name] for name in self.mix if name in scores)
        passed = wilson(met.won, met.games)[0] >= self.config.promote[self.stage]
        if not passed and not (self.config.patience and self.evaluations >= self.config.patience):
            return False
        self.stage, self.evaluations = self.stage + 1, 0
        return True


def seating(
    mix: Mapping[str, float], seats: int, members: Sequence[int], weights: Sequence[float], rng: np.random.Generator
) -> list[str | int]:
    """Assign the seats: as many per agent as its share of the mix, rounded to fill all; past policies are drawn at
    random.

    With an empty pool its share is given to the others.
    """
    shares = {name: share for name, share in mix.items() if share > 0 and (name != POOL or members)}
    if not shares:
        raise ValueError("this stage has only past policies as opponents, and the pool is empty")
    exact = {name: seats * share / sum(shares.values()) for name, share in shares.items()}
    counts = {name: int(x) for name, x in exact.items()}
    for name in sorted(exact, key=lambda name: counts[name] - exact[name])[: seats - sum(counts.values())]:
        counts[name] += 1
    who: list[str | int] = []
    for name, count in counts.items():
        if name == POOL:
            p = np.asarray(weights, dtype=np.float64)
            who += [int(member) for member in rng.choice(np.asarray(members), size=count, p=p / p.sum())]
        else:
            who += [name] * count
    return who


def priorities(scores: Sequence[Score], hardness: float) -> list[float]:
    """Return the weight of each past policy: higher the fewer games were won against it, never zero."""
    not_won = [1 - (score.won + 1) / (score.games + 2) for score in scores]  # 0.5 without games
    return [max(share**hardness, 0.02) for share in not_won]


class League:
    """Owns the pool, the curriculum and all results. `opponent` flies side 2 of the training's env."""

    name = "league"  # of its state in a checkpoint

    def __init__(self, config: LeagueConfig, env: AirCombatEnv, policy: ActorCritic, seed: int) -> None:
        self.config = config
        self.policy = policy
        self.seed = seed
        self.curriculum = Curriculum(config)
        self.pool = PolicyPool(policy, config.pool)
        self.members = [""] * config.pool  # the name of each past policy, empty where there is none
        self.results: dict[tuple[str, str], Score] = {}  # of all players but the present learner
        self.evaluations = 0
        self.ended = ""  # the stage ended by the last evaluation
        self.opponent = SeatedOpponent(config.scripted, self.pool, config.seats, env.num_envs, sampled=True)
        seats = len(config.rated) + config.pool
        games = config.games * seats
        self._evaluation_opponent = SeatedOpponent(config.rated, self.pool, seats, games, sampled=False)
        settings = replace(env.config, num_envs=games, sides=2, reward="zero")
        match_env = AirCombatEnv(games, env.device, derive_seed(seed, "league"), settings)
        learner = LearnedAgent(games, env.device, policy=policy)
        self._match = Match(match_env, learner, self._evaluation_opponent, capture=True)
        self._seat({})
        env.set_opponent(self.opponent)

    # -- an evaluation -----------------------------------------------------------------------------------------------

    def evaluate(self) -> dict[str, float]:
        """Play all opponents, update curriculum, pool and seats. Returns the metrics."""
        scores, distinct = self.play()
        ratings = rate(self.results | {(NOW, name): score for name, score in distinct.items()}, self.config.anchor)
        stage = self.curriculum.stage + 1
        metrics = self.metrics(scores) | {"league/stage": float(stage)}
        now = ratings[NOW]
        metrics |= {"league/elo": now.elo, "league/elo_low": now.low, "league/elo_high": now.high}
        for name in self.config.rated:
            if ratings[name].decided or name == self.config.anchor:
                metrics[f"league/{name}/elo"] = ratings[name].elo
        self.evaluations += 1
        self.ended = f"stage{stage}" if self.curriculum.update(scores) else ""
        if self.ended:
            self.keep(self.ended, scores, distinct)
        elif self.curriculum.is_last and self.curriculum.evaluations % self.config.snapshot_every == 0:
            self.keep(f"self{self.evaluations}", scores, distinct)
        self._seat(scores)
        return metrics

    def play(self) -> tuple[dict[str, Score], dict[str, Score]]:
        """Play the learner against every rated agent and every past policy; return the scores of all games, and of the
        distinct ones."""
        rated = self.config.rated
        seats: list[Seat] = [*rated, *(i if name else rated[0] for i, name in enumerate(self.members))]
        self._evaluation_opponent.seat(seats)
        games = self._match.play()
        each = self.config.games
        seated = [(name, slice(k * each, (k + 1) * each)) for k, name in enumerate([*rated, *self.members]) if name]
        return {n: games.score(at, repeated=True) for n, at in seated}, {n: games.score(at) for n, at in seated}

    def metrics(self, scores: dict[str, Score]) -> dict[str, float]:
        """Return the metrics of an evaluation, as shares of games: against all judges, and against each opponent."""
        judges = total(scores[name] for name in self.config.judges)
        found = {"success": judges.share("won"), "lost": judges.share("lost"), "draw": judges.share("draw")}
        found["score"] = judges.share("won") - judges.share("lost")
        shown = {name: score for name, score in scores.items() if name in self.config.rated or name.startswith("stage")}
        if any(self.members):
            shown["pool"] = total(scores[name] for name in self.members if name)
        for name, score in shown.items():
            found |= {f"league/{name}/{what}": score.share(what) for what in ("won", "draw", "lost")}
        return found

    def checkpoint_tags(self) -> list[str]:
        """Return the name of the stage that the last evaluation ended: its champion is kept."""
        return [f"{self.ended}-champion"] if self.ended else []  # a number last would make a series of them

    def keep(self, name: str, scores: dict[str, Score], distinct: dict[str, Score]) -> None:
        """Store the present learner in the pool; if it is full, it replaces the past policy that the learner beats
        most. `distinct` are the scores that count for ratings."""
        if "" in self.members:
            place = self.members.index("")
        else:
            others = [i for i, member in enumerate(self.members) if not member.startswith("stage")]
            place = max(others, key=lambda i: scores[self.members[i]].share("won"))
            self.results = {pair: score for pair, score in self.results.items() if self.members[place] not in pair}
        self.pool.put(place, self.policy)
        self.results |= {(name, other): score for other, score in distinct.items() if other != self.members[place]}
        self.members[place] = name

    def _seat(self, scores: Mapping[str, Score]) -> None:
        """Draw the opponents of the training."""
        held = [i for i, name in enumerate(self.members) if name]
        rng = np.random.default_rng([derive_seed(self.seed, "seats"), self.evaluations])
        weights = priorities([scores.get(self.members[i], Score()) for i in held], self.config.hardness)
        self.opponent.seat(seating(self.curriculum.mix, self.config.seats, held, weights, rng))

    # -- state -------------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Return stage, pool, results and seats."""
        return {
            "stage": self.curriculum.stage,
            "stage_evaluations": self.curriculum.evaluations,
            "evaluations": self.evaluations,
            "members": list(self.members),
            "seats": [str(seat) if isinstance(seat, str) else f"#{seat}" for seat in self.opponent.seats],
            "results": [{"red": red, "blue": blue, **asdict(score)} for (red, blue), score in self.results.items()],
            "pool": self.pool.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore `state`."""
        self.pool.load_state_dict(state["pool"])
        self.curriculum.stage, self.curriculum.evaluations = state["stage"], state["stage_evaluations"]
        self.evaluations = state["evaluations"]
        self.members = list(state["members"])
        rows = state["results"]
        self.results = {(row["red"], row["blue"]): Score(row["won"], row["draw"], row["lost"]) for row in rows}
        self.opponent.seat([int(seat[1:]) if seat.startswith("#") else seat for seat in state["seats"]])
