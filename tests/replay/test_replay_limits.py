"""What a limit in bytes, a failed load, a closing buffer or whole-number rewards must not do."""

import numpy as np
import pytest
import torch
from helpers.memory import trim_heap
from replay_worlds import Worlds, plain, steps_of
from tensordict import TensorDict

from slipstream.algorithms.offpolicy import OffPolicyConfig, ReplayLearner
from slipstream.config.compose import load_train
from slipstream.monitor.gauges import memory_gauges
from slipstream.replay import HindsightSampler, ReplayBuffer, host_storage
from slipstream.storage import blocks
from slipstream.training.trainer import Trainer


def episode(first, length, width=8):
    numbers = np.arange(first, first + length + 1, dtype=np.float32)
    return {
        "observation": np.repeat(numbers[:, None], width, 1),
        "reward": numbers[:-1].copy(),
        "action": numbers[:-1, None].copy(),
    }


class SlowSealer:
    """Seals one in `every` blocks that are full, or none."""

    def __init__(self, every):
        self.every, self.count = every, 0

    def submit(self, seal, column):
        self.count += 1
        if self.every and self.count % self.every == 0:
            seal(column)


@pytest.mark.parametrize("every", [None, 4])
def test_data_faster_than_sealing_do_not_evict_others(every, monkeypatch):
    """A full-speed load seals blocks itself; what the memory cannot hold compressed leaves, nothing else."""
    monkeypatch.setattr(blocks, "SEALER", SlowSealer(every))
    limit, rng = 10_000_000, np.random.default_rng(0)
    frames = rng.integers(0, 4, (33, 20_000), np.uint8)  # four times smaller when sealed
    vectors = rng.integers(0, 200, (33, 500)).astype(np.float32)
    steps, nbytes = [], []
    with ReplayBuffer(capacity_bytes=limit) as buffer:
        for _ in range(90):
            buffer.add({"frame": frames, "vector": vectors, "reward": np.zeros(32, np.float32)})
            steps.append(len(buffer))
            nbytes.append(buffer.nbytes)
        full = next(k for k, (a, b) in enumerate(zip(steps, steps[1:], strict=False)) if b < a + 32)
        assert full < 60 and steps[full] > 600  # raw they would be 450
        assert min(nbytes[full:]) > 0.8 * limit and max(nbytes) < limit + 2**21
        assert min(steps[full:]) > 0.6 * max(steps)  # raw blocks, open and spare, are up to 6 of these 10 MB
        for column in buffer.stats()["columns"].values():
            assert column.get("backlog_bytes", 0) <= limit // 16


def test_a_batch_in_parts_is_the_same_steps(monkeypatch):
    """With a limit in bytes a batch longer than a part is added in parts: no step, end or successor differs."""
    monkeypatch.setattr(host_storage, "_MOST_WAITING", 700)
    worlds, found = Worlds(3, end=0.3), []
    batches = [worlds.batch(29) for _ in range(4)]
    for limit in ({"capacity": 10**6}, {"capacity_bytes": 10**8}):
        with ReplayBuffer(**limit) as buffer:
            for batch in batches:
                buffer.extend(batch)
            every = torch.arange(len(buffer))
            assert sorted(steps_of(buffer.get(every))) == sorted(
                plain([step for part in worlds.steps for step in part])
            )
            found.append(sorted(steps_of(buffer.get(every, n_step=3))))
    assert found[0] == found[1]


def test_a_limit_in_bytes_holds_after_a_load(tmp_path):
    large, small = ReplayBuffer(capacity_bytes=10**8), ReplayBuffer(capacity_bytes=600_000)
    for k in range(200):
        large.add(episode(100 * k, 100))
        small.add(episode(100 * k, 100))
    large.save(tmp_path)
    for load in (lambda b: b.load(tmp_path), lambda b: b.load_state_dict(large.state_dict())):
        loaded = ReplayBuffer(capacity_bytes=600_000)
        load(loaded)
        assert 0.75 * len(small) < len(loaded) < 20_000
        assert sum(c.settled_bytes for c in loaded._storage.memory.all_columns()) < 600_000
        loaded.add(episode(20_000, 100))
        batch = loaded.sample(64)
        assert torch.equal(batch["next", "observation"][:, 0], batch["observation"][:, 0] + 1)


def test_a_load_that_fails_leaves_what_is_there(tmp_path):
    buffer, other = ReplayBuffer(500, sampler="prioritized"), ReplayBuffer(500)
    buffer.add(episode(0, 50))
    other.add(episode(7, 20))
    buffer.sample(10)
    with pytest.raises(FileNotFoundError):
        buffer.load(tmp_path / "nothing")
    with pytest.raises(ValueError, match="UniformSampler"):
        buffer.load_state_dict(other.state_dict())
    assert len(buffer) == 50 and buffer.sample(50)["index"].max() < 50


