"""Figures of flights."""
