"""Figures of duels and leagues."""
