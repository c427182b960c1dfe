"""Opponents that learn: trained agents, a pool of past policies, ratings, and the curriculum that leads to
self-play."""
