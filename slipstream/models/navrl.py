"""NavRL's released weights, as they are named there, into our network."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from slipstream.specs import Box
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
    """Whether a loaded file holds weights under NavRL's names."""
    return any(str(key).startswith("feature_extractor.module.0.module.") for key in state)


def load_navrl(state: Mapping[str, Tensor]) -> ActorCritic:
    """Our network with NavRL's weights; an error names what is missing or of another shape."""
    policy = build_policy(OBSERVATION_SPEC, ACTION_SPEC, ModelConfig(encoder="navrl"))
    own = policy.state_dict()
    renamed: dict[str, Tensor] = {}
    for key, value in state.items():
        for theirs, ours in PREFIXES.items():
            if key.startswith(theirs):
                name = ours + key[len(theirs) :]
                if name in own:
                    renamed[name] = torch.as_tensor(value).detach().reshape(own[name].shape)
    missing = sorted(set(own) - set(renamed))
    if missing:
        raise ValueError(f"this file lacks weights of NavRL's network: {', '.join(missing[:5])}{' ...' if len(missing) > 5 else ''}")
    policy.load_state_dict(renamed)
    return policy
