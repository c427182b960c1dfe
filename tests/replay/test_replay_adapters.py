"""Other libraries on our storage, unchanged."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
import torch
from tensordict import NonTensorData, TensorDict, tensorclass

pytest.importorskip("torchrl")
pytest.importorskip("stable_baselines3")

import gymnasium as gym  # noqa: E402
from stable_baselines3 import DQN, SAC, TD3  # noqa: E402
from stable_baselines3.common.buffers import DictReplayBuffer as Sb3DictReplayBuffer  # noqa: E402
from stable_baselines3.common.buffers import ReplayBuffer as Sb3ReplayBuffer  # noqa: E402
from torchrl.data import LazyTensorStorage, TensorDictReplayBuffer  # noqa: E402
from torchrl.data import ReplayBuffer as TorchRLReplayBuffer  # noqa: E402
from torchrl.data.replay_buffers.samplers import (  # noqa: E402
    PrioritizedSampler,
    RandomSampler,
    SamplerWithoutReplacement,
    SliceSampler,
)

from slipstream.replay.adapters.sb3 import SlipstreamReplayBuffer  # noqa: E402
from slipstream.replay.adapters.torchrl import SlipstreamStorage  # noqa: E402
from slipstream.replay.samplers import Sampler  # noqa: E402


def transitions(number, seed):
    """As TorchRL's collectors give them: root and next, episodes ending now and then."""
    torch.manual_seed(seed)
    x, done = torch.randn(number + 1, 40), torch.rand(number, 1) < 0.1
    after = torch.where(done, torch.randn(number, 40), x[1:])
    tree = {"observation": x[:-1], "action": torch.randn(number, 2), "done": torch.zeros(number, 1, dtype=torch.bool)}
    return TensorDict(tree | {"next": {"observation": after, "reward": torch.randn(number, 1), "done": done}}, [number])


@pytest.mark.parametrize(
    "sampler",
    [
        RandomSampler,
        SamplerWithoutReplacement,
        lambda: SliceSampler(slice_len=4, end_key=("next", "done"), strict_length=False),
        lambda: PrioritizedSampler(100, 0.7, 0.5),
    ],
)
def test_torchrl_draws_the_same_from_our_storage_as_from_its_own(sampler):
    try:
        sampler()
    except RuntimeError as error:  # TorchRL's own native trees are not there for every version of torch
        pytest.skip(str(error))
    storages = (SlipstreamStorage(100), LazyTensorStorage(100))
    ours, theirs = (TensorDictReplayBuffer(storage=storage, sampler=sampler(), batch_size=32) for storage in storages)
    for k in range(12):
        data = transitions(17, k)
        for buffer in (ours, theirs):
            buffer.extend(data.clone())
        assert len(ours) == len(theirs)
        drawn = []
        for buffer in (ours, theirs):
            torch.manual_seed(k)
            np.random.seed(k)
            drawn.append(buffer.sample())
        for key in drawn[1].keys(True, True):
            assert torch.equal(drawn[0][key].float(), drawn[1][key].float()), key


def test_torchrls_plain_buffer_adds_and_reads_single_transitions():
    buffer = TorchRLReplayBuffer(storage=SlipstreamStorage(20), batch_size=8)
    data = transitions(50, 0)
    for k in range(50):
        buffer.add(data[k])
    assert len(buffer) == 20
    assert torch.equal(buffer[:]["observation"], torch.cat([data["observation"][40:], data["observation"][30:40]]))
    assert torch.equal(buffer[3]["next", "observation"], data["next", "observation"][43])
    assert buffer.sample()["action"].shape == (8, 2)


NUMBER = 7  # transitions in a storage of 10
MASK = torch.tensor([True, False, False, True, True, False, True])
SLOTS = [
    *(0, -1, 6, -7, np.int64(2), np.array(2), torch.tensor(3), torch.tensor(-1, dtype=torch.int32)),
    *(slice(None), slice(-3, None), slice(None, None, 2), slice(5, 2), range(3), range(0)),
    *([1, -2], (slice(2),), None, Ellipsis, torch.tensor([0, -1]), torch.tensor([], dtype=torch.int64)),
    *(torch.tensor([[1, 2], [3, -1]]), np.array([[1, 2], [3, -1]]), MASK, MASK.numpy(), MASK & False),
    *(7, -8, [7], torch.tensor([-8]), torch.ones(10, dtype=torch.bool)),
]


def data_of(kind):
    """Seven transitions."""
    torch.manual_seed(0)
    x, y, n = torch.randn(NUMBER, 3), torch.randn(NUMBER), NUMBER
    odd = {"index": 3 * torch.arange(n), "discount": y, "weight": y, "mask": y > 0, "data": y, "reward": x}
    odd["done"] = x > 0
    return {
        "tensordict": lambda: TensorDict(
            {"a": x, "b": {"c": y}, "next": {"a": x + 1, "done": y > 0, "reward": y}}, [n]
        ),
        "names that mean something to us": lambda: TensorDict({**odd, "next": odd}, [n]),
        "lazy stack": lambda: torch.stack([TensorDict({"a": x[i]}) for i in range(n)]),
        "list of tensordicts": lambda: [TensorDict({"a": x[i]}) for i in range(n)],
    }[kind]()


