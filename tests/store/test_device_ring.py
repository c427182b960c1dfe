"""The raw ring on a device; on a CPU here, and on a GPU that must never be waited for."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from replay_worlds import Worlds

from slipstream.store import PrioritizedSampler, ReplayBuffer
from slipstream.store.device_ring import DeviceReplayBuffer


def ring(capacity, **settings):
    return DeviceReplayBuffer(capacity, storage="cpu", **settings)


def filled(seed, number=3, capacity=200, batches=25, end=0.1, **settings):
    rng = np.random.default_rng(seed)
    worlds, buffer = Worlds(number, seed, end), ring(capacity, seed=seed, **settings)
    for _ in range(batches):
        buffer.extend(worlds.batch(int(rng.integers(1, 12))))
    return buffer, {step.observation: step for batch in worlds.steps for step in batch}


def bits(row):
    return row.numpy().tobytes()


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("sampler", ["uniform", "prioritized"])
def test_transitions_are_those_of_the_worlds(seed, sampler):
    buffer, steps = filled(seed, sampler=sampler)
    drawn = buffer.sample(256)
    for k in range(256):
        step = steps[bits(drawn["observation", "x"][k])]
        assert bits(drawn["next", "observation", "x"][k]) == step.successor
        values = tuple(drawn[key][k].item() for key in ("action", "reward", "terminated", "truncated"))
        assert values == (step.action, pytest.approx(step.reward), step.terminated, step.truncated)
        assert drawn["discount"][k] == pytest.approx(0.0 if step.terminated else 0.99)
    assert torch.equal(buffer.get(drawn["index"])["action"], drawn["action"])


@pytest.mark.parametrize("seed", range(4))
def test_n_steps_go_as_far_as_the_episode_and_what_is_drawable(seed):
    buffer, steps = filled(seed)
    drawn = buffer.sample(128, n_step=4, gamma=0.9)
    for k in range(128):
        window = [steps[bits(drawn["observation", "x"][k])]]
        while bits(drawn["next", "observation", "x"][k]) != window[-1].successor:
            assert not window[-1].done
            window.append(steps[window[-1].successor])
        assert len(window) <= 4
        known = steps.get(window[-1].successor)
        stopped = window[-1].done or known is None or known.successor not in steps  # the newest step waits for its stream to go on
        assert len(window) == 4 or stopped
        assert drawn["reward"][k] == pytest.approx(sum(0.9**j * s.reward for j, s in enumerate(window)), abs=1e-5)
        assert drawn["discount"][k] == pytest.approx(0.0 if window[-1].terminated else 0.9 ** len(window))


def test_slices_stay_within_an_episode():
    buffer, steps = filled(2)
    drawn = buffer.sample_slices(64, 5, burn_in=3)
    assert drawn["mask"][:, 3].all()
    for k in range(64):
        for j in range(8):
            x = drawn["observation", "x"][k, j]
            if not drawn["mask"][k, j]:
                assert not x.any()
                continue
            step = steps[bits(x)]
            assert bits(drawn["next", "observation", "x"][k, j]) == step.successor
            if j < 7 and drawn["mask"][k, j + 1]:
                assert bits(drawn["observation", "x"][k, j + 1]) == step.successor and not step.done


def test_every_drawable_step_comes_equally_often():
    buffer, _ = filled(1, end=0.3)
    drawn = buffer.sample(200 * len(buffer))["index"].numpy()
    counts = np.bincount(drawn - drawn.min())
    assert len(counts) == len(buffer) <= 200
    assert ((counts - 200) ** 2 / 200).sum() < len(counts) + 5 * np.sqrt(2 * len(counts))


def test_priorities_decide_on_a_device_too():
    buffer, _ = filled(1, sampler=PrioritizedSampler(alpha=1.0, beta=1.0))
    index = buffer.get(torch.arange(int(buffer._frames.head), int(buffer._frames.tail)))["index"]
    priority = torch.linspace(0.5, 3, len(index), dtype=torch.float64)
    buffer.update_priority(index, priority)
    batch = buffer.sample(200 * len(index))
    counts = torch.bincount(batch["index"] - index[0], minlength=len(index)).numpy()
    expected = (priority / priority.sum() * 200 * len(index)).numpy()
    assert ((counts - expected) ** 2 / expected).sum() < len(counts) + 5 * np.sqrt(2 * len(counts))
    assert torch.allclose(batch["weight"].double(), 0.5 / priority[batch["index"] - index[0]], rtol=1e-4)


def test_a_stream_that_does_not_go_on_loses_its_last_step_only():
    worlds, buffer = Worlds(2, end=0.0), ring(100)
    buffer.extend(worlds.batch(5))
    worlds.observation = worlds._fresh(2)
    buffer.extend(worlds.batch(5))
    assert len(buffer) == 2 * (4 + 4)
    known = {step.observation: step for batch in worlds.steps for step in batch}
    drawn = buffer.sample(200)
    pairs = zip(drawn["observation", "x"], drawn["next", "observation", "x"], strict=True)
    assert all(bits(after) == known[bits(now)].successor for now, after in pairs)


def test_whole_episodes_and_states_and_files(tmp_path):
    rng = np.random.default_rng(0)
    buffer = ring(300)
    for _ in range(30):
        length = int(rng.integers(1, 40))
        x = rng.normal(size=(length + 1, 2)).astype(np.float32)
        buffer.add({"x": x[:-1], "next_x": x[1:], "reward": x[:-1, 0] + x[1:, 0], "done": np.arange(length) == length - 1})
    drawn = buffer.sample(100)
    assert torch.equal(drawn["x"][:, 0] + drawn["next_x"][:, 0], drawn["reward"])
    assert 200 < len(buffer) <= 300
    same, read = ring(300, seed=1), ring(300, seed=2)
    same.load_state_dict(buffer.state_dict())
    buffer.save(tmp_path)
    read.load(tmp_path)
    expected = buffer.sample(50)["index"].tolist()
    assert same.sample(50)["index"].tolist() == expected == read.sample(50)["index"].tolist()


def test_what_a_ring_on_a_device_cannot_do_is_said():
    assert isinstance(ReplayBuffer.__new__(ReplayBuffer, 10, storage="cuda"), DeviceReplayBuffer)
    buffer, _ = filled(0)
    with pytest.raises(NotImplementedError, match="storage='cpu'"):
        buffer.sample_episodes(2)
    with pytest.raises(ValueError, match="for storage='cpu'"):
        ring(10, spill_dir="x")
    with pytest.raises(ValueError, match="draws uniformly or by priority"):
        ring(10, sampler="without_replacement")
    batch = Worlds(2, end=0.0).batch(4).clone()
    batch["next", "observation", "x"][:, 1] += 1.0
    with pytest.raises(ValueError, match="is not .* one step on"):
        ring(100).extend(batch)


on_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


@pytest.mark.gpu
@on_gpu
@pytest.mark.parametrize("sampler", ["uniform", "prioritized"])
def test_on_a_gpu_nothing_waits_and_the_batches_are_right(sampler):
    worlds = Worlds(4, end=0.1)
    batches = []
    for _ in range(12):
        batch = worlds.batch(6)
        rows = torch.cat([batch["observation", "x"], batch["next", "observation", "x"][:, -1:]], 1).transpose(0, 1).contiguous().cuda()
        moved = batch.to("cuda")
        moved["observation"] = {"x": rows[:-1].transpose(0, 1)}
        moved["next"] = {"observation": {"x": rows[1:].transpose(0, 1)}}
        batches.append(moved)
    buffer = ReplayBuffer(200, storage="cuda", device="cuda", sampler=sampler)
    buffer.extend(batches[0])
    buffer.sample(64, n_step=3)
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        for batch in batches[1:]:
            buffer.extend(batch)
            drawn = buffer.sample(64, n_step=3)
            buffer.sample_slices(16, 4, 2)
            if sampler == "prioritized":
                buffer.update_priority(drawn["index"], torch.rand(64, device="cuda"))
    finally:
        torch.cuda.set_sync_debug_mode("default")
    known = {step.observation: step for batch in worlds.steps for step in batch}
    drawn = buffer.sample(256).cpu()
    for a, b in zip(drawn["observation", "x"], drawn["next", "observation", "x"], strict=True):
        assert bits(b) == known[bits(a)].successor


@pytest.mark.gpu
@on_gpu
def test_compressed_storage_puts_its_batches_on_the_gpu():
    x = np.random.default_rng(0).normal(size=(501, 40)).astype(np.float32)
    buffer = ReplayBuffer(1000, device="cuda")
    buffer.add({"observation": x, "reward": np.arange(500, dtype=np.float32)})
    held = [buffer.sample(64) for _ in range(30)]
    with buffer.prefetch(64, depth=3) as batches:
        held += [next(batches) for _ in range(30)]
    for batch in held:
        assert batch["observation"].is_cuda
        index = batch["index"].cpu().numpy()
        assert np.array_equal(batch["observation"].cpu().numpy(), x[index])
        assert np.array_equal(batch["next", "observation"].cpu().numpy(), x[index + 1])
