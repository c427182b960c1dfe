"""Load NavRL's released weights into our network."""

from __future__ import annotations

from collections.abc import Mapping
from textwrap import shorten

import torch
from torch import Tensor

from slipstream.envs.specs import Box
from slipstream.models.policy import ActorCritic, ModelConfig, build_policy

OBSERVATION_SPEC = {"lidar": Box((1, 36, 4)), "dynamic_obstacle": Box((1, 5, 10)), "state": Box((8,))}
ACTION_SPEC = Box((3,), -2.0, 2.0)
PREFIXES = {
    "feature_extractor.module.0.module.": "encoder.lidar.",
    "feature_extractor.module.1.module.1.": "encoder.moving.",
    "feature_extractor.module.3.module.": "encoder.trunk.",
    "actor.module.0.module.alpha_layer.": "actor.alpha_layer.",
    "actor.module.0.module.beta_layer.": "actor.beta_layer.",
    "critic.module.": "critic.",
    "value_norm.": "value_norm.",
}


def is_navrl(state: Mapping[str, object]) -> bool:
    """Return whether a state dict has NavRL's names."""
    return any(str(key).startswith("feature_extractor.module.0.module.") for key in state)


def load_navrl(state: Mapping[str, Tensor]) -> ActorCritic:
    """Build our network with NavRL's weights.

    Raises:
        ValueError: if a weight is missing or has another shape.
    """
    policy = build_policy(OBSERVATION_SPEC, ACTION_SPEC, ModelConfig(encoder="navrl"))
    own = policy.state_dict()
    renamed: dict[str, Tensor] = {}
    for key, value in state.items():
        for theirs, ours in PREFIXES.items():
            if key.startswith(theirs):
                name = ours + key[len(theirs) :]
                if name in own:
                    renamed[name] = _shaped(key, torch.as_tensor(value).detach(), own[name].shape)
    missing = sorted(set(own) - set(renamed))
    if missing:
        raise ValueError(f"this file misses weights of NavRL's network: {shorten(', '.join(missing), 200)}")
    policy.load_state_dict(renamed)
    return policy


def _shaped(key: str, value: Tensor, shape: torch.Size) -> Tensor:
    """Reshape `value` to `shape`; only dimensions of size 1 may differ (NavRL stores its statistics as [1])."""
    if value.squeeze().shape != torch.empty(shape).squeeze().shape:
        raise ValueError(f"{key} has shape {list(value.shape)}, in NavRL's network it is {list(shape)}")
    return value.reshape(shape)
