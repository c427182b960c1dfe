"""Elo ratings with intervals, estimated from all games together.

A player of rating r scores 1 / (1 + 10^((s - r) / 400)) on average against one of rating s; a draw scores 0.5. The
ratings are the maximum a posteriori of the Bradley-Terry model, with a weak prior that keeps ratings finite when a
player won or lost everything. The intervals come from the curvature. Draws vary less than the model assumes, so the
intervals are slightly too wide.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

ELO = 400 / math.log(10)  # per unit of log odds
PRIOR_ELO = 1000.0  # standard deviation of the prior


@dataclass(frozen=True)
class Score:
    """Results of one player against another."""

    won: int = 0
    draw: int = 0
    lost: int = 0

    @property
    def games(self) -> int:
        """The number of games."""
        return self.won + self.draw + self.lost

    @property
    def decided(self) -> int:
        """The number of games that were not draws."""
        return self.won + self.lost

    def share(self, what: str) -> float:
        """Return the share of games that were `won`, `draw` or `lost`; 0 without games."""
        return getattr(self, what) / self.games if self.games else 0.0

    def __add__(self, other: Score) -> Score:
        return Score(self.won + other.won, self.draw + other.draw, self.lost + other.lost)


@dataclass(frozen=True)
class Rating:
    """A rating and its 95 % interval."""

    elo: float
    low: float
    high: float


def rate(results: Mapping[tuple[str, str], Score], anchor: str, anchor_elo: float = 1000.0) -> dict[str, Rating]:
    """Rate every player in the results; `anchor` gets exactly `anchor_elo`."""
    players = list(dict.fromkeys(name for pair in results for name in pair))
    if anchor not in players:
        raise ValueError(f"the anchor {anchor} has played no game: use one of {', '.join(players)}")
    place = {name: i for i, name in enumerate(players)}
    points = np.zeros((len(players), len(players)))  # of the row against the column
    for (one, other), score in results.items():
        points[place[one], place[other]] += score.won + 0.5 * score.draw
        points[place[other], place[one]] += score.lost + 0.5 * score.draw
    strength, covariance = _most_likely(points)
    a = place[anchor]
    variance = np.diag(covariance) + covariance[a, a] - 2 * covariance[a]  # of the difference to the anchor
    half = 1.959964 * ELO * np.sqrt(np.maximum(variance, 0.0))
    elo = anchor_elo + ELO * (strength - strength[a])
    return {name: Rating(float(elo[i]), float(elo[i] - half[i]), float(elo[i] + half[i])) for name, i in place.items()}


def total(scores: Iterable[Score]) -> Score:
    """Add up scores."""
    return sum(scores, Score())


def _most_likely(points: np.ndarray, steps: int = 100) -> tuple[np.ndarray, np.ndarray]:
    """Return strengths in log odds and their covariance, by Newton's method on a concave function."""
    games = points + points.T
    strength, precision = np.zeros(len(points)), (ELO / PRIOR_ELO) ** 2
    for _ in range(steps):
        expected = 1 / (1 + np.exp(strength[None] - strength[:, None]))
        slope = (points - games * expected).sum(1) - precision * strength
        weight = games * expected * (1 - expected)
        curvature = np.diag(weight.sum(1) + precision) - weight
        move = np.linalg.solve(curvature, slope)
        strength = strength + np.clip(move, -2.0, 2.0)  # limited: far from the maximum the curvature misleads
        if np.abs(move).max() < 1e-10:
            break
    return strength, np.linalg.inv(curvature)
