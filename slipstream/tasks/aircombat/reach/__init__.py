"""Missile reach: ranges, reachable sets, predicted paths."""
