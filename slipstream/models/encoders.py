"""Encoders: a dict of observations in, one feature vector out."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor, nn

from slipstream.envs.specs import Discrete, Spec
from slipstream.models.dense_conv import DenseConv2d

NAVRL_KEYS = ("lidar", "dynamic_obstacle", "state")  # in the order in which the released weights expect their features


def mlp(inputs: int, widths: list[int] | tuple[int, ...], layer_norm: bool = True) -> nn.Sequential:
    """[Linear, LeakyReLU, LayerNorm] for each width; without the last of the three on request."""
    layers: list[nn.Module] = []
    for width in widths:
        layers += [nn.Linear(inputs, width), nn.LeakyReLU(), *([nn.LayerNorm(width)] if layer_norm else [])]
        inputs = width
    return nn.Sequential(*layers)


class Encoder(nn.Module):
    """Observations in, features [N, width] out."""

    keys: tuple[str, ...]  # the observations it reads
    width: int


class NavRLEncoder(Encoder):
    """NavRL's network up to its heads: a small CNN over the LiDAR image, an MLP over moving obstacles, a trunk over all."""

    keys = NAVRL_KEYS

    def __init__(self, observation_spec: Mapping[str, Spec], trunk: list[int] | tuple[int, ...] = (256, 256)) -> None:
        super().__init__()
        image = observation_spec["lidar"].shape[1:]
        first = DenseConv2d(image, 1, 4, (5, 3), padding=(2, 1))
        second = DenseConv2d(first.output[1:], 4, 16, (5, 3), stride=(2, 1), padding=(2, 1))
        third = DenseConv2d(second.output[1:], 16, 16, (5, 3), stride=(2, 2), padding=(2, 1))
        flat = math.prod(third.output)
        self.lidar = nn.Sequential(
            first, nn.ELU(), second, nn.ELU(), third, nn.ELU(), nn.Flatten(), nn.Linear(flat, 128), nn.LayerNorm(128)
        )
        moving = observation_spec["dynamic_obstacle"].shape
        self.moving = mlp(moving[-2] * moving[-1], (128, 64))
        joined = 128 + 64 + observation_spec["state"].shape[0]
        self.trunk = mlp(joined, trunk)
        self.width = trunk[-1] if trunk else joined

    def forward(self, observation: dict[str, Tensor]) -> Tensor:
        """Features [N, width]."""
        parts = (
            self.lidar(observation["lidar"]),
            self.moving(observation["dynamic_obstacle"].flatten(1)),
            observation["state"],
        )
        return self.trunk(torch.cat(parts, -1))


class DictEncoder(Encoder):
    """For any observations: images ([C, H, W], sides of at least 8) through a CNN, the rest flat through an MLP, then a trunk.

    `part` is the width of each observation's features; with 0 they go into the trunk as they are, images as the CNN's output.
    """

    def __init__(
        self,
        observation_spec: Mapping[str, Spec],
        trunk: list[int] | tuple[int, ...] = (256, 256),
        part: int = 64,
        keys: list[str] | tuple[str, ...] | None = None,
        layer_norm: bool = True,
    ) -> None:
        super().__init__()
        self.keys = tuple(keys or sorted(observation_spec))
        missing = [key for key in self.keys if key not in observation_spec]
        if missing:
            raise ValueError(f"the env gives no observation {missing}: it has {sorted(observation_spec)}")
        self.classes = {key: spec.n for key, spec in observation_spec.items() if isinstance(spec, Discrete)}
        parts = {key: self._part(observation_spec[key], part, layer_norm) for key in self.keys}
        self.parts = nn.ModuleDict({_module_name(key): module for key, (module, _) in parts.items()})
        joined = sum(width for _, width in parts.values())
        self.trunk = mlp(joined, trunk, layer_norm)
        self.width = trunk[-1] if trunk else joined

    @staticmethod
    def _part(spec: Spec, width: int, layer_norm: bool) -> tuple[nn.Module, int]:
        """The layers of one observation, and the width of what they give."""
        shape = spec.shape
        if isinstance(spec, Discrete):
            flat = spec.n * math.prod(shape)
            return (nn.Linear(flat, width), width) if width else (nn.Identity(), flat)
        if len(shape) == 3 and min(shape[1:]) >= 8:
            cnn = nn.Sequential(
                nn.Conv2d(shape[0], 16, 5, stride=2, padding=2),
                nn.ELU(),
                nn.Conv2d(16, 32, 3, stride=2, padding=1),
                nn.ELU(),
                nn.Conv2d(32, 32, 3, stride=2, padding=1),
                nn.ELU(),
                nn.Flatten(),
            )
            flat = cnn(torch.zeros(1, *shape)).shape[1]
            return (nn.Sequential(cnn, nn.Linear(flat, width), nn.LayerNorm(width)), width) if width else (cnn, flat)
        flat = max(1, math.prod(shape))
        return (nn.Sequential(nn.Flatten(), *mlp(flat, (width,), layer_norm)), width) if width else (nn.Flatten(), flat)

    def forward(self, observation: dict[str, Tensor]) -> Tensor:
        """Features [N, width]."""
        return self.trunk(
            torch.cat([self.parts[_module_name(key)](self._numbers(key, observation[key])) for key in self.keys], -1)
        )

    def _numbers(self, key: str, value: Tensor) -> Tensor:
        if key in self.classes:
            return nn.functional.one_hot(value.long(), self.classes[key]).flatten(1).float()
        value = value.float()
        return value.unsqueeze(-1) if value.dim() == 1 else value


def _module_name(key: str) -> str:
    """A name that any observation may lend to a module: without a dot, and none of torch's own (`type`, `values`, ...)."""
    return "obs_" + key.replace(".", "/")
