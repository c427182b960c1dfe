"""Generalized advantages: numbers by hand, and nothing that passes from one episode into another."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from slipstream.algorithms.returns import gae

GAMMA, LAM = 0.9, 0.5  # their product: 0.45


def column(*values, dtype=torch.float32):
    """[T, 1]"""
    return torch.tensor(values, dtype=dtype).unsqueeze(1)


def flags(steps, *at):
    return column(*(t in at for t in range(steps)), dtype=torch.bool)


def advantages(reward, value, last_value, terminated=(), truncated=(), invalid=(), next_value=None):
    t = len(reward)
    following = next_value if next_value is not None else [*value[1:], last_value]
    return gae(
        column(*reward),
        column(*value),
        column(*following),
        flags(t, *terminated),
        flags(t, *truncated),
        ~flags(t, *invalid),
        GAMMA,
        LAM,
    )[:, 0].tolist()


def test_a_timeout_is_bootstrapped_from_its_final_observation():
    # the final observation, of value 10, stands in row 2; the new episode's first, of value -50, in row 3
    got = advantages([1.0, 2.0, 0.0, 5.0], [1.0, 2.0, 10.0, -50.0], 9.0, truncated=[1], invalid=[2])
    assert got[1] == pytest.approx(2.0 + 0.9 * 10.0 - 2.0)
    assert got[0] == pytest.approx(1 + 0.9 * 2 - 1 + 0.45 * got[1])


@pytest.mark.parametrize("garbage", [1e9, float("nan")])
def test_an_invalid_frame_is_nowhere_in_the_result(garbage):
    # row 2 only reset the env. Its reward and its own end flags are garbage; its value (of the final observation)
    # counts for step 1 alone.
    clean = advantages([1.0, 2.0, 0.0, 5.0], [1.0, 2.0, 10.0, 7.0], 9.0, truncated=[1], invalid=[2])
    dirty = advantages([1.0, 2.0, garbage, 5.0], [1.0, 2.0, 10.0, 7.0], 9.0, truncated=[1, 2], invalid=[2])
    assert dirty == clean and clean[2] == 0.0


def test_nothing_passes_through_an_invalid_frame():
    # an env whose reset the caller forced: no flag marks the end, the mask alone separates the two episodes
    calm = advantages([1.0, 0.0, 3.0], [1.0, 2.0, 3.0], 4.0, invalid=[1])
    wild = advantages([1.0, 0.0, 3e6], [1.0, 2.0, 3.0], 4e6, invalid=[1])
    assert wild[0] == calm[0] == pytest.approx(1 + 0.9 * 2 - 1)


def by_episode(reward, value, last_value, ends, gamma, lam):
    """One env, slowly: cut into episodes, then sum_k (gamma lam)^k delta for every step by its definition."""
    steps, result, start = len(reward), [], 0
    following = [*value[1:], last_value]
    while start < steps:
        end = next((t for t in range(start, steps) if ends[t]), steps - 1)
        delta = [
            reward[t] + (0.0 if ends[t] == "terminated" else gamma * following[t]) - value[t]
            for t in range(start, end + 1)
        ]
        result += [sum((gamma * lam) ** k * d for k, d in enumerate(delta[i:])) for i in range(len(delta))]
        start = end + 1
        if ends[end] and start < steps:
            result.append(0.0)  # the frame that resets
            start += 1
    return result


@settings(max_examples=60, deadline=None)
@given(
    ends=st.lists(
        st.lists(st.sampled_from([None, None, None, "terminated", "truncated"]), min_size=9, max_size=9),
        min_size=1,
        max_size=4,
    ),
    gamma=st.floats(0.5, 1.0),
    lam=st.floats(0.0, 1.0),
    seed=st.integers(0, 2**31),
)
def test_it_equals_a_slow_sum_over_each_episode_alone(ends, gamma, lam, seed):
    envs, steps = len(ends), len(ends[0])
    valid = torch.ones(steps, envs, dtype=torch.bool)
    for e, row in enumerate(ends):
        for t in range(1, steps):
            if row[t - 1]:
                row[t], valid[t, e] = None, False  # after an end comes the frame that resets
    flag = {
        kind: torch.tensor([[row[t] == kind for row in ends] for t in range(steps)])
        for kind in ("terminated", "truncated")
    }
    numbers = 10 * torch.randn(2, steps + 1, envs, generator=torch.Generator().manual_seed(seed))
    reward, value = numbers[0, :-1], numbers[1]
    got = gae(reward, value[:-1], value[1:], flag["terminated"], flag["truncated"], valid, gamma, lam)
    for e in range(envs):
        want = by_episode(reward[:, e].tolist(), value[:-1, e].tolist(), value[-1, e].item(), ends[e], gamma, lam)
        torch.testing.assert_close(got[:, e], torch.tensor(want), rtol=1e-4, atol=1e-4)
