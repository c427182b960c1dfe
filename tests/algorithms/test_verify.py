"""Compiled programs are compared with the eager code before they are used. The compilers here make mistakes on
purpose."""

import pytest
import torch
from ppo_batches import Walk

from slipstream.algorithms.execution.capture import capture_training
from slipstream.algorithms.execution.compile import compile_update
from slipstream.algorithms.execution.verify import MiscompiledError, VerifiedGradients, compare_gradients, compare_rows
from slipstream.algorithms.ppo import PPO, PPOConfig
from slipstream.collectors import SyncDataCollector
from slipstream.collectors.batch import write
from slipstream.config.compose import load_train
from slipstream.models.policy import build_policy
from slipstream.training.trainer import Trainer

N, STEPS = 16, 6


def build():
    torch.manual_seed(1)
    env = Walk()
    policy = build_policy(env.observation_spec, env.action_spec)
    algo = PPO(policy, PPOConfig(minibatches=2, epochs=1, rollout_steps=STEPS))
    return env, SyncDataCollector(env, policy, N * STEPS, return_same_td=True), algo


def compiler(mistake, draws):
    """`torch.compile` with a mistake, a function of the rows a step has written, which draws random numbers of its own
    first."""

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
    logged = []
    monkeypatch.setattr("slipstream.algorithms.execution.capture.compile_update", lambda learner, log: None)
    monkeypatch.setattr(torch, "compile", compiler(mistake, draws))
    return logged, capture_training(collector, algo, "compiled", logged.append, lambda fn, name, tell: fn)


def test_a_miscompiled_step_is_logged_and_runs_eagerly(monkeypatch):
    (_, collector, algo), (_, twin, _) = build(), build()
    logged, (collect, _) = capture(collector, algo, monkeypatch, flip_ends)
    torch.manual_seed(7)
    mine = collect().to_tensordict().clone()
    torch.manual_seed(7)
    theirs = twin.rollout()
    assert len(logged) == 3 and all("env's step" in line and "compiled, 'terminated'" in line for line in logged[1:])
    assert torch.equal(mine["terminated"], theirs["terminated"]) and torch.equal(mine["action"], theirs["action"])


def test_verifying_a_correct_step_changes_nothing(monkeypatch):
    (env, collector, algo), (_, twin, _) = build(), build()
    logged, (collect, _) = capture(collector, algo, monkeypatch)
    for _ in range(2):
        torch.manual_seed(7)
        mine = collect().to_tensordict().clone()
        torch.manual_seed(7)
        theirs = twin.rollout()
        for key in ("action", "reward", "terminated", "valid", ("next", "observation", "x")):
            assert torch.equal(mine[key], theirs[key]), key
    assert len(logged) == 1 and env.steps == 2 * STEPS + 2  # `steps` is not put back, and nobody is blamed for it


@pytest.mark.parametrize("wrong", [False, True])
def test_other_random_numbers_pass_unless_a_mean_is_far_off(monkeypatch, wrong):
    _, collector, algo = build()

    def mistake(key, target):
        if key == ("reward",) and wrong:
            target.sub_(5.0)

    logged, (collect, _) = capture(collector, algo, monkeypatch, mistake, draws=3)
    collect()
    assert len(logged) == 1 + 2 * wrong and all("'reward' has a mean of" in line for line in logged[1:])


def test_an_env_that_names_no_state_is_not_compiled(monkeypatch):
    env, collector, algo = build()
    env.state_names = ()
    logged, (collect, _) = capture(collector, algo, monkeypatch, flip_ends)
    assert collect().terminated.float().mean() < 0.5 and env.steps == STEPS
    assert len(logged) == 2 and "state_names" in logged[1]


def test_earlier_trainings_do_not_use_up_the_recompile_limit(monkeypatch):
    """Dynamo counts programs per piece of code, and runs the code eagerly past a limit."""
    real, graphs = torch.compile, []
    monkeypatch.setattr("slipstream.algorithms.execution.capture.compile_update", lambda learner, log: None)

    def compile(step, **settings):
        return real(step, dynamic=False, backend=lambda graph, inputs: graphs.append(graph) or graph)

    monkeypatch.setattr(torch, "compile", compile)
    counts = []
    for _ in range(2):
        _, collector, algo = build()
        log = []
        collect, _ = capture_training(collector, algo, "compiled", log.append, lambda fn, name, log: fn)
        graphs.clear()
        with torch._dynamo.config.patch(recompile_limit=1):
            collect()
        counts.append(len(graphs))
        assert len(log) == 1
    assert counts[0] > 0 and counts[1] == counts[0]


