"""The PettingZoo adapter: agents that fly in one world and leave it one by one."""

import warnings

import numpy as np
import pytest
import torch

pytest.importorskip("pettingzoo")
from adapter_tasks import TASKS  # noqa: E402
from counting import Counting  # noqa: E402
from pettingzoo.test import parallel_api_test, parallel_seed_test  # noqa: E402

from slipstream.envs.adapters import PettingZooEnv  # noqa: E402
from slipstream.envs.base import BadActionError  # noqa: E402

ZERO = np.zeros(2, np.float32)


@pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)
def test_pettingzoos_own_checks_pass(task):
    with warnings.catch_warnings():
        warnings.filterwarnings("error")
        parallel_api_test(PettingZooEnv(task.make_agents()), num_cycles=400)
        parallel_seed_test(lambda: PettingZooEnv(task.make_agents()), num_cycles=100)


@pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)
def test_every_agent_sees_its_own_row_within_its_space(task):
    env = PettingZooEnv(task.make_agents())
    seen, _ = env.reset(seed=1)
    for _ in range(20):
        tensors = env.env.reset(torch.zeros(env.env.num_envs, dtype=torch.bool))  # a look: nobody is reset
        for agent in seen:
            assert env.observation_space(agent).contains(seen[agent])
            row = env.possible_agents.index(agent)
            for name, tensor in tensors.items():
                own = tensor.flatten(0, len(env.env.batch_shape) - 1)[row].numpy()
                np.testing.assert_allclose(
                    seen[agent][name], own, rtol=1e-5, atol=1e-6
                )  # a look may round otherwise than a step
        if len(env.agents) < len(env.possible_agents):
            break
        seen, *_ = env.step({agent: env.action_space(agent).sample() for agent in env.agents})


def test_the_two_sides_of_a_duel_are_red_and_blue():
    env = PettingZooEnv(TASKS["aircombat"].make(1, sides=2, start="head_on"))
    assert env.possible_agents == ["red", "blue"]
    env.reset(seed=0)
    left, right = np.array([1, 1, -1], np.float32), np.array([-1, 1, 1], np.float32)
    seen, _, _, _, info = env.step({"blue": right, "red": left})
    assert (seen["red"]["own"][8], seen["blue"]["own"][8]) == (1, -1)  # own_rudder
    assert (info["red"]["shots"], info["blue"]["shots"]) == (0, 1)
    with pytest.raises(ValueError, match="one duel, not 4"):
        PettingZooEnv(TASKS["aircombat"].make(4, sides=2))


def test_whoever_has_ended_leaves_and_does_not_come_back():
    env = PettingZooEnv(Counting(2))
    assert env.possible_agents == ["agent_0", "agent_1"]
    env.reset()
    for _ in range(2):
        env.step({"agent_0": ZERO, "agent_1": ZERO})
    seen, reward, terminated, truncated, info = env.step({"agent_0": ZERO, "agent_1": ZERO})
    assert (terminated, truncated) == ({"agent_0": True, "agent_1": False}, {"agent_0": False, "agent_1": False})
    assert seen["agent_0"]["count"].tolist() == [13] and info["agent_0"] == {"success": 1.0}
    assert env.agents == ["agent_1"]
    seen, reward, terminated, truncated, _ = env.step({"agent_1": ZERO})
    assert (seen.keys(), reward, truncated) == ({"agent_1"}, {"agent_1": 4.0}, {"agent_1": True})
    assert env.agents == [] and env.step({}) == ({}, {}, {}, {}, {})
    assert env.reset()[0].keys() == {"agent_0", "agent_1"} and env.agents == env.possible_agents


def test_missing_and_bad_actions_are_named():
    env = PettingZooEnv(Counting(2))
    env.reset()
    with pytest.raises(ValueError, match="no action for agent_1"):
        env.step({"agent_0": ZERO})
    with pytest.raises(ValueError, match=r"agent_1 must have shape \[2\], not \[3\]"):
        env.step({"agent_0": ZERO, "agent_1": np.zeros(3)})
    with pytest.raises(BadActionError, match="environment 1 is .nan"):
        env.step({"agent_0": ZERO, "agent_1": np.full(2, np.nan)})
    assert env.env.age.tolist() == [0, 0]
