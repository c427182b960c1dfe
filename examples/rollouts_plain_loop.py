"""Keep every tenth batch of a training loop of one's own, then read parts of what was kept: any dict of tensors will
do."""

import argparse
import tempfile

import torch

from slipstream import RolloutStorage

ENVS, STEPS = 64, 32


def collect(generator: torch.Generator) -> dict:
    """Stands for your own environment: a random walk that ends where it leaves the unit ball."""
    steps = 0.1 * torch.randn(ENVS, STEPS, 3, generator=generator)
    position = steps.cumsum(1)
    return {
        "observation": {"position": position},
        "action": steps,
        "reward": -position.norm(dim=-1),
        "done": position.norm(dim=-1) > 1,
        "task": "walk",
    }


def main() -> float:
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", default=None)
    folder = parser.parse_args().folder or tempfile.mkdtemp()
    generator = torch.Generator().manual_seed(0)
    with RolloutStorage(folder, compression_level=9) as storage:
        for i in range(100):
            batch = collect(generator)
            # ... learn from it ...
            if i % 10 == 0:
                storage.save(batch, iteration=i)  # returns once it is copied; the file appears whole or not at all
    # Later, or in another process:
    storage = RolloutStorage(folder)
    print(f"batches: {storage.iterations()}")
    part = storage.load_slice(50, envs=[3, 7], steps=slice(0, 8), keys=["observation", "reward"])
    print("two environments, eight steps:", tuple(part["observation"]["position"].shape))
    best = max(float(batch["reward"].mean()) for _, batch in storage)
    print(f"best mean reward {best:.3f}; look closer: slipstream rollouts info {folder}")
    return best


if __name__ == "__main__":
    main()