def rows_of(x):
    return [([("reward",)], [x])]


def test_rounding_and_few_environments_may_differ():
    once, made = torch.ones(1000), torch.full((1000,), 1.01)
    made[:20] = 5.0
    compare_rows(rows_of(made), [once], [once])
    made[20] = 5.0
    with pytest.raises(MiscompiledError, match="'reward' differs in 21 of 1,000 environments"):
        compare_rows(rows_of(made), [once], [once])


def test_random_outputs_may_differ_as_much_as_eager_ones():
    once, again = torch.zeros(1000), torch.zeros(1000)
    again[:30] = 1.0
    compare_rows(rows_of(again.roll(500)), [once], [again])
    with pytest.raises(MiscompiledError, match="differs in 130"):
        compare_rows(rows_of(torch.cat((torch.ones(130), torch.zeros(870)))), [once], [again])


def test_nan_in_the_compiled_output_only_is_an_error():
    once, made = torch.ones(1000), torch.ones(1000)
    made[3] = float("nan")
    with pytest.raises(MiscompiledError, match="is NaN"):
        compare_rows(rows_of(made), [once], [once])
    compare_rows(rows_of(made), [made.clone()], [once])  # the env's own


@pytest.mark.parametrize("shape", [(1,), (3, 0), (1, 4), (2, 2, 2)])
@pytest.mark.parametrize("dtype", [torch.bool, torch.int64, torch.float32])
def test_any_shape_and_kind_can_be_compared(shape, dtype):
    x = torch.ones(shape, dtype=dtype)
    compare_rows(rows_of(x), [x], [~x if dtype == torch.bool else x - 1])


@pytest.mark.parametrize("task", ["navigation", "aircombat"])
def test_eager_steps_with_other_random_numbers_pass(task):
    """Nor would be a right compilation that draws its own."""
    words = f"task={task} env.num_envs=64 algo.rollout_steps=4 model.encoder=dict device=cpu quiet=true".split()
    words += ["env.opponent=crank", "env.reward=shaped"] if task == "aircombat" else []
    collector = Trainer(load_train(words)).collector
    for _ in range(4):
        collector.rollout()
    seen, state = [], collector.state_dict()
    for seed in range(9):
        torch.manual_seed(seed)
        collector.load_state_dict(state)
        batch = collector.rollout()
        keys = [key if isinstance(key, tuple) else (key,) for key in batch.keys(True, True)]
        seen.append([batch[key][:, 0].clone() for key in keys])
    for once, otherwise, made in zip(seen[0::3], seen[1::3], seen[2::3], strict=True):
        compare_rows([(keys, made)], once, otherwise)


def updated(algo, collector):
    torch.manual_seed(3)
    return {name: float(x) for name, x in algo.update(collector.rollout()).items()}


@pytest.mark.parametrize("part", ["gradients", "facts"])
def test_an_update_that_goes_wrong_later_is_found(monkeypatch, part):
    (_, mine, algo), (_, theirs, plain) = build(), build()

    def compile(traced, **settings):
        calls = []

        def made(parameters, rows):
            calls.append(None)
            gradients, facts = traced(parameters, rows)
            if len(calls) < 2:
                return gradients, facts
            return ([-x for x in gradients], facts) if part == "gradients" else (gradients, facts + 1)

        return made

    monkeypatch.setattr(torch, "compile", compile)
    logged = []
    compile_update(algo, logged.append)
    assert updated(algo, mine) == pytest.approx(updated(plain, theirs), rel=1e-4)
    updated(algo, mine)
    assert len(logged) == 2 and all(("is off by" if part == "gradients" else "diagnostic 0") in text for text in logged)


def test_comparisons_become_rare_and_stop_in_a_capture(monkeypatch):
    capturing, plainly = [False], []

    def plain(rows):
        plainly.append(rows["x"].sum())
        return [rows["x"]], rows["x"]

    checked = VerifiedGradients(plain, iter([lambda rows: ([rows["x"]], rows["x"])]), print)
    monkeypatch.setattr("slipstream.algorithms.execution.verify._is_capturing", lambda: capturing[0])
    for _ in range(100):
        checked({"x": torch.ones(1)})
    assert len(plainly) == 7  # calls 1, 2, 4, 8, 16, 32, 64
    capturing[0] = True
    for _ in range(100):
        checked({"x": torch.ones(1)})
    assert len(plainly) == 7


