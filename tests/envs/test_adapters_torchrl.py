"""The TorchRL adapter: its specs, its resets by mask, its seeds."""

import pytest
import torch

pytest.importorskip("torchrl")
from adapter_tasks import TASKS  # noqa: E402
from counting import Counting  # noqa: E402
from torchrl.envs.utils import check_env_specs  # noqa: E402

from slipstream.envs.adapters import TorchRLEnv  # noqa: E402
from slipstream.envs.base import BadActionError  # noqa: E402


@pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)
def test_torchrls_own_check_passes(task):
    env = TorchRLEnv(task.make(3), info=[task.fact])
    check_env_specs(env, break_when_any_done="both")
    check_env_specs(env, seed=1)


@pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)
def test_a_seed_gives_the_same_rollout(task):
    env = TorchRLEnv(task.make(3))

    def fly(seed):
        torch.manual_seed(0)
        env.set_seed(seed)
        return env.rollout(20, break_when_any_done=False)["next", "observation"]

    first, again, other = fly(5), fly(5), fly(6)
    assert (first == again).all()
    assert not (first == other).all()


def test_a_rollout_resets_what_has_ended_and_nothing_else():
    env = TorchRLEnv(Counting(2), info=["success"])
    steps = env.rollout(5, lambda td: td.set("action", torch.zeros(2, 2)), break_when_any_done=False)
    assert steps["observation", "count"][..., 0].tolist() == [[10, 11, 12, 20, 21], [10, 11, 12, 13, 20]]
    assert steps["next", "observation", "count"][..., 0].tolist() == [[11, 12, 13, 21, 22], [11, 12, 13, 14, 21]]
    assert steps["next", "terminated"][..., 0].tolist() == [[False, False, True, False, False], [False] * 5]
    assert steps["next", "truncated"][1, :, 0].tolist() == [False, False, False, True, False]
    assert steps["next", "reward"][0, :, 0].tolist() == [1, 2, 3, 1, 2]
    assert steps["next", "info", "success"].tolist() == [[0, 0, 1, 0, 0], [0, 0, 0, 1, 0]]
    assert steps["info", "success"].sum() == 0


def test_bad_actions_and_unknown_infos_are_named():
    env = TorchRLEnv(Counting(2))
    td = env.reset()
    with pytest.raises(BadActionError, match="1 of 2 environments"):
        env.step(td.set("action", torch.tensor([[0.0, 0.0], [torch.nan, 0.0]])))
    with pytest.raises(ValueError, match="has no info crash: its infos are success"):
        TorchRLEnv(Counting(2), info=["crash"]).rollout(1)
