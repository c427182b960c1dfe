"""The monitor in a plain PyTorch loop that loads its batches in a thread: what does the learner wait for?

python examples/monitor_plain_loop.py [--steps 300]
"""

import argparse
import queue
import threading

import torch

from slipstream.monitor import PerformanceMonitor

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=300)
args = parser.parse_args()

torch.manual_seed(0)
device = "cuda" if torch.cuda.is_available() else "cpu"
model = torch.nn.Sequential(torch.nn.Linear(8, 256), torch.nn.ELU(), torch.nn.Linear(256, 8)).to(device)
optimizer = torch.optim.Adam(model.parameters())
monitor = PerformanceMonitor()
batches: queue.Queue[torch.Tensor] = queue.Queue(maxsize=2)


def loader() -> None:
    for _ in range(args.steps):
        with monitor.timer("load"):  # in a thread of its own: hidden, as long as the learner need not wait for it
            x = torch.randn(4096, 8).sin()
        batches.put(x)


monitor.watch_memory(device)  # resident and GPU memory, watched for leaks
monitor.gauge("queue/batches", batches.qsize)
threading.Thread(target=loader, daemon=True).start()
for _ in range(args.steps):
    with monitor.timer("wait for load"):  # the learner stands still here
        x = batches.get()
    with monitor.timer("learn", device):  # on a GPU the device's own time too, as "learn/device"; nothing waits for it
        x = x.to(device)
        loss = (model(x) - x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    monitor.tick(samples=len(x))
print(monitor.get_summary())
