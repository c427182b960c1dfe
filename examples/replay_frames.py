"""Image episodes in a compressed replay buffer: add, sample n-step transitions by priority, save, load.

python examples/replay_frames.py --folder replay
"""

import argparse
import tempfile

import numpy as np
import torch

from slipstream import PrioritizedSampler, ReplayBuffer


def episode(rng: np.random.Generator, length: int) -> dict:
    """A bright square that moves over a fixed background; the next observation is the following row."""
    background = np.kron(rng.integers(0, 8, (12, 12)), np.ones((7, 7))).astype(np.uint8) * 20
    frames = np.repeat(background[None], length + 1, axis=0)
    for t, frame in enumerate(frames):
        x, y = 3 * t % 70, 5 * t % 70
        frame[x : x + 10, y : y + 10] = 255
    ended = np.arange(length) == length - 1
    reward = rng.normal(size=length).astype(np.float32)
    action = rng.integers(0, 4, length)
    return {"observation": {"frame": frames}, "action": action, "reward": reward, "terminated": ended}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", default=None)
    folder = parser.parse_args().folder or tempfile.mkdtemp()
    rng = np.random.default_rng(0)
    q = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(84 * 84, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4))
    optimizer = torch.optim.Adam(q.parameters(), 1e-4)

    with ReplayBuffer(20_000, sampler=PrioritizedSampler(alpha=0.6, beta=0.4), group={"frame": 8}) as buffer:
        for _ in range(20):
            buffer.add(episode(rng, int(rng.integers(50, 300))))
        for _ in range(10):
            batch = buffer.sample(64, n_step=3, gamma=0.99)
            now, after = (q(b["observation", "frame"].float() / 255) for b in (batch, batch["next"]))
            target = batch["reward"] + batch["discount"] * after.detach().amax(1)
            error = target - now.gather(1, batch["action"].unsqueeze(1)).squeeze(1)
            optimizer.zero_grad()
            (batch["weight"] * error.square()).mean().backward()
            optimizer.step()
            buffer.update_priority(batch["index"], error)
        buffer.save(folder)
        stats = buffer.stats()["columns"]["observation.frame"]
        print(f"{len(buffer)} steps; frames take {stats['nbytes'] / stats['raw_bytes']:.2f} of their raw size")

    with ReplayBuffer(20_000, sampler=PrioritizedSampler()).load(folder) as again:
        shape = tuple(again.sample_slices(4, 10)["observation", "frame"].shape)
        print(f"{len(again)} steps loaded; a slice of 10: {shape}")


if __name__ == "__main__":
    main()
