"""Samplers and what they are made of."""
