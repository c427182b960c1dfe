"""Opponents that learn: trained agents, a pool of past policies, ratings, and the curriculum that leads to
self-play."""

from slipstream.tasks.aircombat.league.curriculum import LeagueConfig
from slipstream.tasks.aircombat.league.policies import LearnedAgent
from slipstream.tasks.aircombat.league.ratings import Rating, rate

__all__ = ["LeagueConfig", "LearnedAgent", "Rating", "rate"]
