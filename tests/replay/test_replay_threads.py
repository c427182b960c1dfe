"""Adding and drawing from many threads: nothing torn, nothing stuck."""

from __future__ import annotations

import itertools
import threading
import time

import numpy as np
import pytest
import torch

from slipstream.replay import ReplayBuffer
from slipstream.storage.blocks import RawColumn

WIDTH = 50
RAMP = np.arange(WIDTH, dtype=np.float64)


def rows(first, number):
    """Observations that say which step they are in every element."""
    return (first + np.arange(number))[:, None] * 1000 + RAMP


def check(batch, mask=None):
    """Every observation is whole, and belongs to its reward and to its successor."""
    x, after, reward = batch["observation"].numpy(), batch["next", "observation"].numpy(), batch["reward"].numpy()
    if mask is not None:
        x, after, reward = x[mask], after[mask], reward[mask]
    step = x[:, 0] / 1000
    assert (x == step[:, None] * 1000 + RAMP).all()
    assert (after == (step[:, None] + 1) * 1000 + RAMP).all()
    assert (reward == step).all()


class Crowd:
    """Threads that go on until each has had its turns, and for some seconds at least; the first error of any is
    raised."""

    def __init__(self) -> None:
        self.errors: list[BaseException] = []

    def run(self, jobs, turns, seconds=0.0):
        end = time.monotonic() + seconds
        left = dict.fromkeys(range(len(jobs)), turns)

        def work(number, job):
            try:
                while not self.errors and (time.monotonic() < end or any(n > 0 for n in left.values())):
                    job()
                    left[number] -= 1
            except BaseException as error:
                self.errors.append(error)

        threads = [threading.Thread(target=work, args=item, daemon=True) for item in enumerate(jobs)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(seconds + 300)
        assert not any(thread.is_alive() for thread in threads), "a thread is stuck"
        if self.errors:
            raise self.errors[0]


def many_threads(turns, seconds=0.0, **settings):
    numbers = iter(range(0, 10**12, 10_000))
    lock = threading.Lock()
    rng = np.random.default_rng(0)

    def fresh():
        with lock:
            return next(numbers), int(rng.integers(1, 200))

    def add(buffer):
        first, length = fresh()
        reward = (first + np.arange(length)).astype(np.float64)
        buffer.add(
            {"observation": rows(first, length + 1), "reward": reward, "terminated": np.arange(length) == length - 1}
        )

    def extender(buffer, name):
        at = [fresh()[0] for _ in range(3)]

        def extend():
            x = torch.from_numpy(np.stack([rows(first, 21) for first in at]))
            reward = torch.from_numpy(np.stack([first + np.arange(20.0) for first in at]))
            batch = {"observation": x[:, :-1], "reward": reward, "terminated": torch.zeros(3, 20, dtype=torch.bool)}
            buffer.extend(batch | {"next": {"observation": x[:, 1:]}}, stream=name)
            at[:] = [first + 20 for first in at]

        return extend

    def stepper(buffer):
        at = [fresh()[0]]

        def step():
            now, after = rows(at[0], 2)
            buffer.add_step(observation=now, next_observation=after, reward=float(at[0]), terminated=False)
            at[0] += 1

        return step

    def sample(buffer):
        batch = buffer.sample(64)
        check(batch)
        buffer.update_priority(batch["index"], torch.rand(64))

    def slices(buffer):
        batch = buffer.sample_slices(8, 10, 5)
        check(batch, batch["mask"].numpy())

    with ReplayBuffer(4000, sampler="prioritized", **settings) as buffer:
        for _ in range(5):
            add(buffer)
        jobs = [lambda: add(buffer), lambda: add(buffer), extender(buffer, "a"), stepper(buffer)]
        jobs += [
            lambda: sample(buffer),
            lambda: sample(buffer),
            lambda: slices(buffer),
            lambda: check(buffer.sample(16, n_step=1)),
        ]
        Crowd().run(jobs, turns, seconds)
        assert len(buffer) <= 4000


@pytest.mark.parametrize("spills", [False, True])
@pytest.mark.parametrize("seconds", [0, pytest.param(60, marks=pytest.mark.soak)])
def test_eight_threads_add_and_draw_at_once(tmp_path, seconds, spills):
    many_threads(30, seconds, **({"spill_dir": tmp_path, "memory_budget": 1_500_000} if spills else {}))


@pytest.mark.parametrize("storage", ["cpu", "ring"])
def test_states_taken_beside_extend_are_complete(storage):
    """Each state is the buffer between two batches: it loads, and its steps belong together."""
    states = []
    with ReplayBuffer(2000, storage=storage) as buffer:
        first = 0

        def extend():
            nonlocal first
            x = torch.from_numpy(rows(first, 41))[None]
            reward = first + torch.arange(40.0, dtype=torch.float64)[None]
            ends = torch.zeros(1, 40, dtype=torch.bool)
            batch = {"observation": x[:, :-1], "reward": reward, "terminated": ends, "next": {"observation": x[:, 1:]}}
            buffer.extend(batch)
            first += 40

        extend()
        Crowd().run([extend, lambda: states.append(buffer.state_dict())], turns=25)
    for state in states[:25]:
        with ReplayBuffer(2000, storage=storage) as other:
            other.load_state_dict(state)
            stats = other.stats()
            assert (stats["steps_ever"] + (storage == "ring")) % 40 == 0
            check(other.get(torch.arange(stats["steps_ever"] - stats["steps"], stats["steps_ever"])))


def small_buffer(first=0):
    buffer = ReplayBuffer(1000)
    reward = first + np.arange(100.0)
    buffer.add({"observation": rows(first, 101), "reward": reward, "terminated": np.zeros(100, bool)})
    return buffer


def test_loading_beside_draws_gives_the_old_or_the_new():
    buffer = small_buffer()
    states = itertools.cycle([buffer.state_dict(), small_buffer(5000).state_dict()])
    draw = lambda: check(buffer.sample(32))  # noqa: E731
    Crowd().run([draw, draw, lambda: buffer.load_state_dict(next(states))], turns=40)


def test_closing_while_others_draw_and_add_ends_them_with_an_error_not_a_hang():
    buffer = small_buffer()
    crowd = Crowd()

    def draw():
        check(buffer.sample(16))

    def add():
        buffer.add({"observation": rows(5000, 11), "reward": 5000 + np.arange(10.0), "terminated": np.zeros(10, bool)})

    closer = threading.Timer(0.3, buffer.close)
    closer.start()
    with pytest.raises((RuntimeError, IndexError), match="closed|outside"):
        crowd.run([draw, draw, add], turns=10**9)
    closer.join()


class GrownByAnother(RawColumn):
    """A column that a writer gives a larger ring as soon as a reader has looked at the present one."""

    @property
    def ring(self):
        ring = self.__dict__["ring"]
        if not self.__dict__.setdefault("grown", False):
            self.__dict__["grown"] = True
            self._grow(len(ring) + 50)
        return ring

    @ring.setter
    def ring(self, ring):
        self.__dict__["ring"] = ring


def test_a_ring_that_grows_during_a_draw_is_read_as_it_was():
    buffer = ReplayBuffer(capacity=100)
    for first in range(0, 400, 50):
        x = torch.from_numpy(rows(first, 51)).clone()
        batch = {"observation": x[None, :-1], "next": {"observation": x[None, 1:]}}
        buffer.extend({**batch, "reward": torch.arange(first, first + 50.0)[None]})
    column = buffer._storage.memory.columns["reward",]
    column.__class__ = GrownByAnother
    check(buffer.sample(64))
    assert column.grown
