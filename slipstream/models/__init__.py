"""Policies: encoders, action heads, value normalization, NavRL's weights."""

from slipstream.models.memory import Memory, Stepper, build_memory
from slipstream.models.policy import ActorCritic, ModelConfig, action_head, build_encoder, build_policy

__all__ = [
    "ActorCritic",
    "Memory",
    "ModelConfig",
    "Stepper",
    "action_head",
    "build_encoder",
    "build_memory",
    "build_policy",
]
