"""The curriculum: the learner's opponents stage by stage, and the conditions of promotion."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from slipstream.tasks.aircombat.league.ratings import Score, total
from slipstream.tasks.evaluation import wilson

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
    rated: list[str] = field(
        default_factory=lambda: ["placeholder", "pursuit", "crank", "evade"]
    )  # in every evaluation
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
        if min(self.seats, self.pool, self.snapshot_every, self.games) < 1 or self.patience < 0 or self.hardness < 0:
            raise ValueError(
                "league.seats, pool, snapshot_every and games must be at least 1, patience and hardness not negative"
            )
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

    def judge(self, scores: Mapping[str, Score]) -> bool:
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
