"""Drone navigation among standing and moving obstacles."""
