"""The raw ring on a device, here on a CPU; test_device_ring_gpu.py has what only a GPU can show."""

from __future__ import annotations

import threading

import numpy as np
import pytest
import torch
from device_rings import bits, counting, filled, on_gpu, ring, torn
from replay_worlds import Worlds, chi_square_holds

from slipstream.replay import HindsightSampler, PrioritizedSampler, ReplayBuffer
from slipstream.replay.device_storage import DeviceStorage, FrameRing


def test_every_drawable_step_comes_equally_often():
    buffer, _ = filled(1, end=0.3)
    drawn = buffer.sample(200 * len(buffer))["index"].numpy()
    counts = np.bincount(drawn - drawn.min())
    assert len(counts) == len(buffer) <= 200 and chi_square_holds(counts, 200)


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


@pytest.mark.parametrize("length", [1, 4])
@pytest.mark.parametrize("number", [1, 3])
@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=[pytest.mark.gpu, on_gpu])])
def test_ends_that_would_be_lost_are_refused(device, number, length):
    buffer = ring(100, device=device)
    batches = [counting(first, number, length, device) for first in (0, length, 99, 99 + length)]
    for batch in batches[1::2]:
        batch["terminated"][0, -1] = True  # in the last column; environment 0 resets at once
    for batch in batches[2:]:
        batch["observation"]["x"][1:] -= 99 - 2 * length
        batch["next"]["observation"]["x"][1:] -= 99 - 2 * length
    with pytest.raises(ValueError, match="reset in the same step .* use storage='cpu'"):
        for batch in batches[:3]:
            buffer.extend(batch)
        len(buffer)
    if device == "cpu":  # nothing of the batch was written
        assert len(buffer) == number * (2 * length - 1)
        buffer.extend(counting(2 * length, number, length))
        assert buffer.sample(100)["terminated"].any()


def test_an_end_whose_next_observation_comes_next_is_kept():
    buffer, batch = ring(100), counting(0, 2, 4)
    batch["truncated"][:, -1] = True
    buffer.extend(batch)
    buffer.extend(counting(4, 2, 4))
    assert len(buffer) == 2 * 7 and int(buffer["truncated"].sum()) == 2
    assert buffer.sample_slices(200, 8)["mask"].sum(1).max() == 4


def test_environments_that_begin_anew_may_lose_ends():
    buffer, single = ring(100), ring(100)
    for x, number in ((buffer, 2), (single, 1)):
        batch = counting(0, number, 4)
        batch["terminated"][0, -1] = True
        x.extend(batch)
    buffer.extend(counting(50, 2, 4))
    same = ring(100)
    same.load_state_dict(single.state_dict())
    same.extend(counting(50, 1, 4))
    assert len(buffer) == 2 * 6 and len(same) == 6


def test_states_and_files(tmp_path):
    buffer, _ = filled(0, capacity=300, batches=40)
    assert 200 < len(buffer) <= 300
    same, read = ring(300, seed=1), ring(300, seed=2)
    same.load_state_dict(buffer.state_dict())
    buffer.save(tmp_path)
    read.load(tmp_path)
    expected = buffer.sample(50)["index"].tolist()
    assert same.sample(50)["index"].tolist() == expected == read.sample(50)["index"].tolist()


def test_a_random_state_of_another_kind_of_device_is_a_new_seed(capsys):
    buffer, others = ring(300), [ring(300, seed=1), ring(300, seed=2)]
    buffer.extend(counting(0, 2, 10))
    state = buffer.state_dict() | {"rng": torch.arange(16, dtype=torch.uint8)}  # as CUDA's
    for other in others:
        other.load_state_dict(state)
    assert others[0].sample(50)["index"].tolist() == others[1].sample(50)["index"].tolist()
    assert "continue with a new seed" in capsys.readouterr().err


