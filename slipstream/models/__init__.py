"""Policies: encoders, action heads, value normalisation, NavRL's weights."""
