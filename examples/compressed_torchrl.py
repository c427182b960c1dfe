"""One key of TorchRL's batches compressed on its way to another process, and opened by the first layer of a policy
there."""

import sys

import torch
from tensordict.nn import TensorDictModule
from torch import nn
from torchrl.collectors import Collector

from slipstream import CompressedLidarTransform, NavigationEnv
from slipstream.collectors import CompressedLidarInput
from slipstream.envs.adapters.torchrl_env import TorchRLEnv


def main(iterations: int = 4) -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(8, 3), nn.Tanh())
    act = TensorDictModule(net, in_keys=[("observation", "state")], out_keys=["action"])
    collector = Collector(
        TorchRLEnv(NavigationEnv(16)), act, frames_per_batch=16 * 32, total_frames=16 * 32 * iterations
    )
    transform = CompressedLidarTransform(compression_level=1)
    features = nn.Sequential(CompressedLidarInput(), nn.Flatten(), nn.Linear(36 * 4, 32))
    for batch in collector:
        packed = transform(batch.exclude("next"))
        frames = packed["observation", "lidar_compressed"]
        message = frames.to_bytes()  # what a queue or a socket would carry; checked when it is opened
        print(f"{frames.raw_nbytes:,} bytes of lidar as {len(message):,}; features {list(features(message).shape)}")
    collector.shutdown()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
