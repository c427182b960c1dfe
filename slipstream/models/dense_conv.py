"""Convolutions of small images as dense matrix products, for GPUs.

cuDNN's kernels for one to sixteen channels take most of an update. The same map as a matrix, gathered from the weights, costs seven
times the arithmetic and a fraction of the time, because tensor cores do it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn


class _Spread(torch.autograd.Function):
    """weights [n] -> matrix elements [m], by index; backwards a segmented sum instead of a scatter, which would be atomic adds."""

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
    """An `nn.Conv2d` for images of one fixed size; on CUDA it is one matrix product. Weights and results are the convolution's."""

    _index: Tensor
    _table: Tensor

    def __init__(self, image: tuple[int, ...], *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.image = image  # height, width
        n = self.weight.numel()
        # Ask the convolution itself which weight stands where: give it the weights' own numbers, and one pixel at a time.
        pixels = self.in_channels * image[0] * image[1]
        with torch.no_grad():
            names = torch.arange(1, n + 1, dtype=torch.float64).view_as(self.weight)
            eye = torch.eye(pixels, dtype=torch.float64).view(pixels, self.in_channels, *image)
            out = F.conv2d(eye, names, None, self.stride, self.padding, self.dilation, self.groups)  # type: ignore[arg-type]
        self.output = tuple(out.shape[1:])
        which = out.flatten(1).T.round().long().numpy() - 1  # [outputs, pixels]; -1 where there is none
        counts = np.bincount(which.ravel() + 1, minlength=n + 1)
        places = np.split(np.argsort(which.ravel(), kind="stable"), np.cumsum(counts)[:-1])[
            1:
        ]  # of each weight in the matrix
        table = np.full((n, counts[1:].max()), which.size, np.int64)
        for k, found in enumerate(places):
            table[k, : len(found)] = found
        self.register_buffer("_index", torch.from_numpy(np.where(which < 0, n, which).ravel()), persistent=False)
        self.register_buffer("_table", torch.from_numpy(table), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """[N, C, H, W] -> [N, C', H', W']."""
        return self.dense(x) if x.is_cuda else super().forward(x)

    def dense(self, x: Tensor) -> Tensor:
        """The convolution as a matrix product."""
        return F.linear(x.flatten(1), self.matrix(), self.spread_bias()).unflatten(1, self.output)

    def matrix(self) -> Tensor:
        """The weights [outputs, inputs] of the product."""
        return _Spread.apply(self.weight.flatten(), self._index, self._table).view(
            -1, self.in_channels * self.image[0] * self.image[1]
        )

    def spread_bias(self) -> Tensor:
        """The bias [outputs] of the product."""
        bias = self.weight.new_zeros(self.out_channels) if self.bias is None else self.bias
        return bias[:, None].expand(-1, self.output[1] * self.output[2]).flatten()
