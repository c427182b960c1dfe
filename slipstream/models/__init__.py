"""Policies: encoders, action heads, value normalisation, NavRL's weights."""

from slipstream.models.policy import ActorCritic, ModelConfig, build_policy

__all__ = ["ActorCritic", "ModelConfig", "build_policy"]
