"""Stable-Baselines3 on images with our compressed replay buffer: the same learning, a fraction of the memory.

python examples/sb3_images.py --steps 20000
"""

import argparse

import gymnasium
import numpy as np
from stable_baselines3 import DQN

from slipstream.replay.adapters.sb3 import SlipstreamReplayBuffer


class Catch(gymnasium.Env):
    """A ball falls; a paddle at the bottom must catch it. The observation is the picture, 84 x 84 gray."""

    observation_space = gymnasium.spaces.Box(0, 255, (84, 84, 1), np.uint8)
    action_space = gymnasium.spaces.Discrete(3)  # left, stay, right

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.row, self.ball, self.paddle = 0, int(self.np_random.integers(12)), 6
        return self._picture(), {}

    def step(self, action):
        self.row += 1
        self.paddle = int(np.clip(self.paddle + action - 1, 0, 11))
        over = self.row == 11
        reward = float(over) * (1.0 if self.paddle == self.ball else -1.0)
        return self._picture(), reward, over, False, {}

    def _picture(self):
        frame = np.full((84, 84, 1), 30, np.uint8)
        frame[7 * self.row : 7 * self.row + 7, 7 * self.ball : 7 * self.ball + 7] = 255
        frame[77:, 7 * self.paddle : 7 * self.paddle + 7] = 180
        return frame


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=20_000)
    steps = parser.parse_args().steps
    model = DQN("CnnPolicy", Catch(), buffer_size=100_000, learning_starts=500, train_freq=4, exploration_fraction=0.3,
                target_update_interval=500, replay_buffer_class=SlipstreamReplayBuffer, seed=0, device="cpu")  # fmt: skip
    model.learn(steps)
    own = 2 * steps * 84 * 84 / 1e6  # SB3 stores each picture twice: as observation and as next observation
    print(f"{model.replay_buffer}; SB3's own buffer: {own:.1f} MB")
    env, caught = Catch(), 0
    for seed in range(50):
        picture, over = env.reset(seed=seed)[0], False
        while not over:
            picture, reward, over, _, _ = env.step(int(model.predict(picture, deterministic=True)[0]))
        caught += reward > 0
    print(f"caught {caught} of 50 balls")


if __name__ == "__main__":
    main()
