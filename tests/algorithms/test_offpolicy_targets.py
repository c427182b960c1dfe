"""What DQN, SAC and TD3 aim at, in numbers made by hand."""

from __future__ import annotations

import pytest
import torch
from tensordict import TensorDict

from slipstream.algorithms.dqn import DQN, DQNConfig
from slipstream.algorithms.offpolicy import Transitions, weighted_mean
from slipstream.algorithms.sac import SAC, SACConfig
from slipstream.algorithms.td3 import TD3, TD3Config
from slipstream.envs.specs import Box, Discrete, Hybrid
from slipstream.models.off_policy import Critics, DeterministicPolicy, QPolicy, SquashedGaussianPolicy
from slipstream.models.policy import ModelConfig

SMALL = ModelConfig(part=0, trunk=[8], layer_norm=False)
SEEN = {"x": Box((3,))}
TWO = Box((2,), -2.0, 2.0)


def batch_of(size=4, action=None, **given):
    """A sampled batch; what is not given is random, not terminated, discount 0.9."""
    generator = torch.Generator().manual_seed(0)
    batch = {
        "observation": {"x": torch.randn(size, 3, generator=generator)},
        "next": {"observation": {"x": torch.randn(size, 3, generator=generator)}},
        "action": torch.zeros(size, 2) if action is None else action,
        "reward": torch.randn(size, generator=generator),
        "terminated": torch.zeros(size, dtype=torch.bool),
        "truncated": torch.zeros(size, dtype=torch.bool),
        "discount": torch.full((size,), 0.9),
    }
    return batch | given


def rows_of(**given):
    return Transitions.of(batch_of(**given), ("x",))


def dqn(n=3, **settings):
    return DQN(QPolicy(SEEN, Discrete(n), SMALL), DQNConfig(**settings))


def sac(**settings):
    return SAC(SquashedGaussianPolicy(SEEN, TWO, SMALL), Critics(SEEN, 2, SMALL), SACConfig(**settings))


def td3(**settings):
    return TD3(DeterministicPolicy(SEEN, TWO, SMALL), Critics(SEEN, 2, SMALL), TD3Config(**settings))


def weights_of(network):
    return torch.cat([p.detach().flatten().clone() for p in network.parameters()])


# -- transitions -------------------------------------------------------------------------------------------------------


def test_a_cut_is_bootstrapped_and_a_termination_is_not():
    ends = {"terminated": torch.tensor([False, True, False]), "truncated": torch.tensor([False, False, True])}
    rows = rows_of(size=3, discount=torch.tensor([0.9, 0.9, 0.9]), **ends)
    assert rows.bootstrap.tolist() == pytest.approx([0.9, 0.0, 0.9])


def test_a_tensordict_is_a_batch_too():
    batch = batch_of(size=2)
    batch["observation"]["unused"] = torch.zeros(2, 1)
    batch["next"]["observation"]["unused"] = torch.zeros(2, 1)
    rows = Transitions.of(TensorDict(batch, [2]), ("x",))
    assert list(rows.observation) == ["x"] and rows.weight is None
    assert torch.equal(rows.next_observation["x"], batch["next"]["observation"]["x"])


def test_every_minibatch_gets_every_kth_row():
    parts = rows_of(size=6, reward=torch.arange(6.0), weight=torch.arange(6.0) * 10).split(2)
    assert [part.reward.tolist() for part in parts] == [[0, 2, 4], [1, 3, 5]]
    assert [part.weight.tolist() for part in parts] == [[0, 20, 40], [10, 30, 50]]
    assert parts[1].observation["x"].shape == (3, 3)
    with pytest.raises(ValueError, match="6 transitions do not divide into 4"):
        rows_of(size=6).split(4)


def test_errors_come_back_in_the_order_of_the_batch():
    algo = dqn(learning_rate=1e-12, target_interval=1000)
    batch = batch_of(size=6, action=torch.tensor([0, 1, 2, 0, 1, 2]), reward=10.0 ** torch.arange(6))
    algo.update(batch, 1)
    at_once = algo.td_error.clone()
    algo.update(batch, 3)
    assert torch.allclose(algo.td_error, at_once, rtol=1e-4)


def test_importance_weights_scale_each_rows_loss():
    loss, weight = torch.tensor([[1.0, 2.0, 3.0], [1.0, 1.0, 1.0]]), torch.tensor([1.0, 0.5, 0.0])
    assert weighted_mean(loss, weight).item() == pytest.approx((1 + 1 + 0) / 3 + (1 + 0.5) / 3)
    assert weighted_mean(loss, None).item() == pytest.approx(2 + 1)


