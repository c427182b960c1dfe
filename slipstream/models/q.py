"""Critics of continuous actions: what an action is worth, judged by several networks at once."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from slipstream.envs.specs import Observation, Spec
from slipstream.models.ensemble import EnsembleMLP
from slipstream.models.policy import ModelConfig, build_encoder


class Critics(nn.Module):
    """`count` values of an observation and an action. Layers before the trunk (`model.part`, images) are one for all of them."""

    def __init__(
        self, observation_spec: Mapping[str, Spec], dims: int, config: ModelConfig | None = None, count: int = 2
    ) -> None:
        super().__init__()
        config = config or ModelConfig()
        self.encoder = build_encoder(observation_spec, config, trunk=[])
        self.trunks = EnsembleMLP(count, self.encoder.width + dims, config.trunk, config.layer_norm)

    def forward(self, observation: Observation, unit: Tensor, count: int | None = None) -> Tensor:
        """Values [count, N] of actions [N, dims] in units of the box, by the first `count` critics (all by default)."""
        return self.trunks(torch.cat((self.encoder(observation), unit), -1), count)
