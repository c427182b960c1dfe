"""The observations of benchmarks/replay.py: game-like frames, lidar, occupancy grids; the same in every run.

Each function returns [episodes, steps, *shape].
"""

from __future__ import annotations

import numpy as np

SIDE = 224  # cells of a gridmap
_SIGHT = 28  # cells that a robot sees around itself


def game_frames(episodes: int, steps: int = 200, seed: int = 1) -> np.ndarray:
    """uint8 84 x 84: a tiled background that scrolls in every second episode, six sprites, a score in digits; eight
    gray levels."""
    rng = np.random.default_rng(seed)
    out = np.empty((episodes, steps, 84, 84), np.uint8)
    gray = np.array([0, 40, 72, 104, 136, 168, 200, 236], np.uint8)
    for e in range(episodes):
        tiles = np.repeat(np.repeat(gray[rng.integers(0, 8, (6, 6, 6))], 2, 1), 2, 2)
        background = tiles[rng.integers(0, 6, (7, 20))].transpose(0, 2, 1, 3).reshape(84, 240)
        sprites = [gray[rng.integers(0, 8, (8, 8))] for _ in range(6)]
        pos, vel, score = rng.uniform(0, 76, (6, 2)), rng.normal(0, 1.5, (6, 2)), 0
        digits = gray[rng.integers(0, 8, (10, 7, 5))]
        for t in range(steps):
            left = (t // 2) % 150 if e % 2 else 0
            frame = background[:, left : left + 84].copy()
            pos += vel
            vel[(pos < 0) | (pos > 76)] *= -1
            pos = np.clip(pos, 0, 76)
            for sprite, (y, x) in zip(sprites, pos.astype(int), strict=True):
                frame[y : y + 8, x : x + 8] = sprite
            score += int(rng.random() < 0.1) * rng.integers(1, 50)
            for k, digit in enumerate(f"{score:05d}"[-5:]):
                frame[1:8, 2 + 6 * k : 7 + 6 * k] = digits[int(digit)]
            out[e, t] = frame
    return out


def lidar_scans(runs: int, drones: int = 1024, steps: int = 32, seed: int = 2) -> np.ndarray:
    """float32 [1, 36, 4]: range 4 m minus distance, noise of 1 mm on hits, 0 where nothing is seen."""
    rng = np.random.default_rng(seed)
    azimuth = np.arange(36) * 2 * np.pi / 36
    elevation = np.deg2rad(np.array([-10.0, 0, 10, 20]))
    beams = np.stack([np.cos(azimuth), np.sin(azimuth)], -1)
    out = np.empty((runs * drones, steps, 1, 36, 4), np.float32)
    center, radius = rng.uniform(-12, 12, (drones, 60, 2)), rng.uniform(0.3, 0.6, (drones, 60))
    pos, heading = rng.uniform(-8, 8, (drones, 2)), rng.uniform(0, 6.28, drones)
    for k in range(runs * steps):
        heading += rng.normal(0, 0.08, drones)
        pos = pos + 0.03 * np.stack([np.cos(heading), np.sin(heading)], -1) * rng.uniform(0.8, 1.2, (drones, 1))
        pos = (pos + 10) % 20 - 10
        to = center - pos[:, None]
        along = np.einsum("nmk,ak->nam", to, beams)
        inside = along**2 - ((to**2).sum(-1) - radius**2)[:, None]
        flat = np.where((inside > 0) & (along > 0), along - np.sqrt(np.maximum(inside, 0)), 1e9).min(-1).clip(0.05)
        distance = flat[:, :, None] / np.cos(elevation)
        distance = np.where(distance < 4, np.clip(distance + rng.normal(0, 1e-3, distance.shape), 0, 4), 4.0)
        out[(k // steps) * drones : (k // steps + 1) * drones, k % steps, 0] = (4.0 - distance).astype(np.float32)
    return out


def gridmaps(episodes: int, steps: int = 128, continuous: bool = False, seed: int = 0) -> np.ndarray:
    """float32 224 x 224: a robot explores rooms. Discrete: five beliefs and the robot; continuous: probabilities from
    noisy log odds."""
    rng = np.random.default_rng(seed)
    out = np.empty((episodes, steps, SIDE, SIDE), np.float32)
    belief_value = np.array([0, 0.25, 0.5, 0.75, 1.0, 2.0], np.float32)
    yy, xx = np.mgrid[0:SIDE, 0:SIDE]
    for e in range(episodes):
        wall = np.zeros((SIDE, SIDE), bool)
        wall[:3] = wall[-3:] = True
        wall[:, :3] = wall[:, -3:] = True
        for _ in range(28):
            h, w = rng.integers(4, 40, 2)
            y, x = rng.integers(0, SIDE - h), rng.integers(0, SIDE - w)
            wall[y : y + h, x : x + w] = True
        belief, odds = np.full((SIDE, SIDE), 2, np.int8), np.zeros((SIDE, SIDE), np.float32)
        pos, heading = rng.uniform(40, SIDE - 40, 2), rng.uniform(0, 6.28)
        for t in range(steps):
            heading += rng.normal(0, 0.25)
            pos = np.clip(pos + 2 * np.array([np.sin(heading), np.cos(heading)]), 6, SIDE - 7)
            if pos.min() <= 6 or pos.max() >= SIDE - 7:
                heading += 2.0
            rows, columns = (slice(max(0, int(p) - _SIGHT), min(SIDE, int(p) + _SIGHT)) for p in pos)
            seen = (yy[rows, columns] - pos[0]) ** 2 + (xx[rows, columns] - pos[1]) ** 2 < _SIGHT**2
            if continuous:
                step = np.where(wall[rows, columns], 0.8, -0.4) + rng.normal(0, 0.2, seen.shape)
                part = odds[rows, columns]
                part[seen] = np.clip(part[seen] + step[seen], -3.5, 3.5)
                out[e, t] = 1 / (1 + np.exp(-odds))
            else:
                hit = wall[rows, columns] ^ (rng.random(seen.shape) < 0.02)
                known = belief[rows, columns]
                known[seen] = np.clip(known[seen] + np.where(hit[seen], 1, -1), 0, 4)
                frame = belief_value[belief]
                frame[int(pos[0]) - 1 : int(pos[0]) + 2, int(pos[1]) - 1 : int(pos[1]) + 2] = 2.0
                out[e, t] = frame
    return out


def recorded_lidar(checkpoint: str | None, drones: int = 256, steps: int = 500, seed: int = 201) -> np.ndarray:
    """float32 [1, 36, 4] that a policy saw in NavigationEnv: a checkpoint's, else the policy that ships with the
    package."""
    import torch

    from slipstream.algorithms.policy_file import load_policy
    from slipstream.models.exploration import ExplorationType, set_exploration_type
    from slipstream.tasks.navigation.env import NavigationEnv

    env = NavigationEnv(drones, "cpu", seed)
    policy = load_policy(checkpoint or "navigation").build(env, "cpu")
    out = np.empty((drones, steps, *env.observation_spec["lidar"].shape), np.float32)
    observation = env.reset()
    with torch.no_grad(), set_exploration_type(ExplorationType.MEAN):
        for t in range(steps):
            out[:, t] = observation["lidar"].numpy()
            answer = policy(observation)
            observation = env.step(answer if isinstance(answer, torch.Tensor) else answer["action"]).observation
    return out
