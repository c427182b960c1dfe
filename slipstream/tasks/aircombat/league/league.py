"""League: the learner's opponents in a training run, chosen by its evaluations and a curriculum.

At every evaluation the learner plays the scripted agents and its past policies. The scores give ratings, promotion
through the curriculum, snapshots, and the seats of the opponents until the next evaluation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from types import MappingProxyType
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
RATED = ("placeholder", "pursuit", "crank", "evade")  # play in every evaluation
HARDNESS = 2.0  # who is drawn by hardness is met in proportion to (share of games not won)^HARDNESS


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
    pfsp: bool = False  # the agents of a mix are met the more often, the fewer games were won against them, too
    judges: list[str] = field(default_factory=lambda: ["pursuit", "crank"])  # select the best policy; perhaps of no mix
    patience: int = 20  # evaluations after which a stage ends anyway (evade is rarely beaten); 0: never
    seats: int = 16  # groups of duels, each with one opponent; divides env.num_envs
    pool: int = 12  # past policies kept
    snapshot_every: int = 2  # evaluations between two snapshots in the last stage
    games: int = 64  # per opponent and evaluation
    exploit_s: float = 0.0  # of training of each of two best responses to the agent, when the run is over; 0: none

    def __post_init__(self) -> None:
        if not self.mixes or len(self.promote) != len(self.mixes) - 1:
            few = len(self.mixes) - 1
            raise ValueError(f"league.promote needs one number per stage but the last: {few}, not {len(self.promote)}")
        for mix in self.mixes:
            if not mix or min(mix.values()) < 0 or sum(mix.values()) <= 0:
                raise ValueError(f"a stage of league.mixes needs agents with positive shares, not {dict(mix)}")
        if POOL in self.mixes[0]:
            raise ValueError("the first stage of league.mixes has no past policies: leave pool out of it")
        if not self.judges or POOL in self.judges:
            raise ValueError("league.judges must name agents, such as [pursuit,crank,scripted]; pool is none")
        check_range(self, "seats", "snapshot_every", "games", minimum=1, section="league.")
        check_range(self, "patience", "exploit_s", minimum=0, section="league.")
        check_range(self, "pool", minimum=len(self.mixes), section="league.")  # a champion per stage
        if self.games % 2:
            raise ValueError(f"league.games={self.games} must be even: half of the games are played with swapped sides")

    @property
    def scripted(self) -> list[str]:
        """All agents except past policies. They play in every evaluation."""
        of_mixes = (name for mix in self.mixes for name in mix if name != POOL)
        return list(dict.fromkeys([*RATED, *of_mixes, *self.judges]))


def ends_stage(config: LeagueConfig, stage: int, evaluations: int, scores: Mapping[str, Score]) -> bool:
    """Return whether a stage ends after so many evaluations, the last one with these scores.

    It ends if the lower end of the 95 % interval of the share of games won against its scripted opponents reaches
    `league.promote`, or if `league.patience` is exhausted.
    """
    if stage == len(config.mixes) - 1:
        return False
    met = total(scores[name] for name in config.mixes[stage] if name in scores)
    passed = wilson(met.won, met.games)[0] >= config.promote[stage]
    return passed or 0 < config.patience <= evaluations


def hardness(score: Score) -> float:
    """Return the weight with which a player is drawn: prioritized fictitious self-play (Vinyals et al., 2019)."""
    return max((1 - (score.won + 1) / (score.games + 2)) ** HARDNESS, 0.02)  # 0.25 without games


def draw_seats(
    mix: Mapping[str, float],
    seats: int,
    pool: Mapping[int, Score],
    rng: np.random.Generator,
    scores: Mapping[str, Score] = MappingProxyType({}),
) -> list[Seat]:
    """Assign the seats: as many per agent as its share of the mix, rounded to fill all; past policies are drawn at
    random, the more often the fewer games were won against them.

    Args:
        mix: the shares. With an empty pool its share is given to the others.
        seats: how many there are.
        pool: the learner's score against each past policy.
        rng: draws the past policies.
        scores: the learner's score against agents and against the pool, whose shares are weighted by their hardness.
    """
    shares = {name: share for name, share in mix.items() if share > 0 and (name != POOL or pool)}
    shares = {name: share * (hardness(scores[name]) if scores else 1) for name, share in shares.items()}
    if not shares:
        raise ValueError("this stage has only past policies as opponents, and the pool is empty")
    exact = {name: seats * share / sum(shares.values()) for name, share in shares.items()}
    counts = {name: int(x) for name, x in exact.items()}
    for name in sorted(exact, key=lambda name: counts[name] - exact[name])[: seats - sum(counts.values())]:
        counts[name] += 1
    weights = np.array([hardness(score) for score in pool.values()])
    who: list[Seat] = []
    for name, count in counts.items():
        if name == POOL:
            who += rng.choice(list(pool), size=count, p=weights / weights.sum()).tolist()
        else:
            who += [name] * count
    return who


class League:
    """Owns the pool, the curriculum and all results. `opponent` flies side 2 of the training's env."""

    name = "league"  # of its state in a checkpoint

    def __init__(self, config: LeagueConfig, env: AirCombatEnv, policy: ActorCritic, seed: int) -> None:
        self.config = config
        self.policy = policy
        self.seed = seed
        self.stage = self.stage_evaluations = self.evaluations = 0
        self.ended = ""  # the stage ended by the last evaluation
        self.pool = PolicyPool(policy, config.pool)
        self.members = [""] * config.pool  # the name of each past policy, empty where there is none
        self.results: dict[tuple[str, str], Score] = {}  # of all players but the present learner
        self.opponent = SeatedOpponent(config.scripted, self.pool, config.seats, env.num_envs, sampled=True)
        seats = len(config.scripted) + config.pool
        games = config.games * seats
        self._evaluation_opponent = SeatedOpponent(config.scripted, self.pool, seats, games, sampled=False)
        settings = replace(env.config, num_envs=games, sides=2, reward="zero")
        match_env = AirCombatEnv(games, env.device, derive_seed(seed, "league"), settings)
        learner = LearnedAgent(games, env.device, policy=policy)
        self._match = Match(match_env, learner, self._evaluation_opponent, capture=True)
        self._seat({})
        env.set_opponent(self.opponent)

    # -- an evaluation -----------------------------------------------------------------------------------------------

    def evaluate(self) -> dict[str, float]:
        """Play all opponents, update stage, pool and seats. Returns the metrics."""
        scores = self.play()
        ratings = rate(self.results | {(NOW, name): score for name, score in scores.items()})
        metrics = self.metrics(scores) | {"league/stage": float(self.stage + 1)}
        now = ratings[NOW]
        metrics |= {"league/elo": now.elo, "league/elo_low": now.low, "league/elo_high": now.high}
        for name in self.config.scripted:
            if ratings[name].decided or name == "pursuit":
                metrics[f"league/{name}/elo"] = ratings[name].elo
        self.evaluations += 1
        self.stage_evaluations += 1
        self.ended = ""
        if ends_stage(self.config, self.stage, self.stage_evaluations, scores):
            self.ended = f"stage{self.stage + 1}"
            self.stage, self.stage_evaluations = self.stage + 1, 0
            self.keep(self.ended, scores)
        elif self.stage == len(self.config.mixes) - 1 and self.stage_evaluations % self.config.snapshot_every == 0:
            self.keep(f"self{self.evaluations}", scores)
        self._seat(scores)
        return metrics

    def play(self) -> dict[str, Score]:
        """Play the learner against every scripted agent and every past policy; return the scores."""
        scripted = self.config.scripted
        seats: list[Seat] = [*scripted, *(i if name else scripted[0] for i, name in enumerate(self.members))]
        self._evaluation_opponent.seat(seats)
        games = self._match.play()
        each = self.config.games
        seated = enumerate([*scripted, *self.members])
        return {name: games.score(slice(k * each, (k + 1) * each)) for k, name in seated if name}

    def metrics(self, scores: dict[str, Score]) -> dict[str, float]:
        """Return the metrics of an evaluation, as shares of games: against all judges, and against each opponent."""
        judges = total(scores[name] for name in self.config.judges)
        found = {"success": judges.share("won"), "lost": judges.share("lost"), "draw": judges.share("draw")}
        found["score"] = judges.share("won") - judges.share("lost")
        champions = [name for name in scores if name.startswith("stage")]
        shown = {name: scores[name] for name in (*self.config.scripted, *champions)}
        if any(self.members):
            shown["pool"] = total(scores[name] for name in self.members if name)
        for name, score in shown.items():
            found |= {f"league/{name}/{what}": score.share(what) for what in ("won", "draw", "lost")}
        return found

    def checkpoint_tags(self) -> list[str]:
        """Return the name of the stage that the last evaluation ended: its champion is kept."""
        return [f"{self.ended}-champion"] if self.ended else []  # a number last would make a series of them

    def keep(self, name: str, scores: dict[str, Score]) -> None:
        """Store the present learner in the pool; if it is full, it replaces the past policy that the learner beats
        most."""
        if "" in self.members:
            place = self.members.index("")
        else:
            others = [i for i, member in enumerate(self.members) if not member.startswith("stage")]
            place = max(others, key=lambda i: scores[self.members[i]].share("won"))
            self.results = {pair: score for pair, score in self.results.items() if self.members[place] not in pair}
        self.pool.put(place, self.policy)
        self.results |= {(name, other): score for other, score in scores.items() if other != self.members[place]}
        self.members[place] = name

    def _seat(self, scores: Mapping[str, Score]) -> None:
        """Draw the opponents of the training."""
        pool = {i: scores.get(name, Score()) for i, name in enumerate(self.members) if name}
        rng = np.random.default_rng([derive_seed(self.seed, "seats"), self.evaluations])
        weighted = {**scores, POOL: total(pool.values())} if self.config.pfsp and scores else {}
        self.opponent.seat(draw_seats(self.config.mixes[self.stage], self.config.seats, pool, rng, weighted))

    # -- state -------------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Return stage, pool, results and seats."""
        counts = {name: getattr(self, name) for name in ("stage", "stage_evaluations", "evaluations")}
        seats = [seat if isinstance(seat, str) else f"#{seat}" for seat in self.opponent.seats]
        results = [{"red": red, "blue": blue, **asdict(score)} for (red, blue), score in self.results.items()]
        pool = {"members": list(self.members), "pool": self.pool.state_dict()}
        return counts | pool | {"seats": seats, "results": results}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore `state`."""
        self.pool.load_state_dict(state["pool"])
        self.stage, self.stage_evaluations = state["stage"], state["stage_evaluations"]
        self.evaluations, self.members = state["evaluations"], list(state["members"])
        rows = state["results"]
        self.results = {(row["red"], row["blue"]): Score(row["won"], row["draw"], row["lost"]) for row in rows}
        self.opponent.seat([int(seat[1:]) if seat.startswith("#") else seat for seat in state["seats"]])
