"""What bounds an update: the KL limit, no wait for the device, and the learning rate."""

from __future__ import annotations

import pytest
import torch
from ppo_batches import N, T, make_batch, make_policy, same, weights
from torch.utils._python_dispatch import TorchDispatchMode

from slipstream.algorithms.ppo import PPO, PPOConfig

# -- the KL limit ------------------------------------------------------------------------------------------------------


def own_batch(policy):
    """A batch of this very policy: ratios of 1, a KL of 0."""
    batch = make_batch(policy)
    batch["log_prob"] = (
        policy.evaluate(batch["observation"].flatten(), batch["action"].flatten(0, 1))[0].detach().view(N, T)
    )
    return batch


def updated(config, seed=7):
    policy = make_policy()
    batch = own_batch(policy)
    algo = PPO(policy, config)
    torch.manual_seed(seed)
    losses = algo.update(batch)
    return algo, weights(policy), losses


def test_past_the_kl_limit_no_weight_changes_any_more():
    once = PPOConfig(epochs=1, minibatches=1, learning_rate=1e-2)
    _, after_one, _ = updated(once)
    algo, limited, losses = updated(PPOConfig(epochs=4, minibatches=1, learning_rate=1e-2, kl_limit=1e-7))
    _, unlimited, _ = updated(PPOConfig(epochs=4, minibatches=1, learning_rate=1e-2))
    assert same(limited, after_one)  # the first step has KL 0 and is taken; the three that follow are not
    assert not same(unlimited, after_one)
    assert losses["skipped"].item() == 0.75
    assert {s["step"].item() for s in algo.optimizer.state.values()} == {1.0}


def test_the_next_update_learns_again_after_a_stop():
    algo, limited, _ = updated(PPOConfig(epochs=4, minibatches=1, learning_rate=1e-2, kl_limit=1e-7))
    algo.update(own_batch(algo.policy))
    assert not same(weights(algo.policy), limited)


def test_a_wide_limit_never_stops():
    _, limited, losses = updated(PPOConfig(epochs=4, minibatches=1, kl_limit=1e3))
    _, unlimited, _ = updated(PPOConfig(epochs=4, minibatches=1))
    assert same(limited, unlimited) and losses["skipped"].item() == 0.0


class NoReadBack(TorchDispatchMode):
    """Fails on the operations that would wait for a GPU: reading a value, or a shape that depends on values."""

    WAITS = {"_local_scalar_dense", "nonzero", "masked_select", "is_nonzero", "equal", "unique", "_unique2"}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func.__name__.split(".")[0]
        boolean_index = name in ("index", "index_put_") and any(
            x is not None and x.dtype == torch.bool for x in args[1]
        )
        assert name not in self.WAITS and not boolean_index, f"{func} waits for the device"
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("schedule", ["constant", "linear", "adaptive"])
def test_nothing_in_an_update_waits_for_the_device(schedule):
    policy = make_policy()
    algo, batch = PPO(policy, PPOConfig(epochs=2, minibatches=2, kl_limit=0.01, schedule=schedule)), make_batch(policy)
    with NoReadBack():
        algo.update(batch, 0.5)


def test_the_watch_for_waiting_sees_a_read_back():
    with pytest.raises(AssertionError, match="waits"), NoReadBack():
        torch.ones(2).sum().item()
    with pytest.raises(AssertionError, match="waits"), NoReadBack():
        torch.ones(2)[torch.tensor([True, False])]


# -- the learning rate -------------------------------------------------------------------------------------------------


RATES = [
    ("constant", 0.9, 1.0),
    ("linear", 0.25, 0.2 + 0.8 * 0.75),
    ("linear", 1.7, 0.2),  # a resumed run may be past its end
    ("cosine", 0.0, 1.0),
    ("cosine", 0.25, 0.2 + 0.8 * 0.8535534),
]


@pytest.mark.parametrize(("schedule", "progress", "rate"), RATES)
def test_the_schedule_sets_the_rate_that_adam_uses(schedule, progress, rate):
    algo = PPO(make_policy(), PPOConfig(epochs=1, minibatches=1, schedule=schedule, final_rate=0.2, learning_rate=1e-3))
    before = weights(algo.policy)
    losses = algo.update(make_batch(algo.policy), progress)
    assert losses["lr"].item() == pytest.approx(rate * 1e-3, rel=1e-5)
    moved = (algo.policy.critic.bias - before["critic.bias"]).abs()
    assert moved.item() == pytest.approx(rate * 1e-3, rel=1e-3)  # Adam's first step is the rate itself


def test_the_adaptive_rate_follows_the_kl_and_keeps_its_bounds():
    def rate_after(target_kl, start, epochs=1):
        _, _, losses = updated(
            PPOConfig(epochs=epochs, minibatches=1, schedule="adaptive", target_kl=target_kl, learning_rate=start)
        )
        return losses["lr"].item()

    assert rate_after(10.0, 1e-3, epochs=2) == pytest.approx(1.5e-3)  # far too careful
    assert rate_after(10.0, 9e-3, epochs=2) == pytest.approx(1e-2)
    assert rate_after(1e-6, 1e-3, epochs=2) == pytest.approx(1e-3 / 1.5)  # the second epoch sees a KL far beyond 2e-6
    assert rate_after(1e-12, 1e-3, epochs=20) == pytest.approx(1e-5)


def test_the_first_minibatch_keeps_the_adaptive_rate():
    # Its weights are those that acted: the KL is 0 for any rate. Three updates of one minibatch show three such KLs.
    policy = make_policy()
    algo = PPO(policy, PPOConfig(epochs=1, minibatches=1, schedule="adaptive", learning_rate=1e-3))
    for _ in range(3):
        losses = algo.update(own_batch(policy))
        assert losses["kl"].item() == pytest.approx(0, abs=1e-6)
    assert algo.learning_rate.item() == pytest.approx(1e-3)


def test_skipped_steps_do_not_lower_the_adaptive_rate():
    # Weights that stand still have the same KL at every minibatch: dividing by 1.5 each time would leave nothing of the
    # rate.
    config = PPOConfig(epochs=8, minibatches=1, schedule="adaptive", target_kl=1e-6, kl_limit=2e-6, learning_rate=1e-3)
    _, _, losses = updated(config)
    assert losses["skipped"].item() > 0.5
    assert losses["lr"].item() == pytest.approx(1e-3 / 1.5)  # down once, where the KL first passed