@pytest.mark.parametrize("fails", ["the compiler", "what it made", "the trace"])
def test_any_failure_of_the_compiler_runs_eagerly(monkeypatch, fails):
    (_, mine, algo), (_, theirs, plain) = build(), build()

    def no(*args, **settings):
        raise TypeError("missing 1 required positional argument")

    if fails == "the trace":
        monkeypatch.setattr("slipstream.algorithms.execution.compile.make_fx", no)
    monkeypatch.setattr(torch, "compile", no if fails == "the compiler" else lambda traced, **settings: no)
    logged = []
    compile_update(algo, logged.append)
    assert updated(algo, mine) == updated(plain, theirs)
    assert len(logged) == (2 if fails == "what it made" else 1) and all("missing 1 required" in text for text in logged)


def test_an_error_of_the_algorithm_is_not_the_compilers(monkeypatch):
    _, collector, algo = build()
    monkeypatch.setattr(torch, "compile", lambda traced, **settings: traced)
    monkeypatch.setattr(algo, "loss", lambda rows: 1 / 0)
    logged = []
    compile_update(algo, logged.append)
    with pytest.raises(ZeroDivisionError):
        algo.update(collector.rollout())
    assert logged == []


def test_the_compiler_is_given_no_lists_of_tensors(monkeypatch):
    """torch 2.11's kernels for them read what another block of theirs still writes: the critic's weights got a wrong
    gradient."""
    _, collector, algo = build()
    given = []
    monkeypatch.setattr(torch, "compile", lambda traced, **settings: given.append(traced) or traced)
    compile_update(algo)
    algo.update(collector.rollout())
    targets = [str(node.target) for node in given[0].graph.nodes]
    assert any("vector_norm" in target for target in targets) and not any("foreach" in target for target in targets)


@pytest.mark.parametrize("form", ["traced", pytest.param("compiled", marks=pytest.mark.soak)])
def test_clipping_after_an_exchange_is_compiled_as_well(monkeypatch, form):
    (_, mine, algo), (_, theirs, plain) = build(), build()
    given, logged = [], []
    compile = torch.compile

    def traced(graph, **settings):
        given.append(graph)
        return graph if form == "traced" else compile(graph, **settings)

    monkeypatch.setattr(torch, "compile", traced)
    for learner in (algo, plain):
        learner.config.max_grad_norm = 0.01
        learner.sums = lambda tensors: [x + x for x in tensors]
    compile_update(algo, logged.append)
    assert updated(algo, mine) == pytest.approx(updated(plain, theirs), rel=1e-4)
    torch.testing.assert_close(list(algo.policy.parameters()), list(plain.policy.parameters()), rtol=1e-4, atol=1e-5)
    norms = [sum("vector_norm" in str(node.target) for node in graph.graph.nodes) for graph in given]
    assert len(given) == 2 and norms[0] == 0 < norms[1] and logged == []


def test_gradients_may_differ_by_rounding_and_no_more():
    gradient = torch.randn(1000)
    compare_gradients([gradient * 1.01, None, torch.tensor(1e-9)], [gradient, None, torch.tensor(0.0)])
    with pytest.raises(MiscompiledError, match="gradient 1 of 2"):
        compare_gradients([gradient, gradient.roll(1)], [gradient, gradient])
    with pytest.raises(MiscompiledError, match="gradient 1 of 2"):  # Adam makes as long a step of it as of any other
        compare_gradients([gradient, torch.zeros(1000)], [gradient, gradient / 100])
    for mine, theirs in ((None, gradient), (gradient, None)):
        with pytest.raises(MiscompiledError, match="gradient 0 of 1"):
            compare_gradients([mine], [theirs])
    nothing = torch.full((3,), float("nan"))
    with pytest.raises(MiscompiledError):
        compare_gradients([nothing], [torch.ones(3)])
    compare_gradients([nothing], [nothing])  # of bad observations: not the compiler's fault


def test_a_compiled_frame_is_written_key_by_key():
    frame = {("reward",): torch.rand(4), ("terminated",): torch.tensor([True, False, True, False])}
    rows = [([key], [torch.zeros_like(x)]) for key, x in frame.items()]
    written = []

    def backend(graph, inputs):
        written.extend(str(node.target) for node in graph.graph.nodes)
        return graph

    torch.compile(write, backend=backend)(rows, frame)
    assert all(torch.equal(frame[key], x) for (key,), (x,) in rows)
    assert not any("foreach" in name for name in written)