@pytest.mark.parametrize("storage", ["cpu", "ring"])
def test_sums_of_integer_rewards_are_float32(storage):
    buffer, zeros = ReplayBuffer(100, storage=storage), torch.zeros(1, 6, 2)
    batch = {"observation": zeros, "reward": torch.tensor([[1, 1, 0, 3, 0, 0]]), "next": {"observation": zeros}}
    buffer.extend(batch)
    for gamma, sums in ((0.5, [1.5, 1.75, 1.5]), (1, [2, 4, 3])):
        drawn = buffer.get(torch.arange(3), n_step=3, gamma=gamma)["reward"]
        assert drawn.dtype == torch.float32 and drawn.tolist() == sums
    assert buffer.get(torch.arange(3))["reward"].dtype == torch.int64


def test_hindsight_refuses_rewards_it_could_not_write():
    sampler = HindsightSampler(lambda reached, goal: -np.abs(reached - goal)[:, 0], goal="goal", achieved="at")
    buffer = ReplayBuffer(100, sampler=sampler)
    at = np.arange(6, dtype=np.float32)[:, None]
    buffer.add({"at": at, "goal": at, "reward": np.zeros(5, np.int64)})
    with pytest.raises(TypeError, match="float32"):
        for _ in range(20):
            buffer.sample(16)


def test_a_refused_batch_leaves_no_trace():
    buffer = ReplayBuffer(50)
    batch = {
        "observation": torch.zeros(100, 1, 2),
        "reward": torch.zeros(100, 1),
        "next": {"observation": torch.zeros(100, 1, 2)},
    }
    with pytest.raises(ValueError, match="capacity"):
        buffer.extend(TensorDict(batch, [100, 1]))
    buffer.extend(TensorDict(batch, [100, 1])[:10])
    assert len(buffer) == 10


def test_a_warm_up_as_long_as_the_buffer_ends():
    class Algo:
        config = OffPolicyConfig(warmup=100, buffer_size=100, updates=1, batch_size=4)
        device = torch.device("cpu")
        policy = None
        updates = 0
        td_error = torch.zeros(0)

        def set_progress(self, progress):
            pass

        def update(self, drawn, steps):
            self.updates += steps
            return {"loss": torch.zeros(())}

    learner = ReplayLearner(Algo(), ReplayBuffer(100))
    for t in range(10):
        x = torch.full((7, 8, 2), float(t))
        ends = {"terminated": torch.zeros(7, 8, dtype=torch.bool), "truncated": torch.zeros(7, 8, dtype=torch.bool)}
        learner.update(TensorDict({"observation": x, "reward": x[..., 0], **ends, "next": {"observation": x}}, [7, 8]))
    assert learner.algo.updates == 9


def test_what_does_not_fit_at_all_is_not_loaded(tmp_path):
    saved, small = ReplayBuffer(100), ReplayBuffer(10)
    saved.add(episode(0, 20))
    saved.save(tmp_path)
    small.add(episode(0, 5))
    with pytest.raises(ValueError, match="larger"):
        small.load(tmp_path)
    assert len(small) == 5


def test_final_rows_of_several_observations_do_not_outvote_a_key_of_a_users_own():
    buffer = ReplayBuffer(100)
    buffer.add({"nodes": np.zeros((21, 3), np.float32), "edges": np.zeros((21, 4), np.float32), "score": np.arange(20)})
    assert len(buffer) == 20


@pytest.mark.parametrize("codec", ["raw", "auto"])
def test_what_a_filling_buffer_says_it_holds_is_what_the_process_has_grown_by(codec):
    read = memory_gauges().get("rss_mb") or pytest.skip("this system does not tell")
    noise = np.random.default_rng(0).integers(0, 256, (2001, 16384), np.uint8)  # 32 MB an episode that do not compress
    steps = np.zeros(2000, np.float32)
    trim_heap()
    with ReplayBuffer(8000, codec=codec) as buffer:
        seen = []
        for _ in range(5):
            buffer.add({"observation": noise, "reward": steps})
            seen.append((read(), buffer.host_bytes / 2**20))
        (first_rss, first_held), (rss, held) = seen[0], seen[3]
        assert 80 < held - first_held < 110 and rss - first_rss == pytest.approx(held - first_held, rel=0.25)
        assert seen[4][1] - held < 40  # full: what comes takes the place of what leaves
        assert buffer.host_bytes <= buffer.nbytes


def test_a_training_tells_the_monitor_what_its_replay_buffer_holds():
    words = "algo=td3 task=gym env.id=Pendulum-v1 env.num_envs=8 device=cpu wandb.mode=disabled"
    job = Trainer(load_train(words.split()))
    monitor = job.monitor
    job.learner.buffer.add(episode(0, 50))
    monitor.tick()
    monitor.tick()
    assert monitor.metrics()["replay_mb"] == job.learner.buffer.host_bytes / 2**20 > 0
    assert monitor.gauges.parts == ["replay_mb"]
