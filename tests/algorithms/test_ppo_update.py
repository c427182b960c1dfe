"""One PPO update against the same written down plainly, what each setting of it does, and what bounds it."""

from __future__ import annotations

import pytest
import torch
from ppo_batches import SPEC, N, T, make_batch, make_policy, same, weights
from torch.utils._python_dispatch import TorchDispatchMode

from slipstream.algorithms.base import PIECE, apply_gradients, make_adam, step_in_pieces
from slipstream.algorithms.ppo import PPO, PPOConfig


def plain_update(policy, batch, c, dims):
    """One epoch, one minibatch of PPO in float64 loops over valid frames only; the losses. It steps `policy` with
    torch's plain Adam."""
    norm = policy.value_norm
    frames, advantage, returns = [], {}, {}
    with torch.no_grad():
        for e in range(N):
            later = 0.0
            for t in reversed(range(T)):
                if not batch["valid"][e, t]:
                    later = 0.0
                    continue
                done = bool(batch["done"][e, t])
                beyond = 0.0 if batch["terminated"][e, t] else norm.denormalize(batch["next", "value"][e, t]).item()
                here = norm.denormalize(batch["value"][e, t]).item()
                delta = batch["reward"][e, t].item() + c.gamma * beyond - here
                later = delta + (0.0 if done else c.gamma * c.lam * later)
                frames.append((e, t))
                advantage[e, t], returns[e, t] = later, later + here
        adv, ret = (torch.tensor([x[f] for f in frames], dtype=torch.float64) for x in (advantage, returns))
        adv = (adv - adv.mean()) / adv.std(unbiased=False)
        norm.update(ret.float(), torch.ones(len(ret), dtype=torch.bool))
        target = norm.normalize(ret.float())
    pick = lambda x: torch.stack([x[e, t] for e, t in frames])  # noqa: E731
    observation = {name: pick(batch["observation", name]) for name in SPEC}
    features = policy.features(observation)
    layers = (policy.actor.alpha_layer, policy.actor.beta_layer)
    alpha, beta = (1 + torch.nn.functional.softplus(layer(features)) + 1e-6 for layer in layers)
    distribution = torch.distributions.Beta(alpha, beta)
    ratio = (distribution.log_prob((pick(batch["action"]) + 1) / 2).sum(-1) - pick(batch["log_prob"])).exp()
    policy_loss = -torch.min(ratio * adv, ratio.clamp(1 - c.clip, 1 + c.clip) * adv).mean()
    value, old = policy.critic(features)[:, 0], pick(batch["value"])
    huber = torch.nn.HuberLoss(delta=c.huber_delta)
    value_loss = torch.max(huber(value, target), huber(old + (value - old).clamp(-c.value_clip, c.value_clip), target))
    entropy = distribution.entropy().sum(-1).mean()
    loss = dims * policy_loss + c.value_weight * value_loss - c.entropy * entropy
    optimizer = torch.optim.Adam(policy.parameters(), lr=c.learning_rate, foreach=False)
    loss.backward()
    for head in (policy.actor, policy.critic):
        norm_of_head = torch.cat([p.grad.flatten() for p in head.parameters()]).norm()
        for p in head.parameters():
            p.grad *= min(1.0, c.max_grad_norm / norm_of_head.item())
    optimizer.step()
    kl = (ratio - 1 - ratio.log()).mean()
    return {"loss/policy": policy_loss, "loss/value": value_loss, "loss/entropy": entropy, "kl": kl}


