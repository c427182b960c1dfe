"""Any sequence of adds, batches, draws, saves and loads gives exactly what a plain list gives."""

from __future__ import annotations

import shutil
import tempfile

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from replay_worlds import Step, Worlds, plain, steps_of

from slipstream.replay import ReplayBuffer

SAMPLERS = ("uniform", "prioritized")


class ReplayAgainstAList(RuleBasedStateMachine):
    """The model: units (episodes, or a batch's share of one) in a list; the oldest leave until the new ones fit."""

    @initialize(
        capacity=st.integers(200, 6000),
        width=st.sampled_from([1, 20]),
        group=st.sampled_from([1, 4]),
        sampler=st.sampled_from(SAMPLERS),
    )
    def begin(self, capacity, width, group, sampler):
        self.settings = {"capacity": capacity, "group": group, "sampler": sampler}
        self.buffer = ReplayBuffer(**self.settings)
        self.worlds = Worlds(2, seed=capacity, width=width)
        self.units: list[list[Step]] = []
        self.gone = 0
        self.folder = tempfile.mkdtemp()
        self.saved = False

    def teardown(self):
        if hasattr(self, "buffer"):
            self.buffer.close()
            shutil.rmtree(self.folder)

    def admit(self, units):
        capacity, incoming = self.settings["capacity"], sum(map(len, units))
        while sum(map(len, self.units)) + incoming > capacity:
            self.gone += len(self.units.pop(0))
        self.units += units

    @rule(length=st.one_of(st.integers(1, 30), st.integers(1, 30), st.integers(1, 5000)), terminal=st.booleans())
    def add(self, length, terminal):
        w, capacity = self.worlds, self.settings["capacity"]
        x = w._fresh(length + 1)
        action, reward = w.rng.integers(0, 1000, length), w.rng.normal(size=length).astype(np.float32)
        terminated, truncated = np.zeros(length, bool), np.zeros(length, bool)
        (terminated if terminal else truncated)[-1] = True
        episode = {"action": action, "reward": reward, "terminated": terminated, "truncated": truncated}
        self.buffer.add({"observation": {"x": x}, **episode})
        seen = [row.tobytes() for row in x]
        values = zip(*(array.tolist() for array in episode.values()), strict=True)
        steps = [Step(*pair, *step, -1) for pair, step in zip(zip(seen, seen[1:], strict=False), values, strict=True)]
        self.admit([steps[-capacity:]])

    @rule(length=st.integers(1, 60))
    def extend(self, length):
        self.buffer.extend(self.worlds.batch(length))
        units: list[list[Step]] = []
        for step in self.worlds.steps[-1]:
            if not units or units[-1][-1].episode != step.episode or units[-1][-1].episode % 2 != step.episode % 2:
                units.append([])
            units[-1].append(step)
        self.admit(units)

    @precondition(lambda self: self.units)
    @rule(batch=st.integers(1, 64))
    def sample(self, batch):
        drawn = self.buffer.sample(batch)
        steps = plain([step for unit in self.units for step in unit])
        assert steps_of(drawn) == [steps[i - self.gone] for i in drawn["index"].tolist()]
        if self.settings["sampler"] == "prioritized":
            self.buffer.update_priority(drawn["index"], drawn["reward"].nan_to_num())

    @rule()
    def save(self):
        self.buffer.save(self.folder)
        self.saved = True

    @precondition(lambda self: self.saved)
    @rule()
    def save_and_load(self):
        self.buffer.save(self.folder)
        other = ReplayBuffer(**self.settings, seed=5).load(self.folder)
        self.check_same_draws(other)

    @rule()
    def through_a_state_dict(self):
        other = ReplayBuffer(**self.settings, seed=5)
        other.load_state_dict(self.buffer.state_dict())
        self.check_same_draws(other)

    def check_same_draws(self, other):
        if self.units:
            assert other.sample(32)["index"].tolist() == self.buffer.sample(32)["index"].tolist()
        self.buffer.close()
        self.buffer = other

    @invariant()
    def contents_are_those_of_the_list(self):
        if not hasattr(self, "buffer"):
            return
        steps = [step for unit in self.units for step in unit]
        assert len(self.buffer) == len(steps)
        if steps:
            chosen = np.unique(np.linspace(0, len(steps) - 1, 300).astype(int))
            drawn = self.buffer.get(chosen + self.gone)
            assert steps_of(drawn) == plain([steps[i] for i in chosen])


quick = settings(max_examples=12, stateful_step_count=20, deadline=None, suppress_health_check=list(HealthCheck))
TestReplayAgainstAList = ReplayAgainstAList.TestCase
TestReplayAgainstAList.settings = quick


@pytest.mark.soak
def test_replay_against_a_list_many_times():
    from hypothesis.stateful import run_state_machine_as_test

    run_state_machine_as_test(ReplayAgainstAList, settings=settings(quick, max_examples=300, stateful_step_count=60))
