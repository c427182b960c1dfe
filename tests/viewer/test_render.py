"""render_mode of Gymnasium."""

from __future__ import annotations

import numpy as np
import pytest

gymnasium = pytest.importorskip("gymnasium")

import slipstream.envs.adapters  # noqa: E402, F401

SMALL = {"slipstream/Navigation-v0": {"num_obstacles": 10, "dyn": {"num_obstacles": 8}}, "slipstream/AirCombat-v0": {}}


@pytest.mark.parametrize("name", SMALL)
def test_rgb_array_is_a_picture_that_changes(name):
    env = gymnasium.make(name, render_mode="rgb_array", **SMALL[name])
    env.reset(seed=0)
    first = env.render()
    for _ in range(60):
        env.step(env.action_space.sample())
    then = env.render()
    assert first.dtype == np.uint8 and first.ndim == 3 and first.shape[2] == 3 and min(first.shape[:2]) > 400
    assert first.std() > 5 and (first != then).any()
    env.close()


def test_another_mode_is_refused():
    with pytest.raises(ValueError, match="render_mode='human' must be 'rgb_array'; slipstream view"):
        gymnasium.make("slipstream/AirCombat-v0", render_mode="human")