@pytest.mark.parametrize("huber_delta", [10.0, 0.3])
@pytest.mark.parametrize("max_grad_norm", [5.0, 0.01])
def test_an_update_equals_the_same_written_down_plainly(huber_delta, max_grad_norm):
    config = PPOConfig(
        epochs=1, minibatches=1, entropy=0.05, huber_delta=huber_delta, max_grad_norm=max_grad_norm, value_clip=0.05
    )
    policy, twin = make_policy(), make_policy()
    policy.value_norm.update(torch.tensor([5.0, -3.0]), torch.ones(2, dtype=torch.bool))  # not the identity
    twin.load_state_dict(policy.state_dict())
    batch = make_batch(policy)
    for p in (*policy.critic.parameters(), *twin.critic.parameters()):  # values have moved on: clipping binds
        p.data += 0.05
    got = PPO(policy, config).update(batch)
    want = plain_update(twin, batch, config, dims=2)
    for name, value in want.items():
        torch.testing.assert_close(got[name], value.float(), rtol=1e-4, atol=1e-5)
    for (name, mine), theirs in zip(policy.named_parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=2e-6, msg=lambda text, name=name: f"{name}: {text}")


# -- the mask ----------------------------------------------------------------------------------------------------------


def test_garbage_in_invalid_frames_changes_not_one_bit():
    results = []
    for garbage in (0.0, 1e3):
        policy = make_policy()
        batch = make_batch(policy)
        for e, t in ((0, 2), (1, 4)):
            batch["reward"][e, t] = garbage
            batch["log_prob"][e, t] -= garbage
            batch["action"][e, t] = 0.9 if garbage else -0.9
            batch["observation", "a"][e, t] += garbage
            batch["terminated"][e, t] = batch["truncated"][e, t] = bool(garbage)
        torch.manual_seed(5)
        losses = PPO(policy, PPOConfig(epochs=2, minibatches=2)).update(batch)
        results.append(weights(policy) | losses | dict(policy.value_norm.named_buffers()))
    assert same(*results)


def test_a_batch_without_a_valid_frame_does_no_harm():
    policy = make_policy()
    batch = make_batch(policy)
    batch["valid"].zero_()
    losses = PPO(policy, PPOConfig(epochs=1, minibatches=1)).update(batch)
    assert all(torch.isfinite(x) for x in losses.values())
    assert all(torch.isfinite(p).all() for p in policy.parameters())


# -- the rest ----------------------------------------------------------------------------------------------------------


def test_an_exchange_with_nobody_changes_no_bit():
    learned = []
    for sums in (None, lambda tensors: [x.clone() for x in tensors]):
        algo = PPO(make_policy(), PPOConfig(epochs=2, minibatches=2, max_grad_norm=0.01, schedule="adaptive"))
        algo.sums = sums
        batch = make_batch(algo.policy)
        batch["valid"].fill_(True)
        torch.manual_seed(5)
        learned.append((algo.update(batch), weights(algo.policy)))
    (losses, alone), (shared_losses, shared) = learned
    assert same(alone, shared) and losses == shared_losses


@pytest.mark.parametrize("valid", [[1.0, 0.0], [0.25, 0.75], [0.0, 0.0]])
def test_gradients_of_ranks_are_weighed_by_valid_frames(valid):
    algo = PPO(make_policy(), PPOConfig(minibatches=2, value_clip=0.0, max_grad_norm=0.5))
    rows = list(algo._minibatches(algo.prepare(make_batch(algo.policy))))  # of two processes
    for mine, share in zip(rows, valid, strict=True):
        mine["weight"] = (torch.arange(12) < 12 * share).float()
    both = {name: torch.cat([mine[name] for mine in rows]) for name in rows[0] if name != "observation"}
    both["observation"] = {name: torch.cat([mine["observation"][name] for mine in rows]) for name in ("a", "b")}
    expected, parts = algo.gradients(both)
    algo.sums = list
    gradients, diagnostics = algo.gradients(rows[1])
    algo.sums = lambda tensors: [x + y for x, y in zip(tensors, [*gradients, diagnostics], strict=True)]
    *found, _ = algo._gradient_step(rows[0], adapt=False)  # the last is `skipped`
    torch.testing.assert_close(torch.stack(found), parts, rtol=1e-4, atol=1e-6)
    torch.testing.assert_close([p.grad for p in algo.policy.parameters()], expected, rtol=1e-4, atol=1e-6)


