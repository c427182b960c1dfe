"""CompressedLidarTransform: one observation of a TensorDict compressed on its way, and the layer of a policy that opens it."""

from __future__ import annotations

from typing import Any

import torch
from tensordict import TensorDictBase
from tensordict.tensorclass import NonTensorData
from torch import Tensor, nn

from slipstream.collectors.frames import CompressedFrames


class CompressedLidarTransform:
    """Called with a TensorDict, it puts `CompressedFrames` in the place of `("observation", "lidar")`, as `"lidar_compressed"` there.

    Frames [*batch, ...] are taken one by one, so that any of them can be opened alone. `inverse` puts the lidar back, bit for bit;
    `CompressedLidarInput` does so inside of a policy. For links and queues that are slower than compressing: on one machine they are not.
    """

    def __init__(self, compression_level: int = 1, key: tuple[str, ...] | str = ("observation", "lidar")) -> None:
        if not 0 <= compression_level <= 16:
            raise ValueError(f"compression_level must lie in 0 … 16, not {compression_level}")
        self.compression_level = compression_level
        self.key = (key,) if isinstance(key, str) else tuple(key)
        self.compressed_key = (*self.key[:-1], f"{self.key[-1]}_compressed")
        self._codec = "auto"  # as found for the first frames

    def __call__(self, tensordict: TensorDictBase) -> TensorDictBase:
        """`tensordict` itself, changed."""
        frames = tensordict.get(self.key, None)
        if not isinstance(frames, Tensor):
            raise KeyError(f"there is no tensor {self.key!r} to compress: give the key of one, key=(...)")
        flat = frames.flatten(0, tensordict.batch_dims - 1) if tensordict.batch_dims else frames.unsqueeze(0)
        compressed = CompressedFrames.of(flat, self.compression_level, self._codec)
        self._codec = compressed.codec
        tensordict.set(self.compressed_key, NonTensorData(compressed, batch_size=tensordict.batch_size))
        tensordict.pop(self.key)
        return tensordict

    def inverse(self, tensordict: TensorDictBase) -> TensorDictBase:
        """`tensordict` itself, as it was."""
        frames = _frames(tensordict.pop(self.compressed_key)).rows()
        return tensordict.set(
            self.key, frames.unflatten(0, tensordict.batch_size) if tensordict.batch_dims else frames[0]
        )


class CompressedLidarInput(nn.Module):
    """The first layer of a policy: compressed frames in, a tensor [n, ...] on the policy's device out. Tensors pass as they are.

    `nn.Sequential(CompressedLidarInput(), cnn)` reads either.
    """

    device_of: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("device_of", torch.empty(0), persistent=False)  # moves with the policy

    def forward(self, lidar: Any) -> Tensor:
        """Frames as a tensor."""
        if isinstance(lidar, Tensor):
            return lidar.to(self.device_of.device)
        if isinstance(lidar, bytes):
            return CompressedFrames.from_bytes(lidar, self.device_of.device).rows()
        return _frames(lidar).to(self.device_of.device).rows()


def _frames(held: Any) -> CompressedFrames:
    found = held.data if isinstance(held, NonTensorData) else held
    if not isinstance(found, CompressedFrames):
        raise TypeError(
            f"these are no compressed frames but {type(found).__name__}: apply CompressedLidarTransform first"
        )
    return found
