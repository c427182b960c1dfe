"""Encoders: a dict of observations in, one feature vector out."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from slipstream.envs.specs import Discrete, Spec

Specs = Mapping[str, Spec]  # of one environment's observations, by name

NAVRL_KEYS = ("lidar", "dynamic_obstacle", "state")  # in the order in which the released weights expect their features
NAVRL_ENVS = ({"lidar", "dynamic_obstacle", "state"}, {"lidar", "state", "direction"})  # the second has no detector


ACTIVATIONS: dict[str, type[nn.Module]] = {
    "leaky_relu": nn.LeakyReLU,
    "relu": nn.ReLU,
    "elu": nn.ELU,
    "silu": nn.SiLU,
    "gelu": nn.GELU,
    "mish": nn.Mish,
    "tanh": nn.Tanh,
}  # names of `model.activation`


def mlp(
    inputs: int,
    widths: Sequence[int],
    layer_norm: bool = True,
    activation: str = "leaky_relu",
    linear: Callable[[int, int], nn.Module] = nn.Linear,
    norm: Callable[[int], nn.Module] = nn.LayerNorm,
) -> nn.Sequential:
    """Build [linear, activation, norm] per width, the norm only if `layer_norm`."""
    layers: list[nn.Module] = []
    for width in widths:
        layers += [linear(inputs, width), ACTIVATIONS[activation](), *([norm(width)] if layer_norm else [])]
        inputs = width
    return nn.Sequential(*layers)


class Encoder(nn.Module):
    """Compute features [N, width] from observations."""

    keys: tuple[str, ...]  # the observations it reads
    width: int


class NavRLEncoder(Encoder):
    """NavRL's network up to its heads: a small CNN for the LiDAR image, an MLP for moving obstacles if the env reports
    them, a trunk for all."""

    def __init__(
        self, observation_spec: Specs, trunk: Sequence[int] = (256, 256), activation: str = "leaky_relu"
    ) -> None:
        super().__init__()
        image = observation_spec["lidar"].shape[1:]
        first = DenseConv2d(image, 1, 4, (5, 3), padding=(2, 1))
        second = DenseConv2d(first.output[1:], 4, 16, (5, 3), stride=(2, 1), padding=(2, 1))
        third = DenseConv2d(second.output[1:], 16, 16, (5, 3), stride=(2, 2), padding=(2, 1))
        flat = math.prod(third.output)
        self.lidar = nn.Sequential(
            first, nn.ELU(), second, nn.ELU(), third, nn.ELU(), nn.Flatten(), nn.Linear(flat, 128), nn.LayerNorm(128)
        )
        self.keys = tuple(key for key in NAVRL_KEYS if key in observation_spec)
        joined = 128 + observation_spec["state"].shape[0]
        if "dynamic_obstacle" in self.keys:
            moving = observation_spec["dynamic_obstacle"].shape
            self.moving = mlp(moving[-2] * moving[-1], (128, 64), activation=activation)
            joined += 64
        self.trunk = mlp(joined, trunk, activation=activation)
        self.width = trunk[-1] if trunk else joined

    def forward(self, observation: dict[str, Tensor]) -> Tensor:
        """Return features [N, width]."""
        parts = [self.lidar(observation["lidar"])]
        if "dynamic_obstacle" in self.keys:
            parts.append(self.moving(observation["dynamic_obstacle"].flatten(1)))
        return self.trunk(torch.cat((*parts, observation["state"]), -1))


class DictEncoder(Encoder):
    """Encode any observations: images with a CNN, the rest with an MLP, then a trunk.

    An image is [C, H, W], [H, W, C] with up to 4 channels, or uint8 [H, W], with sides of at least 8. Uint8 values are
    divided by the high end of their spec, or by 255.

    Args:
        observation_spec: the env's observations.
        trunk: widths of the trunk's layers.
        part: width of each observation's features; 0 passes them to the trunk directly, images as the CNN's output.
        keys: the observations to use; None for all.
        layer_norm: normalize after each layer.
        activation: of the layers that are not convolutions; a name of `ACTIVATIONS`.
    """

    def __init__(
        self,
        observation_spec: Specs,
        trunk: Sequence[int] = (256, 256),
        part: int = 64,
        keys: Sequence[str] | None = None,
        layer_norm: bool = True,
        activation: str = "leaky_relu",
    ) -> None:
        super().__init__()
        self.keys = tuple(keys or sorted(observation_spec))
        missing = [key for key in self.keys if key not in observation_spec]
        if missing:
            there = ",".join(key for key in self.keys if key in observation_spec) or ",".join(sorted(observation_spec))
            raise ValueError(
                f"the env has no observation {missing}, but {sorted(observation_spec)}: set 'model.keys=[{there}]'"
            )
        self.specs = {key: observation_spec[key] for key in self.keys}
        parts = {key: self._part(observation_spec[key], part, layer_norm, activation) for key in self.keys}
        self.parts = nn.ModuleDict({_module_name(key): module for key, (module, _) in parts.items()})
        joined = sum(width for _, width in parts.values())
        self.trunk = mlp(joined, trunk, layer_norm, activation)
        self.width = trunk[-1] if trunk else joined

    @staticmethod
    def _part(spec: Spec, width: int, layer_norm: bool, activation: str) -> tuple[nn.Module, int]:
        """Return the layers of one observation and the width of their output."""
        shape = spec.shape
        if isinstance(spec, Discrete):
            flat = spec.n * math.prod(shape)
            return (nn.Linear(flat, width), width) if width else (nn.Identity(), flat)
        image = _image_shape(spec)
        if image is not None:
            convolutions: list[nn.Module] = []
            for inputs, outputs, size in ((image[0], 16, 5), (16, 32, 3), (32, 32, 3)):
                convolutions += [nn.Conv2d(inputs, outputs, size, stride=2, padding=size // 2), nn.ELU()]
            cnn = nn.Sequential(*convolutions, nn.Flatten())
            flat = cnn(torch.zeros(1, *image)).shape[1]
            return (nn.Sequential(cnn, nn.Linear(flat, width), nn.LayerNorm(width)), width) if width else (cnn, flat)
        flat = max(1, math.prod(shape))
        if not width:
            return nn.Flatten(), flat
        return nn.Sequential(nn.Flatten(), *mlp(flat, (width,), layer_norm, activation)), width

    def forward(self, observation: dict[str, Tensor]) -> Tensor:
        """Return features [N, width]."""
        parts = [self.parts[_module_name(key)](self._numbers(key, observation[key])) for key in self.keys]
        return self.trunk(torch.cat(parts, -1))

    def _numbers(self, key: str, value: Tensor) -> Tensor:
        spec = self.specs[key]
        if isinstance(spec, Discrete):
            return F.one_hot(value.long(), spec.n).flatten(1).float()
        value, image = value.float(), _image_shape(spec)
        if spec.dtype == torch.uint8:  # bytes become 0 … 1
            high = getattr(spec, "high", math.inf)
            value = value / (high if 0 < high < math.inf else 255.0)
        if image is None:
            return value.unsqueeze(-1) if value.dim() == 1 else value
        return (value if value.shape[1:] == image or value.dim() == 3 else value.movedim(-1, 1)).reshape(-1, *image)


def _image_shape(spec: Spec) -> tuple[int, int, int] | None:
    """Return [C, H, W] of an image, None for other observations."""
    shape = spec.shape
    if len(shape) == 2 and spec.dtype == torch.uint8:
        shape = (1, *shape)
    if len(shape) == 3 and shape[2] <= 4:
        shape = (shape[2], *shape[:2])
    return shape if len(shape) == 3 and min(shape[1:]) >= 8 else None


def _module_name(key: str) -> str:
    """Return a module name for an observation: without dots, and none of torch's own (`type`, `values`, ...)."""
    return "obs_" + key.replace(".", "/")