def test_what_a_ring_on_a_device_cannot_do_is_said():
    assert isinstance(ring(10)._storage, DeviceStorage)
    buffer, _ = filled(0)
    for call in (lambda: buffer.sample_episodes(2), lambda: buffer.add({"x": [0]})):
        with pytest.raises(NotImplementedError, match="need storage='cpu'"):
            call()
    with pytest.raises(ValueError, match="for storage='cpu'"):
        ring(10, spill_dir="x")
    with pytest.raises(ValueError, match="samples uniformly or by priority"):
        ring(10, sampler=HindsightSampler(np.subtract))
    batch = Worlds(2, end=0.0).batch(4).clone()
    batch["next", "observation", "x"][:, 1] += 1.0
    with pytest.raises(ValueError, match="is not .* one step later"):
        ring(100).extend(batch)


@pytest.mark.parametrize("length", [1, 7, 8, 9])
def test_batches_as_long_as_the_ring_leave_no_wrong_steps(length):
    buffer = ring(2 * 8)
    for k in range(20):
        buffer.extend(counting(k * length, 2, length))
        if k:
            assert torn(buffer.get(torch.arange(int(buffer._storage.ring.head), int(buffer._storage.ring.tail)))) == 0
            assert len(buffer) <= 16
    assert len(buffer) == 16
    with pytest.raises(ValueError, match=r"\[2, 10\] does not fit a ring of \[2, 9\]"):
        buffer.extend(counting(0, 2, 10))


def test_steps_that_have_left_or_are_to_come_are_not_returned():
    buffer = ring(2 * 8)
    for k in range(5):
        buffer.extend(counting(7 * k, 2, 7))
    head, tail = int(buffer._storage.ring.head), int(buffer._storage.ring.tail)
    assert head > 0 and len(buffer.get(np.array([head, tail - 1]))) == 2 and len(buffer.get(torch.arange(0))) == 0
    for step in (0, head - 1, tail, -1):
        with pytest.raises(IndexError, match=rf"steps outside \[{head}, {tail}\)"):
            buffer.get(torch.tensor([head, step]))


def test_a_capacity_that_environments_do_not_divide_is_not_exceeded():
    buffer = ring(20)
    for k in range(20):
        buffer.extend(counting(4 * k, 3, 4))
    assert len(buffer) == 18
    with pytest.raises(ValueError, match="give at least 3"):
        ring(2).extend(counting(0, 3, 1))


def test_a_write_waits_until_a_draw_has_read_its_rows(monkeypatch):
    buffer = ring(4 * 16)
    buffer.extend(counting(0, 4, 16))
    locate, writers = FrameRing.locate, []

    def interrupted(frames, steps):
        found = locate(frames, steps)
        writers.append(threading.Thread(target=lambda: buffer.extend(counting(16, 4, 16))))
        writers[-1].start()
        writers[-1].join(0.3)  # without turns it is through by then, and the rows found are others
        return found

    monkeypatch.setattr(FrameRing, "locate", interrupted)
    drawn = [buffer.sample(64), buffer.sample_slices(64, 1)[:, 0]]
    for writer in writers:
        writer.join()
    assert [torn(batch) for batch in drawn] == [0, 0]
    assert drawn[0]["reward"].remainder(1e6).max() < 16


def test_a_truncation_is_no_termination_whatever_keys_are_kept():
    for terminated, discounts in ((False, [0.5, 0.5, 0.5]), (True, [0.5, 0.5, 0.0])):
        for make in (ReplayBuffer, ring):
            buffer = make(100, keys=["observation", "reward"])
            batch = counting(0, 1, 5)
            batch["terminated" if terminated else "truncated"][0, 2] = True
            batch["valid"][0, 3] = False
            buffer.extend(batch)
            assert buffer.get(torch.arange(3), gamma=0.5)["discount"].tolist() == discounts