KINDS = ["tensordict", "names that mean something to us", "lazy stack", "list of tensordicts"]


def described(data):
    """Batch size and contents of what a storage returned."""
    return data.batch_size, {key: (x.dtype, x.tolist()) for key, x in data.items(True, True)}


@tensorclass
class Moment:
    x: torch.Tensor


@pytest.mark.parametrize("index", SLOTS, ids=str)
def test_slots_are_taken_as_lazytensorstorage_takes_them(index):
    ours, theirs = SlipstreamStorage(10), LazyTensorStorage(10)
    for storage in (ours, theirs):
        storage.set(range(NUMBER), data_of("tensordict"))
    try:
        expected = theirs[index]
    except IndexError:
        with pytest.raises(IndexError):
            ours[index]
    except AssertionError:  # torch 2.10 asserts on a mask of NumPy
        assert index.dtype == bool
    else:
        assert described(ours[index]) == described(expected)


@pytest.mark.parametrize("kind", KINDS)
def test_data_come_back_as_from_lazytensorstorage(kind):
    ours, theirs = SlipstreamStorage(10), LazyTensorStorage(10)
    for storage in (ours, theirs):
        storage.set(range(NUMBER), data_of(kind))
        storage.set(torch.tensor([7, 8, 9, 0, 1, 2, 3]), data_of(kind))  # the oldest are overwritten
    for index in (slice(None), -1, torch.tensor([[0, 9], [3, 4]]), torch.arange(10) > 5):
        assert described(ours[index]) == described(theirs[index])


@pytest.mark.parametrize("kind", KINDS)
def test_states_dumps_and_copies_keep_the_structure(kind, tmp_path):
    storage, state, dumped = (SlipstreamStorage(10) for _ in range(3))
    storage.set(range(NUMBER), data_of(kind))
    state.load_state_dict(storage.state_dict())
    storage.dumps(tmp_path)
    dumped.loads(tmp_path)
    for other in (state, dumped, pickle.loads(pickle.dumps(storage)), copy.deepcopy(storage)):
        assert described(other[:]) == described(storage[:])


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (
            lambda: TensorDict({"a": torch.zeros(2), "s": NonTensorData("x", batch_size=[2])}, [2]),
            "'s' is a NonTensorData",
        ),
        (lambda: {"a": torch.zeros(2)}, "a dict: a SlipstreamStorage takes TensorDicts"),
        (lambda: Moment(x=torch.zeros(2), batch_size=[2]), "a Moment: a SlipstreamStorage takes TensorDicts"),
        (
            lambda: TensorDict({"a": torch.zeros(2).to(torch.float8_e5m2)}, [2]),
            "float8_e5m2, which NumPy does not have",
        ),
        (lambda: TensorDict({}, [2]), "without keys"),
    ],
)
def test_what_cannot_be_stored_is_refused(data, message):
    storage = SlipstreamStorage(10)
    with pytest.raises((TypeError, ValueError), match=message):
        storage.set(range(2), data())
    assert len(storage) == 0


@pytest.mark.parametrize("max_size", [-5, 0, 2.5])
def test_a_storage_of_no_slots_is_refused(max_size):
    with pytest.raises(ValueError, match=f"max_size={max_size} must be at least 1"):
        SlipstreamStorage(max_size)


@pytest.mark.parametrize("settings", [{"ndim": 2}, {"compilable": True}, {"device": "auto"}])
def test_settings_of_other_storages_are_refused(settings):
    with pytest.raises(ValueError, match=next(iter(settings))):
        SlipstreamStorage(10, **settings)


def test_changes_in_place_are_refused():
    buffer = TensorDictReplayBuffer(storage=SlipstreamStorage(10), batch_size=2)
    with pytest.raises(RuntimeError, match="nothing was written to the SlipstreamStorage yet"):
        buffer[:]
    buffer.extend(data_of("tensordict"))
    for change in (
        lambda: buffer.set_("a", torch.zeros(NUMBER, 3)),
        lambda: buffer.set_at_("a", torch.zeros(3), 0),
        lambda: buffer.update_({"a": torch.zeros(NUMBER, 3)}),
        lambda: buffer.__setitem__(0, data_of("tensordict")[0]),
    ):
        with pytest.raises(NotImplementedError, match="LazyTensorStorage"):
            change()
    assert torch.equal(buffer[:]["a"], data_of("tensordict")["a"])


def test_a_batch_of_several_envs_must_be_flat():
    buffer = TensorDictReplayBuffer(storage=SlipstreamStorage(100), batch_size=8)
    with pytest.raises(ValueError, match=r"\[4, 5\] must be \[n\]: write buffer.extend\(batch.reshape\(-1\)\)"):
        buffer.extend(transitions(20, 0).reshape(4, 5))


