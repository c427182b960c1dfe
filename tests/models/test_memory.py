"""Memory of policies: one step against the unrolled sequence, its gradient, and the stepper that carries it."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from slipstream.algorithms.base import build_network
from slipstream.algorithms.ppo import PPO, PPOConfig
from slipstream.envs.specs import Box
from slipstream.models import ActorCritic, Memory, ModelConfig, Stepper, action_head, build_encoder, build_memory
from slipstream.models.memory import GRUMemory, StackMemory
from slipstream.tasks.aircombat.env import AirCombatConfig, AirCombatEnv
from slipstream.tasks.aircombat.league.policies import LearnedAgent

N, T, INPUTS = 3, 7, 5
SPEC = {"a": Box((INPUTS,))}
ACTION = Box((2,), -1.0, 1.0)


class Sum(Memory):
    """A memory of the user's own, by one step alone: the running sum of the features."""

    size = width = INPUTS

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, features, memory):
        return memory + self.scale * features, memory + self.scale * features


def memories():
    torch.manual_seed(0)
    layered = GRUMemory(INPUTS, 4, nn.Sequential(nn.Linear(INPUTS + 4, INPUTS), nn.Tanh()))
    return [GRUMemory(INPUTS, 4).double(), layered.double(), StackMemory(INPUTS, 3).double(), Sum().double()]


@pytest.fixture(params=memories(), ids=lambda memory: type(memory).__name__)
def memory(request):
    return copy.deepcopy(request.param)


def sequence():
    """Features [T, N, inputs], a memory to begin with, and frames that reset: two in one env, one at the very end."""
    generator = torch.Generator().manual_seed(1)
    features = torch.randn(T, N, INPUTS, generator=generator, dtype=torch.float64)
    valid = torch.ones(T, N, dtype=torch.bool)
    valid[1, 0] = valid[4, 0] = valid[T - 1, 1] = False
    return features, valid


def step_by_step(memory, features, start, valid):
    """The definition: one step after another; a frame that resets clears what comes after it."""
    found, state = [], start
    for x, kept in zip(features, valid, strict=True):
        out, state = memory(x, state)
        state = torch.stack([one if keeps else torch.zeros_like(one) for one, keeps in zip(state, kept, strict=True)])
        found.append(out)
    return torch.stack(found)


def test_unrolled_equals_step_by_step_with_its_gradient(memory):
    features, valid = sequence()
    start = torch.randn(N, memory.size, dtype=torch.float64)
    weight = torch.randn(T, N, memory.width, dtype=torch.float64)
    gradients = []
    for run in (
        lambda x, s: step_by_step(memory, x, s, valid),
        lambda x, s: memory.unroll(x.flatten(0, 1), s, valid.flatten()).unflatten(0, (T, N)),
    ):
        x, s = features.clone().requires_grad_(), start.clone().requires_grad_()
        out = run(x, s)
        gradients.append([out, *torch.autograd.grad((out * weight).sum(), [x, s, *memory.parameters()])])
    for mine, expected in zip(*gradients, strict=True):
        torch.testing.assert_close(mine, expected, rtol=1e-10, atol=1e-12)


def test_an_episode_end_cuts_the_gradient(memory):
    features, valid = sequence()
    features.requires_grad_()
    start = torch.zeros(N, memory.size, dtype=torch.float64)
    out = memory.unroll(features.flatten(0, 1), start, valid.flatten()).unflatten(0, (T, N))
    (gradient,) = torch.autograd.grad(out[5, 0].square().sum(), features)
    used = gradient[:, 0].abs().sum(-1) > 0
    assert not used[:5].any()  # frame 4 only reset env 0
    assert used[5]
    (gradient,) = torch.autograd.grad(
        memory.unroll(features.flatten(0, 1), start, valid.flatten()).unflatten(0, (T, N))[4, 0].square().sum(),
        features,
    )
    assert (gradient[2:5, 0].abs().sum(-1) > 0).all()  # the final observation of an episode still has its memory
    assert not gradient[:2, 0].any()


def test_the_gru_computes_what_grucell_computes():
    memory = memories()[0]
    features, _ = sequence()
    state = torch.randn(N, 4, dtype=torch.float64)
    out, after = memory(features[0], state)
    torch.testing.assert_close(after, memory.cell(features[0], state))
    assert torch.equal(out, torch.cat((features[0], after), -1))


def test_the_stack_reads_the_last_observations():
    torch.manual_seed(0)
    memory = StackMemory(2, 3)
    memory.layer = nn.Identity()
    state = torch.zeros(1, memory.size)
    for k in range(1, 5):
        seen, state = memory(torch.full((1, 2), float(k)), state)
        assert seen.tolist() == [[float(max(0, frame)) for frame in (k - 2, k - 1, k) for _ in range(2)]]


