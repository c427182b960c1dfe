"""The saver in a plain PyTorch loop that knows nothing of Slipstream. Stop it with Ctrl-C, start it again: it goes on.

python examples/checkpoint_plain_loop.py [--steps 500] [--folder runs/plain]
"""

import argparse
from pathlib import Path

import torch

from slipstream.checkpoint import AsyncCheckpointSaver, load_checkpoint

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=500)
parser.add_argument("--folder", type=Path, default=Path("runs/plain"))
args = parser.parse_args()

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(8, 256), torch.nn.ELU(), torch.nn.Linear(256, 8))
optimizer = torch.optim.Adam(model.parameters())
start = 0
if args.folder.exists():
    state = load_checkpoint(args.folder / "latest.pt")
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    torch.set_rng_state(state["rng"])
    start = state["step"] + 1

with AsyncCheckpointSaver(full_every=5, keep_last=3, links=True) as saver:
    saver.install_signal_handlers(lambda signum: print("finishing this step, then saving ..."))
    for step in range(start, args.steps):
        x = torch.randn(64, 8)
        loss = (model(x) - x.sin()).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 50 == 0 or step == args.steps - 1 or saver.stop_requested:
            state = {
                "model": model.state_dict(),
                "optimizer": optimizer.state_dict(),
                "rng": torch.get_rng_state(),
                "step": step,
            }
            saver.save_async(state, args.folder / f"checkpoint_{step}.pt", metrics={"loss": loss.item()}, step=step)
        if saver.stop_requested:
            break
stats = saver.get_stats()
print(
    f"saved {stats['total_saved']} ({stats['differences']} differences), blocked {stats['blocking_ms_median']:.2f} ms each"
)
