"""Opponents that learn: trained agents, a pool of past selves, ratings, and the curriculum that leads to self-play."""

from slipstream.league.curriculum import LeagueConfig
from slipstream.league.learned import LearnedAgent
from slipstream.league.ratings import Rating, rate

__all__ = ["LeagueConfig", "LearnedAgent", "Rating", "rate"]
