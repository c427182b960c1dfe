"""Opponents that learn: trained agents, a pool of past policies, ratings, and the curriculum that leads to
self-play."""

from slipstream.tasks.aircombat.league.league import LeagueConfig
from slipstream.tasks.aircombat.league.matches import Rating, rate
from slipstream.tasks.aircombat.league.policies import LearnedAgent

__all__ = ["LeagueConfig", "LearnedAgent", "Rating", "rate"]