# -- DQN ---------------------------------------------------------------------------------------------------------------


def with_values(algo, online, target):
    """The networks' values of the next observation, by hand."""
    algo.policy.values = lambda observation: torch.tensor(online)
    algo.target.values = lambda observation: torch.tensor(target)
    return algo


@pytest.mark.parametrize(
    ("double", "expected"), [(True, [1 + 0.9 * 20, 2 + 0.9 * 40]), (False, [1 + 0.9 * 30, 2 + 0.9 * 60])]
)
def test_double_values_the_online_networks_action(double, expected):
    algo = with_values(dqn(double=double), [[1.0, 3.0, 2.0], [5.0, 4.0, 3.0]], [[10.0, 20.0, 30.0], [40.0, 50.0, 60.0]])
    assert algo.td_target(rows_of(size=2, reward=torch.tensor([1.0, 2.0]))).tolist() == pytest.approx(expected)


def test_n_step_targets_end_where_the_episode_ended():
    algo = with_values(dqn(), [[1.0, 0.0, 0.0]] * 3, [[10.0, 0.0, 0.0]] * 3)
    discount = torch.tensor([0.9**3, 0.9**2, 0.9**3])  # of three-step returns, the second cut after two
    ends = {"terminated": torch.tensor([False, False, True]), "truncated": torch.tensor([False, True, False])}
    goal = algo.td_target(rows_of(size=3, reward=torch.tensor([1.0, 1.0, 1.0]), discount=discount, **ends))
    assert goal.tolist() == pytest.approx([1 + 7.29, 1 + 8.1, 1])


def test_dueling_values_have_advantages_of_mean_zero():
    policy = QPolicy(SEEN, Discrete(3), SMALL, dueling=True)
    with torch.no_grad():
        policy.head.weight.zero_()
        policy.head.bias.copy_(torch.tensor([5.0, 1.0, 2.0, 6.0]))  # the value, then advantages of mean 3
    assert policy.values({"x": torch.zeros(1, 3)}).tolist() == [[3.0, 4.0, 8.0]]
    plain = QPolicy(SEEN, Discrete(3), SMALL, dueling=False)
    assert plain.head.out_features == 3


def test_dqn_replaces_its_target_every_interval():
    algo = dqn(target_interval=2)
    start, batch = weights_of(algo.target), batch_of(action=torch.tensor([0, 1, 2, 0]))
    algo.update(batch)
    assert torch.equal(weights_of(algo.target), start)
    algo.update(batch)
    assert torch.equal(weights_of(algo.target), weights_of(algo.policy))
    assert not torch.equal(weights_of(algo.policy), start)


def test_the_share_of_random_actions_falls_linearly():
    algo = dqn(random_start=1.0, random_end=0.1, random_fraction=0.5)
    algo.set_progress(0.4)
    assert algo.policy.random_share.item() == 1.0  # nothing learned yet: all are random
    algo.updates = 1
    shares = []
    for progress in (0.0, 0.25, 0.5, 1.0):
        algo.set_progress(progress)
        shares.append(algo.policy.random_share.item())
    assert shares == pytest.approx([1.0, 0.55, 0.1, 0.1])


# -- SAC ---------------------------------------------------------------------------------------------------------------


def test_sac_expects_the_lower_critic_and_pays_for_entropy():
    algo = sac()
    algo.policy.sample = lambda observation: (torch.zeros(2, 2), torch.tensor([-1.0, 2.0]))
    algo.target.forward = lambda observation, unit: torch.tensor([[10.0, 20.0], [12.0, 18.0]])
    goal = algo.td_target(rows_of(size=2, reward=torch.tensor([1.0, 1.0])), alpha=torch.tensor(0.5))
    assert goal.tolist() == pytest.approx([1 + 0.9 * (10 + 0.5), 1 + 0.9 * (18 - 1.0)])


@pytest.mark.parametrize(("log_prob", "rises"), [(5.0, True), (-5.0, False)])
def test_the_price_of_entropy_follows_the_entropy(log_prob, rises):
    algo = sac()  # the target is -2, for two dimensions
    assert algo.target_entropy == -2.0
    plain = algo.policy.sample
    algo.policy.sample = lambda observation: (plain(observation)[0], plain(observation)[1] * 0 + log_prob)
    algo.update(batch_of())
    assert (algo.temperature.log.item() > 0) is rises


