"""The monitor in a TorchRL loop: collecting, learning and saving timed, and written where TensorBoard finds it.

pip install torchrl gymnasium
python examples/monitor_torchrl.py [--batches 20] [--folder runs/torchrl]
"""

import argparse

import torch
from tensordict.nn import TensorDictModule
from torch.utils.tensorboard import SummaryWriter
from torchrl.collectors import Collector  # SyncDataCollector in older versions
from torchrl.envs import GymEnv

from slipstream.checkpoint import AsyncCheckpointSaver
from slipstream.monitor import PerformanceMonitor

parser = argparse.ArgumentParser()
parser.add_argument("--batches", type=int, default=20)
parser.add_argument("--folder", default="runs/torchrl")
args = parser.parse_args()

FRAMES = 256
net = torch.nn.Sequential(torch.nn.LazyLinear(64), torch.nn.Tanh(), torch.nn.LazyLinear(1), torch.nn.Tanh())
policy = TensorDictModule(net, in_keys=["observation"], out_keys=["action"])
env = GymEnv("Pendulum-v1")
policy(env.reset())  # makes the lazy layers
optimizer = torch.optim.Adam(net.parameters())
collector = Collector(env, policy, frames_per_batch=FRAMES, total_frames=FRAMES * args.batches)
monitor = PerformanceMonitor()
monitor.watch_memory()
with AsyncCheckpointSaver() as saver, SummaryWriter(args.folder) as writer:
    monitor.gauge("queue/checkpoint", lambda: saver.get_stats()["queue_size"])
    batches = iter(collector)
    for it in range(args.batches):
        with monitor.timer("collect"):  # in the learner's own thread: all of it is exposed
            data = next(batches)
        with monitor.timer("learn"):
            loss = (
                (policy(data.clone())["action"] + data["observation"][..., 1:2]).square().mean()
            )  # any update of yours
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if it % 10 == 0:
            with monitor.timer("checkpoint_save"):
                saver.save_async(policy.state_dict(), f"{args.folder}/ckpt_{it}.pt")
        monitor.tick(frames=FRAMES)
        for name, value in monitor.metrics().items():
            writer.add_scalar(f"perf/{name}", value, it)
print(monitor.get_summary())
collector.shutdown()
