import pytest
import torch

from slipstream.envs.specs import Box
from slipstream.models.policy import build_policy
from slipstream.models.rollout_copy import RolloutCopy

SPEC = {"lidar": Box((1, 36, 4)), "dynamic_obstacle": Box((1, 5, 10)), "state": Box((8,))}


def observation(n=16):
    return {name: torch.randn(n, *spec.shape) for name, spec in SPEC.items()}


@pytest.mark.parametrize("bf16", [False, True])
@pytest.mark.parametrize("dense", [False, True])
def test_it_acts_as_the_policy_at_the_last_refresh(bf16, dense):
    policy = build_policy(SPEC, Box((3,), -2.0, 2.0))
    policy.bf16 = bf16
    acting = RolloutCopy(policy, dense)
    before = [p.clone() for p in policy.parameters()]
    with torch.no_grad():
        for p in policy.parameters():
            p.add_(0.05 * torch.randn_like(p))
    seen = observation()

    def act(module):
        torch.manual_seed(3)
        with torch.no_grad():
            return module(dict(seen)), module.value(dict(seen))

    stale, _ = act(acting)
    acting.refresh()
    (mine, my_value), (theirs, their_value) = act(acting), act(policy)
    rounding = 0.05 if bf16 and dense else 1e-5  # bf16 sums in another order
    torch.testing.assert_close(mine["log_prob"], theirs["log_prob"], atol=10 * rounding, rtol=rounding)
    torch.testing.assert_close(my_value, their_value, atol=rounding, rtol=rounding)
    assert not torch.allclose(stale["value"], theirs["value"], atol=rounding)
    assert not any(p.requires_grad for p in acting.parameters())
    assert any(not torch.equal(a, b) for a, b in zip(before, policy.parameters(), strict=True))


def test_refreshing_writes_in_place():
    acting = RolloutCopy(build_policy(SPEC, Box((3,), -2.0, 2.0)), dense=True)
    places = [t.data_ptr() for t in (*acting.parameters(), *acting.buffers())]
    acting.refresh()
    assert places == [t.data_ptr() for t in (*acting.parameters(), *acting.buffers())]
