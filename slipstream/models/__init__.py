"""Policies: encoders, action heads, value normalisation, NavRL's weights."""

from slipstream.models.policy import ActorCritic, ModelConfig, action_head, build_encoder, build_policy

__all__ = ["ActorCritic", "ModelConfig", "action_head", "build_encoder", "build_policy"]