def test_bf16_learns_float32_weights_near_those_of_float32():
    results = {}
    for bf16 in (False, True):
        policy = make_policy()
        batch = make_batch(policy)
        torch.manual_seed(5)
        algo = PPO(policy, PPOConfig(epochs=2, minibatches=2, bf16=bf16))
        losses = algo.update(batch)
        assert all(torch.isfinite(x) for x in losses.values())
        assert {p.dtype for p in policy.parameters()} == {torch.float32}
        assert policy(batch["observation"].flatten())["action"].dtype == torch.float32
        results[bf16] = losses["loss/value"].item()
    assert results[True] == pytest.approx(results[False], rel=0.05)
    assert results[True] != results[False]


def test_minibatches_must_divide_the_batch():
    algo = PPO(make_policy(), PPOConfig(minibatches=7))
    with pytest.raises(ValueError, match=r"24 frames .* algo\.minibatches=7.*divisor of env\.num_envs"):
        algo.update(make_batch(algo.policy))


def test_every_frame_is_in_one_minibatch_and_stays_together():
    algo = PPO(make_policy(), PPOConfig(minibatches=4))
    data = algo.prepare(make_batch(algo.policy))
    data["weight"] = torch.arange(24.0)
    order = []
    for rows in algo._minibatches(data):
        order += (at := rows["weight"].long()).tolist()
        assert torch.equal(rows["advantage"], data["advantage"][at])
        assert all(torch.equal(x, data["observation"].rows[name][at]) for name, x in rows["observation"].items())
    assert sorted(order) == list(range(24)) != order


@pytest.mark.parametrize(
    "wrong",
    [{"schedule": "step"}, {"epochs": 0}, {"gamma": 1.2}, {"kl_limit": -1.0}, {"final_rate": -1.0}, {"entropy": -1.0}],
)
def test_wrong_settings_are_refused_by_name(wrong):
    with pytest.raises(ValueError, match=f"algo.{next(iter(wrong))}"):
        PPOConfig(**wrong)


def test_the_defaults_are_navrls():
    navrl = {"gamma": 0.99, "lam": 0.95, "learning_rate": 5e-4, "clip": 0.1, "value_clip": 0.1, "entropy": 1e-3}
    navrl |= {"huber_delta": 10.0, "max_grad_norm": 5.0, "rollout_steps": 32, "epochs": 4, "minibatches": 16}
    assert vars(PPOConfig()).items() >= navrl.items()


def test_a_gradient_in_another_memory_order_is_applied():
    weight, gradient = torch.randn(3, 5), torch.randn(5, 3).t()
    expected, parameter = torch.nn.Parameter(weight.clone()), torch.nn.Parameter(weight.clone())
    expected.grad = gradient.contiguous()
    torch.optim.Adam([expected], lr=0.1, foreach=False).step()
    apply_gradients(make_adam([parameter], torch.tensor(0.1)), [gradient])
    torch.testing.assert_close(parameter, expected)


@pytest.mark.parametrize("stop", [0.0, 1.0])
def test_adam_in_pieces_is_adam(stop):
    shapes = [(3, PIECE + 5), (7,), ()]
    first = [torch.nn.Parameter(torch.randn(shape)) for shape in shapes]
    second = [torch.nn.Parameter(x.detach().clone()) for x in first]
    whole, pieces = make_adam(first, torch.tensor(0.01)), make_adam(second, torch.tensor(0.01))
    for take in (lambda: pieces.step(), lambda: step_in_pieces(pieces), lambda: step_in_pieces(pieces)):
        for x, y in zip(first, second, strict=True):
            x.grad = torch.randn_like(x)
            y.grad = x.grad.clone()
        whole.step()
        take()
        for optimizer in (whole, pieces):
            optimizer.found_inf = torch.tensor(stop)
            optimizer.grad_scale = torch.tensor(2.0)
    assert all(torch.equal(x, y) for x, y in zip(first, second, strict=True))
    held = [optimizer.state_dict()["state"] for optimizer in (whole, pieces)]
    assert all(torch.equal(held[0][i][name], held[1][i][name]) for i in held[0] for name in held[0][i])


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
