"""Compile the native kernels once, so that the tests find them in numba's cache: `python tests/helpers/kernels.py`.

Without it, each worker and each process of a test that comes first compiles them: 35 s in every one of them.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

os.environ.setdefault("GOMP_SPINCOUNT", "1000")  # read when torch is loaded
sys.path.append(str(Path(__file__).parents[2] / "tools"))

import torch  # noqa: E402
from reach_table import HOLD, time_of_hit  # noqa: E402

from slipstream import NavigationEnv, ReplayBuffer, RolloutStorage  # noqa: E402
from slipstream.tasks.aircombat.env import AirCombatEnv  # noqa: E402
from slipstream.tasks.aircombat.reach.flights_native import chases, paths  # noqa: E402
from slipstream.tasks.navigation.env import NavigationConfig  # noqa: E402


def main() -> None:
    """Use what is native."""
    for env in (NavigationEnv(2), NavigationEnv(2, config=NavigationConfig(lidar_sees_moving=True)), AirCombatEnv(2)):
        env.reset()
        env.step(torch.zeros(2, 3))
    place, speed, away = torch.zeros(1, 2), torch.tensor([[300.0, 0.0]]), torch.tensor([[5000.0, 0.0]])
    time_of_hit(place, speed, away, -speed, torch.zeros(1), torch.tensor([HOLD]))
    chases(place, speed, torch.zeros(1), away, -speed, torch.zeros(1), 30, 30)
    paths(place, speed, torch.zeros(1), torch.zeros(1), 30, 30)
    frames = torch.arange(4 * 65 * 84 * 84).reshape(4, 65, 84, 84).to(torch.uint8)
    ends = torch.zeros(4, 64, dtype=torch.bool)
    ends[:, 20] = True
    numbers = {"reward": torch.rand(4, 64), "terminated": ends, "truncated": ends & False, "done": ends}
    batch = {"observation": frames[:, :-1], "next": {"observation": frames[:, 1:]}, **numbers}
    for sampler in ("uniform", "prioritized"):
        buffer = ReplayBuffer(1000, sampler=sampler)
        buffer.extend(batch)
        buffer.sample(8, n_step=3)
        buffer.sample_slices(2, 4, burn_in=1)
        buffer.sample_episodes(1)
    with tempfile.TemporaryDirectory() as folder, RolloutStorage(folder) as storage:
        storage.save(batch, 0)
        storage.load(0)


if __name__ == "__main__":
    main()