def test_the_policys_step_leaves_the_critics_alone():
    algo = sac()
    stepped = []
    plain = algo.optimizer_step

    def optimizer_step(optimizer, loss):
        before = weights_of(algo.critics), weights_of(algo.policy)
        plain(optimizer, loss)
        stepped.append(
            [not torch.equal(a, weights_of(b)) for a, b in zip(before, (algo.critics, algo.policy), strict=True)]
        )

    algo.optimizer_step = optimizer_step
    algo.update(batch_of())
    assert stepped == [[True, False], [False, True]]


def test_critics_judge_actions_in_units_of_the_box():
    algo, seen = sac(), []
    algo.critics.register_forward_pre_hook(lambda module, inputs: seen.append(inputs[1].detach().clone()))
    algo.update(batch_of(size=2, action=torch.tensor([[-2.0, 2.0], [0.0, 1.0]])))
    assert seen[0].tolist() == [[-1.0, 1.0], [0.0, 0.5]]


# -- TD3 ---------------------------------------------------------------------------------------------------------------


def test_td3_blurs_the_targets_action_within_limits():
    algo = td3(target_noise=1000.0, target_noise_limit=0.5)
    algo.target_policy.unit = lambda observation: torch.tensor([[0.0, 0.8]] * 4)
    seen = []

    def values(observation, unit):
        seen.append(unit)
        return torch.tensor([[1.0] * 4, [2.0] * 4])

    algo.target.forward = values
    goal = algo.td_target(rows_of(reward=torch.zeros(4)))
    assert goal.tolist() == pytest.approx([0.9] * 4)
    assert set(seen[0][:, 0].tolist()) <= {-0.5, 0.5}  # noise of that size is always cut
    assert all(value in (pytest.approx(0.3), 1.0) for value in seen[0][:, 1].tolist())  # in its box


def test_the_policy_and_the_targets_wait_for_the_critics():
    algo = td3(policy_delay=3, tau=0.5)
    start = weights_of(algo.policy), weights_of(algo.target), weights_of(algo.target_policy), weights_of(algo.critics)
    for _ in range(2):
        algo.update(batch_of())
    now = weights_of(algo.policy), weights_of(algo.target), weights_of(algo.target_policy), weights_of(algo.critics)
    assert [torch.equal(a, b) for a, b in zip(start, now, strict=True)] == [True, True, True, False]
    algo.update(batch_of())
    now = weights_of(algo.policy), weights_of(algo.target), weights_of(algo.target_policy)
    assert not any(torch.equal(a, b) for a, b in zip(start, now, strict=False))


def test_targets_move_by_their_share():
    algo = td3(tau=0.1)
    for target, online in zip(algo._targets, algo._online, strict=True):
        target.fill_(0.0)
        online.data.fill_(10.0)
    for expected in (1.0, 1.9):
        algo.move_targets()
        moved = torch.cat((weights_of(algo.target), weights_of(algo.target_policy)))
        torch.testing.assert_close(moved, torch.full_like(moved, expected))
    assert not algo.target_policy.head.weight.requires_grad and algo.policy.head.weight.requires_grad


# -- all of them -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "wrong", [{"gamma": 1.5}, {"warmup": 100, "buffer_size": 50}, {"save_replay": "maybe"}, {"random_end": 2.0}]
)
def test_wrong_settings_are_refused_by_name(wrong):
    with pytest.raises(ValueError, match=f"algo.{next(iter(wrong))}"):
        DQNConfig(**wrong)


def test_actions_that_cannot_be_chosen_are_refused():
    with pytest.raises(ValueError, match=r"algo=sac or algo=td3.*env\.actions=discrete"):
        QPolicy(SEEN, TWO)
    for policy, name in ((SquashedGaussianPolicy, "sac"), (DeterministicPolicy, "td3")):
        with pytest.raises(ValueError, match=rf"algo={name} needs continuous actions.*algo=dqn"):
            policy(SEEN, Discrete(3))
        with pytest.raises(ValueError, match="bounded vector"):
            policy(SEEN, Box((2,)))
    for policy in (QPolicy, SquashedGaussianPolicy, DeterministicPolicy):
        with pytest.raises(ValueError, match="use algo=ppo"):
            policy(SEEN, Hybrid((-1.0,), (1.0,)))


@pytest.mark.parametrize("make", [dqn, sac, td3])
def test_gradients_are_averaged_before_they_are_clipped(make):
    algo = make(max_grad_norm=0.01)
    algo.average = lambda gradients: [x.mul_(1000.0) for x in gradients]
    algo.update(batch_of(action=torch.tensor([0, 1, 2, 0]) if make is dqn else None), 1)
    network = algo.policy if make is dqn else algo.critics
    norm = torch.cat([p.grad.flatten() for p in network.parameters()]).norm().item()
    assert norm == pytest.approx(0.01, rel=1e-3)
