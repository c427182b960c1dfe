"""What a compiler made is compared with the plain code before it is trusted. The compilers here make mistakes on purpose."""

import pytest
import torch

from slipstream.algo.capture import capture_training
from slipstream.algo.ppo import PPO, PPOConfig
from slipstream.algo.trust import CheckedStep, Miscompiled, compare_gradients
from slipstream.collect import SyncDataCollector
from slipstream.collect.batch import write
from slipstream.envs.base import Outcome, TensorEnv
from slipstream.models.policy import build_policy
from slipstream.specs import Box

N, STEPS = 16, 6


class Walk(TensorEnv):
    """A random walk of points in a box, which end outside of it."""

    state_names = ("x",)

    def __init__(self):
        super().__init__(N)
        self.observation_spec = {"x": Box((2,), -10.0, 10.0)}
        self.action_spec = Box((2,), -1.0, 1.0)
        self.x = torch.zeros(N, 2)
        self.steps = 0  # of the env, those taken back too

    def _reset(self, mask):
        self.x.copy_(torch.where(mask[:, None], torch.rand(N, 2), self.x))

    def _advance(self, action):
        self.steps += 1
        self.x.add_(action + 0.1 * torch.randn(N, 2))

    def _observe(self):
        return {"x": self.x.clone()}

    def _outcome(self):
        never = torch.zeros_like(self._pending)
        return Outcome(self.x.sum(-1), (self.x.abs() > 2).any(-1), never, {"steps": torch.full((N,), float(self.steps))})


def build():
    torch.manual_seed(1)
    env = Walk()
    policy = build_policy(env.observation_spec, env.action_spec)
    algo = PPO(policy, PPOConfig(minibatches=2, epochs=1, training_frame_num=STEPS))
    return env, SyncDataCollector(env, policy, N * STEPS, return_same_td=True, ring_size=1), algo


def compiler(mistake, draws):
    """`torch.compile` with a mistake, a function of the rows a step has written, which draws random numbers of its own first."""

    def compile(step, **settings):
        def made(observation, rows):
            torch.rand(draws)
            step(observation, rows)
            if mistake:
                for keys, targets in rows:
                    for key, target in zip(keys, targets, strict=True):
                        mistake(key, target)

        return made

    return compile


def flip_ends(key, target):
    if key == ("terminated",):
        target.logical_not_()


def capture(collector, algo, monkeypatch, mistake=None, draws=0):
    told = []
    monkeypatch.setattr(algo, "compile", lambda tell: None)
    monkeypatch.setattr(torch, "compile", compiler(mistake, draws))
    return told, capture_training(collector, algo, "compiled", told.append, lambda fn, name, tell: fn)


def test_a_step_that_is_compiled_wrongly_is_told_and_runs_as_it_is(monkeypatch):
    (_, collector, algo), (_, twin, _) = build(), build()
    told, (collect, _) = capture(collector, algo, monkeypatch, flip_ends)
    twin.rollout()  # plain; the points begin anew after a rollout that is broken off, so only shares can be compared
    batch = collect()
    assert len(told) == 2 and "env's step" in told[1] and "'terminated' is another one in 100%" in told[1]
    assert batch["terminated"].float().mean() < 0.5


def test_a_step_that_is_compiled_rightly_goes_on_as_if_nobody_had_looked(monkeypatch):
    (env, collector, algo), (_, twin, _) = build(), build()
    told, (collect, _) = capture(collector, algo, monkeypatch)
    for _ in range(2):
        torch.manual_seed(7)
        mine = collect().clone()
        torch.manual_seed(7)
        theirs = twin.rollout()
        for key in ("action", "reward", "terminated", "valid", ("next", "observation", "x")):
            assert torch.equal(mine[key], theirs[key]), key
    assert len(told) == 1 and env.steps == 2 * STEPS + 2  # `steps` is not put back, and nobody is blamed for it


@pytest.mark.parametrize("wrong", [False, True])
def test_a_compiler_with_random_numbers_of_its_own_is_trusted_unless_a_mean_is_far_off(monkeypatch, wrong):
    _, collector, algo = build()

    def mistake(key, target):
        if key == ("reward",) and wrong:
            target.sub_(5.0)

    told, (collect, _) = capture(collector, algo, monkeypatch, mistake, draws=3)
    collect()
    assert len(told) == 1 + wrong and (not wrong or "'reward' has a mean of" in told[1])


def test_an_env_that_cannot_go_back_is_not_asked_to():
    env, _, _ = build()
    env.can_go_back = False
    calls = []
    CheckedStep(lambda *args: calls.append("plain"), lambda *args: calls.append("made"), env)({}, [])
    assert calls == ["made"]


def test_few_numbers_beside_and_rounding_are_no_mistake():
    env, _, _ = build()
    row = torch.zeros(100)

    def plain(observation, rows):
        row.fill_(1.0)

    def made(observation, rows):
        row.fill_(1.01)
        row[: made.wrong] = 5.0

    for made.wrong in (1, 3):
        step = CheckedStep(plain, made, env)
        if made.wrong == 1:
            step({}, [([("reward",)], [row])])
        else:
            with pytest.raises(Miscompiled, match="'reward' is another one in 3% of its numbers"):
                step({}, [([("reward",)], [row])])


def test_an_update_that_is_compiled_wrongly_is_told_and_runs_as_it_is(monkeypatch):
    (_, mine, algo), (_, theirs, plain) = build(), build()
    tries = []

    def wrong(traced, **settings):
        tries.append(settings["options"])
        return lambda parameters, rows: torch.utils._pytree.tree_map(lambda x: x * 1.5, traced(parameters, rows))

    monkeypatch.setattr(torch, "compile", wrong)
    told = []
    algo.compile(told.append)
    losses = []
    for collector, learner in ((mine, algo), (theirs, plain)):
        torch.manual_seed(3)
        losses.append({name: float(x) for name, x in learner.update(collector.rollout()).items()})
    assert len(tries) == 2 and len(told) == 1 and "is off by" in told[0]
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)


def test_gradients_may_differ_by_rounding_and_no_more():
    gradient = torch.randn(1000)
    compare_gradients([gradient * 1.01, torch.tensor(1e-9)], [gradient, torch.tensor(0.0)])
    with pytest.raises(Miscompiled, match="result 1 of 2"):
        compare_gradients([gradient, gradient.roll(1)], [gradient, gradient])
    nothing = torch.full((3,), float("nan"))
    with pytest.raises(Miscompiled):
        compare_gradients([nothing], [torch.ones(3)])
    compare_gradients([nothing], [nothing])  # of bad observations: not the compiler's fault


def test_a_compiled_frame_is_written_key_by_key_and_the_same():
    frame = {("reward",): torch.rand(4), ("value",): torch.rand(4), ("terminated",): torch.tensor([True, False, True, False])}
    written = []

    def backend(graph, inputs):
        written.extend(str(node.target) for node in graph.graph.nodes)
        return graph

    for fn in (write, torch.compile(write, backend=backend)):
        rows = [([("reward",), ("value",)], [torch.zeros(4), torch.zeros(4)]), ([("terminated",)], [torch.zeros(4, dtype=torch.bool)])]
        fn(rows, frame)
        assert all(torch.equal(frame[key], x) for keys, targets in rows for key, x in zip(keys, targets, strict=True))
    assert not any("foreach" in name for name in written)