@pytest.mark.parametrize("sampler", ["uniform", "prioritized"])
@pytest.mark.parametrize("number", [1, 64])
def test_capacity_in_bytes_holds_to_the_byte(sampler, number):
    batch = counting(0, number, 1)
    row = (
        8 + 8 + 1 + 1 + 3 + 16 + 8 * (sampler == "prioritized")
    )  # x, reward, two flags kept, three of the ring, step and place, priority
    fixed = 8 * (4 + (sampler == "prioritized"))
    for spare, slots in ((0, 10), (row * number - 1, 10), (-1, 9)):
        given = 10 * row * number + fixed + spare
        buffer = ReplayBuffer(capacity_bytes=given, storage="ring", sampler=sampler)
        buffer.extend(batch)
        assert buffer.nbytes == slots * row * number + fixed <= given
    least = 3 * row * number + fixed
    with pytest.raises(ValueError, match=f"give at least {least}"):
        ReplayBuffer(capacity_bytes=least - 1, storage="ring", sampler=sampler).extend(batch)


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=[pytest.mark.gpu, on_gpu])])
@pytest.mark.parametrize("sampler", ["uniform", "prioritized"])
def test_a_ring_of_frames_but_no_steps_is_empty(sampler, device):
    buffer = ring(100, sampler=sampler, device=device)
    batch = counting(0, 2, 4, device)
    batch["valid"][:, :3] = False
    buffer.extend(batch)
    for draw in (lambda: buffer.sample(3), lambda: buffer.sample_slices(3, 2), lambda: buffer.get(torch.arange(1))):
        with pytest.raises(ValueError, match="empty"):
            draw()
    buffer.extend(counting(4, 2, 1, device))
    assert set(buffer.sample(20)["reward"].tolist()) == {3.0, 1e6 + 3}


def test_steps_of_slices_have_the_numbers_that_get_takes():
    buffer, _ = filled(3, sampler="prioritized")
    drawn = buffer.sample_slices(64, 5, burn_in=3)
    mask = drawn["mask"]
    assert not mask.all() and (drawn["index"][~mask] == -1).all()
    assert torch.equal(buffer.get(drawn["index"][mask])["action"], drawn["action"][mask])
    buffer.update_priority(drawn["index"], torch.ones(64, 8))  # -1 is passed over


def test_a_state_keeps_how_priorities_are_used(tmp_path):
    buffer, _ = filled(1, sampler=PrioritizedSampler(alpha=0.9, beta=0.7, eps=0.01))
    state = buffer.state_dict()
    buffer.save(tmp_path)
    for load in (lambda other: other.load_state_dict(state), lambda other: other.load(tmp_path)):
        other = ring(200, sampler="prioritized")
        load(other)
        assert (other.sampler.alpha, other.sampler.beta, other.sampler.eps) == (0.9, 0.7, 0.01)
    with pytest.raises(ValueError, match="is of a PrioritizedSampler"):
        ring(200).load_state_dict(state)


def test_a_state_that_does_not_fit_changes_nothing():
    buffer, other = filled(1)[0], filled(2, capacity=100)[0]
    before = other.state_dict()
    with pytest.raises(ValueError, match="the same capacity"):
        other.load_state_dict(buffer.state_dict())
    after = other.state_dict()
    assert all(
        torch.equal(after[name], value)
        for name, value in before.items()
        if name in ("frames", "step", "ring/action", "rng")
    )


def test_priorities_that_are_not_finite_change_nothing():
    buffer, _ = filled(1, sampler="prioritized")
    before = buffer.state_dict()
    buffer.update_priority(buffer.sample(3)["index"], torch.tensor([torch.nan, torch.inf, -torch.inf]))
    after = buffer.state_dict()
    assert torch.equal(before["priority"][:-1], after["priority"][:-1]) and torch.equal(
        before["largest"], after["largest"]
    )
    with pytest.raises(ValueError, match="give one for each"):
        buffer.update_priority(torch.arange(3), torch.ones(2))