@pytest.mark.parametrize("kind", ["gru", "stack"])
def test_a_stepper_carries_and_clears_the_memory(kind):
    torch.manual_seed(0)
    policy = build_network({"name": "ppo"}, SPEC, ACTION, ModelConfig(trunk=[8], memory=kind, hidden_size=4))
    stepper, x = Stepper(policy, 2, "cpu"), {"a": torch.randn(2, INPUTS)}
    with torch.no_grad():
        first = stepper(x)
        stepper.keep(torch.tensor([True, False]))
        second = stepper(x)
    assert not torch.equal(second["value"][0], first["value"][0])
    assert torch.equal(second["value"][1], first["value"][1])
    assert "memory" not in x


def test_wrong_settings_are_refused():
    with pytest.raises(ValueError, match="unknown model.memory 'lstm': use one of none, gru, stack"):
        ModelConfig(memory="lstm")
    with pytest.raises(ValueError, match="model.stack"):
        ModelConfig(stack=1)
    for name in ("sac", "dqn", "td3"):
        with pytest.raises(
            ValueError, match=f"model.memory=gru needs algo=ppo or algo=bc: algo={name} learns from single steps"
        ):
            build_network({"name": name}, SPEC, ACTION, ModelConfig(memory="gru"))
    with pytest.raises(ValueError, match="an observation named 'memory'"):
        build_network({"name": "ppo"}, {"memory": Box((2,))}, ACTION, ModelConfig(memory="gru"))


class Net(ActorCritic):
    """The user's own network with the memory of `model.memory`."""

    def __init__(self, observation_spec, action_spec, config):
        from slipstream.models import build_encoder

        encoder = build_encoder(observation_spec, config)
        memory = build_memory(encoder.width, config)
        width = encoder.width if memory is None else memory.width
        super().__init__(encoder, action_head(width, action_spec), config, memory)


class Forgetful(Net):
    """Has a memory and does not return it."""

    def forward(self, observation):
        found = super().forward(observation)
        return {name: found[name] for name in ("action", "log_prob", "value")}


class Memoryless(ActorCritic):
    def __init__(self, observation_spec, action_spec, config):
        from slipstream.models import build_encoder

        encoder = build_encoder(observation_spec, config)
        super().__init__(encoder, action_head(encoder.width, action_spec), config)


def test_own_networks_have_memory_by_the_same_contract():
    def build(kind, memory):
        config = ModelConfig(trunk=[8], policy=f"{__name__}:{kind}", memory=memory)
        return build_network({"name": "ppo"}, SPEC, ACTION, config)

    assert build("Net", "gru").memory_size == 128
    assert build("Net", "none").memory_size == 0
    with pytest.raises(ValueError, match=r"model.memory=gru: .*Memoryless has no memory"):
        build("Memoryless", "gru")
    with pytest.raises(ValueError, match=r"it must return the entry 'memory' \[2, 128\], not NoneType"):
        build("Forgetful", "gru")


class Broken(Sum):
    """A memory whose `change` is a mistake."""

    def __init__(self, change):
        super().__init__()
        self.change = change
        if change == "size":
            self.size = None

    def forward(self, features, memory):
        found = super().forward(features, memory)
        return {"width": (found[0][:, 1:], found[1]), "single": found[0]}.get(self.change, found)


@pytest.mark.parametrize(
    ("memory", "message"),
    [
        (nn.Identity(), r"Identity: a memory subclasses slipstream\.models\.Memory"),
        (Broken("size"), r"Broken: set self\.size and self\.width"),
        (Broken("width"), r"Broken: for 2 environments it must return features \[2, 5\], not \[2, 4\]"),
        (Broken("single"), r"and the memory \[2, 5\], not NoneType"),
    ],
)
def test_mistakes_in_an_own_memory_are_named(memory, message):
    encoder = build_encoder(SPEC, ModelConfig(trunk=[INPUTS]))
    with pytest.raises(ValueError, match=message):
        ActorCritic(encoder, action_head(INPUTS, ACTION), ModelConfig(), memory)


def test_an_agent_of_a_duel_carries_its_memory():
    env = AirCombatEnv(2, "cpu", config=AirCombatConfig(num_envs=2))
    torch.manual_seed(0)
    policy = build_network({"name": "ppo"}, env.observation_spec, env.action_spec, ModelConfig(memory="gru"))
    for parameter in policy.actor.parameters():
        nn.init.normal_(parameter)
    agent, view = LearnedAgent(2, policy=policy), env.reset()
    first, second = agent.act(view), agent.act(view)
    assert not torch.equal(first, second)
    assert agent.state_tensors()["memory"].any()
    agent.reset(torch.tensor([True, False]))
    third = agent.act(view)
    assert torch.equal(third[0], first[0])
    assert not torch.equal(third[1], first[1])
    assert LearnedAgent(2).state_tensors() == {}


def test_minibatches_of_environments_must_divide():
    policy = build_network({"name": "ppo"}, SPEC, ACTION, ModelConfig(memory="gru"))
    learner = PPO(policy, PPOConfig(rollout_steps=8, minibatches=4))
    learner.check_batch(8 * 8)
    with pytest.raises(
        ValueError, match="a batch of 6 environments does not divide into algo.minibatches=4: .* such as 3$"
    ):
        learner.check_batch(6 * 8)
