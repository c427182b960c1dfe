"""Games between two agents, with sides swapped in half of them, their results and recordings, and Elo ratings.

Of the decided games between players of rating r and s, the first wins a share of 1 / (1 + 10^((s - r) / 400)). How
often two players draw is a parameter of each pair (Davidson's model of ties), so a draw says nothing about strength:
who avoids the fight neither gains nor loses by it. The ratings are the maximum a posteriori, with a weak prior around
the anchor that keeps them finite for players that won or lost everything. The intervals come from the curvature.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from slipstream.algorithms.execution.graphs import CaptureFailed, GraphedFunction
from slipstream.tasks.aircombat.agents import BaseAgent, action_of
from slipstream.tasks.aircombat.env import AirCombatEnv
from slipstream.tasks.aircombat.observation import RANGE_SCALE_M, SideView
from slipstream.tasks.aircombat.physics.duel import GOING_ON, Duels

ELO = 400 / math.log(10)  # per unit of log odds
PRIOR_ELO = 1000.0  # standard deviation of the prior
SAME = 1e-4  # relative difference, as of rounding, between two courses of the same game
CHECK_EVERY = 32  # decisions between two checks whether all games are over


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


@dataclass
class Games:
    """The results of N games for red, which flew side 2 in every other game.

    Games that repeat another one, as agents without noise do from the same start, are no further evidence: `score`
    counts them once.
    """

    won: Tensor  # [N] bool
    lost: Tensor  # [N] bool
    elapsed_s: Tensor  # [N]
    range_m: Tensor  # [N] between the two at the start
    swapped: Tensor  # [N] bool: red flew side 2
    distinct: Tensor  # [N] bool: one of each set of games that are the same

    def score(self, where: Tensor | slice = slice(None)) -> Score:
        """Count the distinct games `where` (default: anywhere)."""
        counted = self.distinct[where]
        won, lost = self.won[where][counted], self.lost[where][counted]
        return Score(int(won.sum()), int((~won & ~lost).sum()), int(lost.sum()))


class Match:
    """N games of `red` against `blue` in an env with two sides. It can be played repeatedly.

    Args:
        env: built with `sides=2`.
        red: flies side 1 in the even games, side 2 in the odd ones.
        blue: flies the other side.
        capture: run the step as a CUDA graph on a GPU; only for agents that do not synchronize with the host.
    """

    def __init__(self, env: AirCombatEnv, red: BaseAgent, blue: BaseAgent, capture: bool = False) -> None:
        self.env, self.red, self.blue = env, red, blue
        n, device = env.num_envs, env.device
        self.swapped = torch.arange(n, device=device) % 2 == 1
        env.reset()
        self._first = env.state_dict()  # every match has the same starts
        self._winner = torch.full((n,), -1.0, device=device)
        self._elapsed_s = torch.zeros(n, device=device)
        self._course = torch.zeros(n, 8, device=device)  # sums over a game that tell it from others: range, actions
        captures = capture and device.type == "cuda"
        self._step: Callable[[], None] = GraphedFunction(self._decide, "a match") if captures else self._decide

    @torch.no_grad()
    def play(self, progress: Callable[[float], None] | None = None, watch: Callable[[], None] | None = None) -> Games:
        """Play all games to their ends; `watch` is called before every decision and after the last."""
        try:
            return self._play(progress, watch)
        except CaptureFailed:  # an agent synchronizes with the host: play again without a graph
            return self._play(progress, watch)

    def _play(self, progress: Callable[[float], None] | None, watch: Callable[[], None] | None) -> Games:
        env, config = self.env, self.env.config
        env.load_state_dict(self._first)
        for agent in (self.red, self.blue):
            agent.reset(None)
        self._winner.fill_(-1.0)
        self._course.zero_()
        states = [x.reshape(len(x), -1).double() for x in env.engine.duels.tensors().values()]
        start = torch.cat((*states, self.swapped[:, None].double()), 1).cpu()
        range_m = env.views()[0]["enemy_range"] * RANGE_SCALE_M
        decisions = math.ceil(config.limits_s[1] * 60 / config.time_scale) + 1
        for i in range(decisions):
            if watch:
                watch()
            self._step()
            if i % CHECK_EVERY == CHECK_EVERY - 1:
                if progress:
                    progress((i + 1) / decisions)
                if bool((self._winner >= 0).all()):
                    break
        if watch:
            watch()
        env.check()
        side_1, side_2 = self._winner == 1, self._winner == 2
        won, lost = (torch.where(self.swapped, x, y).cpu() for x, y in ((side_2, side_1), (side_1, side_2)))
        ends = torch.stack((self._winner, self._elapsed_s), 1).double().cpu()
        distinct = find_distinct(torch.cat((start, ends), 1), self._course.cpu())
        return Games(won, lost, self._elapsed_s.cpu().clone(), range_m.cpu(), self.swapped.cpu(), distinct)

    def _decide(self) -> None:
        """Take one decision of both sides; writes persistent tensors only."""
        one, two = self.env.views()
        red = action_of(self.red, self._chosen(two, one))
        blue = action_of(self.blue, self._chosen(one, two))
        swapped = self.swapped[:, None]
        running = self._winner[:, None] < 0
        course = torch.cat((one["enemy_range"][:, None], red, blue), 1)
        course = torch.cat((course, course[:, :1] * course[:, 1:2]), 1)
        self._course += torch.where(running, course, 0.0)
        record = self.env.step(torch.stack((torch.where(swapped, blue, red), torch.where(swapped, red, blue))))
        now = record.terminated[0] & (self._winner < 0)
        self._winner.copy_(torch.where(now, record.info["winner"][0], self._winner))
        self._elapsed_s.copy_(torch.where(now, record.info["elapsed_s"][0], self._elapsed_s))

    def _chosen(self, swapped: SideView, plain: SideView) -> SideView:
        """Return an agent's observation: of one side in swapped games, of the other in the rest."""
        view = SideView()
        for name, x in plain.items():
            view[name] = torch.where(self.swapped.view(-1, *[1] * (x.dim() - 1)), swapped[name], x)
        return view


