"""Fighters, missiles and the duel engine."""