def feed(buffers, number, steps, dict_space, seed=0):
    """The same random steps into several SB3 buffers, with ends and timeouts."""
    rng = np.random.default_rng(seed)

    def observe():
        x = rng.normal(size=(number, 30)).astype(np.float32)
        return {"x": x, "y": rng.integers(0, 255, (number, 1, 9, 9), dtype=np.uint8)}

    now = observe()
    for t in range(steps):
        after, fresh, done = observe(), observe(), rng.random(number) < 0.1
        infos = [{"TimeLimit.truncated": bool(d and rng.random() < 0.5)} for d in done]
        action, reward = rng.normal(size=(number, 2)).astype(np.float32), 1000.0 * t + np.arange(number)
        for buffer in buffers:
            buffer.add(*((now, after) if dict_space else (now["x"], after["x"])), action, reward, done, infos)
        now = {k: np.where(done.reshape(-1, *[1] * (x.ndim - 1)), fresh[k], x) for k, x in after.items()}


@pytest.mark.parametrize("dict_space", [False, True])
@pytest.mark.parametrize("number", [1, 3])
def test_sb3_samples_hold_what_its_own_buffer_holds(dict_space, number):
    box = gym.spaces.Box(-1, 1, (30,))
    space = gym.spaces.Dict({"x": box, "y": gym.spaces.Box(0, 255, (1, 9, 9), np.uint8)}) if dict_space else box
    action = gym.spaces.Box(-1, 1, (2,))
    ours = SlipstreamReplayBuffer(90, space, action, n_envs=number)
    theirs = (Sb3DictReplayBuffer if dict_space else Sb3ReplayBuffer)(200 * number, space, action, n_envs=number)
    feed((ours, theirs), number, 200, dict_space)
    assert ours.size() == 90 // number
    drawn = ours.sample(1000)
    rewards = drawn.rewards[:, 0].long().numpy()
    t, env = rewards // 1000, rewards % 1000  # where SB3 keeps the same transition
    for name in ("x", "y") if dict_space else (None,):
        for ours_, theirs_ in (
            (drawn.observations, theirs.observations),
            (drawn.next_observations, theirs.next_observations),
        ):
            a, b = (ours_, theirs_) if name is None else (ours_[name], theirs_[name])
            assert np.array_equal(a.numpy(), b[t, env])
    assert np.array_equal(drawn.actions.numpy(), theirs.actions[t, env])
    assert np.array_equal(drawn.dones[:, 0].numpy(), (theirs.dones * (1 - theirs.timeouts))[t, env])
    # the newest, an environment's share at a time
    assert 70 < len(set(rewards)) <= 90 and rewards.min() > 1000 * (200 - 2 * 90 / number)


def test_sb3_with_optimize_memory_usage_is_refused():
    space = gym.spaces.Box(-1, 1, (2,))
    with pytest.raises(ValueError, match="stored once anyway"):
        SlipstreamReplayBuffer(100, space, space, optimize_memory_usage=True)


def test_sb3_n_step_returns_come_with_their_discounts():
    space, action = gym.spaces.Box(-1, 1, (30,)), gym.spaces.Box(-1, 1, (2,))
    buffer = SlipstreamReplayBuffer(500, space, action, n_steps=3, gamma=0.9)
    feed((buffer,), 1, 100, dict_space=False)
    drawn = buffer.sample(200)
    assert {round(x, 4) for x in drawn.discounts.unique().tolist()} <= {0.9, 0.81, 0.729, 1.0}
    assert (drawn.discounts[drawn.dones == 1] == 1).all()


class Sb3Draws(Sampler):
    """Draws as SB3's own buffer does, from NumPy's global generator."""

    def draw(self, number, head, tail):
        steps = head + np.random.randint(0, tail - head, size=number)
        np.random.randint(0, high=1, size=(number,))  # it draws the environment, too
        return steps, None


@pytest.mark.parametrize(
    ("algorithm", "env", "steps"), [(DQN, "CartPole-v1", 800), (SAC, "Pendulum-v1", 300), (TD3, "Pendulum-v1", 300)]
)
def test_sb3_with_the_same_draws_learns_the_same_weights_on_our_buffer_as_on_its_own(algorithm, env, steps):
    settings = {
        "learning_starts": 150,
        "buffer_size": 5000,
        "policy_kwargs": {"net_arch": [16]},
        "device": "cpu",
        "seed": 3,
    }
    found = []
    for kind in (
        {},
        {"replay_buffer_class": SlipstreamReplayBuffer, "replay_buffer_kwargs": {"sampler": Sb3Draws(), "seed": 0}},
    ):
        model = algorithm("MlpPolicy", env, **settings, **kind)
        before = torch.cat([p.detach().flatten() for p in model.policy.parameters()])
        model.learn(steps)
        found.append(torch.cat([p.detach().flatten() for p in model.policy.parameters()]))
        assert not torch.equal(before, found[-1])
    assert torch.equal(*found)