def find_distinct(equal: Tensor, close: Tensor) -> Tensor:
    """Return a mask [N] with one row of each set of same rows: equal in `equal` [N, A], and within rounding in `close`
    [N, B]."""
    steps = close.double() / (SAME * (1 + close.abs().amax(0)))
    order = torch.argsort(torch.unique(torch.cat((equal, steps.round()), 1), dim=0, return_inverse=True)[1])
    equal, steps = equal[order], steps[order]  # the same rows are neighbours now
    differs = (equal.diff(dim=0) != 0).any(1) | (steps.diff(dim=0).abs() > 1).any(1)
    return torch.ones(len(order), dtype=torch.bool).index_put((order[1:],), differs)


class Recorder:
    """Record the first `count` games of a match: pass it as `watch`. It copies to the host at every decision."""

    def __init__(self, env: AirCombatEnv, count: int = 16) -> None:
        self.env = env
        self.count = min(count, env.num_envs)
        self._seen: list[Duels] = []

    def __call__(self) -> None:
        """Store the present state."""
        seen = self.env.engine.duels.map(lambda x: x[: self.count].to("cpu", copy=True))
        seen.clock -= self.env.engine.ahead[: self.count].cpu()
        self._seen.append(seen)

    def game(self, index: int) -> list[Duels]:
        """Return the states of one game, from its start to its end."""
        states = []
        for seen in self._seen:
            states.append(seen.map(lambda x: x[index : index + 1]))
            if int(states[-1].winner[0]) != GOING_ON:
                break
        return states

    def choose(self, games: Games) -> int:
        """Choose a game to show: the first that red won as side 1, else that it won, else that was decided."""
        won, lost, swapped = (x[: self.count] for x in (games.won, games.lost, games.swapped))
        worth = 4 * (won & ~swapped).int() + 2 * won.int() + lost.int()
        return int(torch.argmax(worth))


# -- ratings ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Rating(Score):
    """All games of a player, and their rating with its 95 % interval. Without decided games it means nothing."""

    elo: float = math.nan
    low: float = math.nan
    high: float = math.nan


def rate(results: Mapping[tuple[str, str], Score]) -> dict[str, Rating]:
    """Rate every player in the results by its decided games; the anchor gets exactly 1000.

    The games of a player that never won only bound its rating from above: it gets the lowest that any player has.
    """
    players = list(dict.fromkeys(name for pair in results for name in pair))
    anchor = anchor_of(results)
    place = {name: i for i, name in enumerate(players)}
    wins, draws = np.zeros((2, len(players), len(players)))  # of the row against the column
    for (one, other), score in results.items():
        if one == other:
            continue
        i, j = place[one], place[other]
        wins[i, j] += score.won
        wins[j, i] += score.lost
        draws[i, j] += score.draw
        draws[j, i] += score.draw
    strength, variance = _most_likely(wins, place[anchor])
    elo, half = 1000.0 + ELO * strength, 1.959964 * ELO * np.sqrt(variance)
    won, draw, lost = wins.sum(1), draws.sum(1), wins.sum(0)
    is_anchor = np.arange(len(players)) == place[anchor]
    lowest = elo[(won + lost > 0) | is_anchor].min()
    shown = np.where((won > 0) | is_anchor, elo, np.minimum(elo, lowest))
    low, high = shown - half, elo + half
    counts, numbers = np.stack((won, draw, lost), 1).astype(int).tolist(), np.stack((shown, low, high), 1).tolist()
    return {name: Rating(*counts[i], *numbers[i]) for name, i in place.items()}


def anchor_of(pairs: Iterable[tuple[str, str]]) -> str:
    """Return the player to be rated 1000: pursuit, or the first opponent if pursuit does not play."""
    names = [name for one, other in pairs for name in (other, one)]
    return "pursuit" if "pursuit" in names else next(iter(names), "")


def total(scores: Iterable[Score]) -> Score:
    """Add up scores."""
    return sum(scores, Score())


def _most_likely(wins: np.ndarray, anchor: int, steps: int = 100) -> tuple[np.ndarray, np.ndarray]:
    """Return strengths in log odds against the anchor and their variances, by Newton's method on a concave function."""
    games = wins + wins.T
    strength, variance, precision = np.zeros(len(wins)), np.zeros(len(wins)), (ELO / PRIOR_ELO) ** 2
    rated = np.flatnonzero(np.arange(len(wins)) != anchor)
    for _ in range(steps):
        expected = 1 / (1 + np.exp(strength[None] - strength[:, None]))
        slope = (wins - games * expected).sum(1) - precision * strength
        weight = games * expected * (1 - expected)
        curvature = np.diag(weight.sum(1) + precision) - weight
        curvature = curvature[np.ix_(rated, rated)]
        move = np.linalg.solve(curvature, slope[rated])
        strength[rated] += np.clip(move, -2.0, 2.0)  # limited: far from the maximum the curvature misleads
        if np.abs(move).max(initial=0.0) < 1e-10:
            break
    variance[rated] = np.diag(np.linalg.inv(curvature))
    return strength, variance