# -- convolutions of small images as dense matrix products, for GPUs ---------------------------------------------------


class _Spread(torch.autograd.Function):
    """Gather matrix elements [m] from weights [n]; backwards a segmented sum instead of a scatter with atomic adds."""

    @staticmethod
    def forward(ctx, weight: Tensor, index: Tensor, table: Tensor) -> Tensor:  # type: ignore[override]
        ctx.save_for_backward(table)
        return torch.cat((weight, weight.new_zeros(1))).index_select(0, index)

    @staticmethod
    def backward(ctx, grad: Tensor) -> tuple[Tensor, None, None]:  # type: ignore[override]
        (table,) = ctx.saved_tensors
        padded = torch.cat((grad, grad.new_zeros(1)))
        return padded.index_select(0, table.flatten()).view(table.shape).sum(1), None, None


class DenseConv2d(nn.Conv2d):
    """`nn.Conv2d` for images of a fixed size, computed as one matrix product on CUDA. Weights and results are the
    convolution's.

    cuDNN's kernels for 1 to 16 channels take most of an update. The matrix product costs seven times the arithmetic and
    a fraction of the time, because tensor cores do it.
    """

    _index: Tensor
    _table: Tensor

    def __init__(self, image: tuple[int, ...], *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.image = image  # height, width
        n = self.weight.numel()
        # The convolution itself shows which weight is where: its weights are their own numbers, its inputs single
        # pixels.
        pixels = self.in_channels * image[0] * image[1]
        with torch.no_grad(), torch.device("cpu"):
            numbers = torch.arange(1, n + 1, dtype=torch.float64).view_as(self.weight)
            eye = torch.eye(pixels, dtype=torch.float64).view(pixels, self.in_channels, *image)
            out = F.conv2d(eye, numbers, None, self.stride, self.padding, self.dilation, self.groups)  # type: ignore[arg-type]
        self.output = tuple(out.shape[1:])
        which = out.flatten(1).T.round().long().numpy() - 1  # [outputs, pixels]; -1 for none
        counts = np.bincount(which.ravel() + 1, minlength=n + 1)
        # positions of each weight in the matrix
        places = np.split(np.argsort(which.ravel(), kind="stable"), np.cumsum(counts)[:-1])[1:]
        table = np.full((n, counts[1:].max()), which.size, np.int64)
        for k, found in enumerate(places):
            table[k, : len(found)] = found
        self.register_buffer("_index", torch.from_numpy(np.where(which < 0, n, which).ravel()), persistent=False)
        self.register_buffer("_table", torch.from_numpy(table), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """Convolve [N, C, H, W] to [N, C', H', W']."""
        return self.dense(x) if x.is_cuda else super().forward(x)

    def dense(self, x: Tensor) -> Tensor:
        """Convolve by a matrix product."""
        return F.linear(x.flatten(1), self.matrix(), self.spread_bias()).unflatten(1, self.output)

    def matrix(self) -> Tensor:
        """Return the product's weights [outputs, inputs]."""
        pixels = self.in_channels * self.image[0] * self.image[1]
        return _Spread.apply(self.weight.flatten(), self._index, self._table).view(-1, pixels)

    def spread_bias(self) -> Tensor:
        """Return the product's bias [outputs]."""
        bias = self.weight.new_zeros(self.out_channels) if self.bias is None else self.bias
        return bias[:, None].expand(-1, self.output[1] * self.output[2]).flatten()
