"""Captured training against plain training. On a CPU plain calls replace the graphs; the rest is the same code."""

import gc
import math
import shlex

import pytest
import torch
from ppo_batches import Walk

from slipstream.algorithms.execution.capture import capture_training
from slipstream.algorithms.execution.compile import compile_update
from slipstream.algorithms.execution.graphs import CaptureFailed, GraphedFunction
from slipstream.algorithms.execution.verify import summarize_error
from slipstream.algorithms.ppo import PPO, PPOConfig
from slipstream.collectors import SyncDataCollector
from slipstream.config.compose import load_train
from slipstream.envs.rollout import Rollout
from slipstream.models.policy import build_policy
from slipstream.training.outputs import ReadBack
from slipstream.training.trainer import Trainer

SMALL = shlex.split("""
    env.num_envs=64 env.num_worlds=4 env.num_obstacles=60 env.dyn.num_obstacles=20 env.max_episode_steps=40
    algo.rollout_steps=8 algo.epochs=2 algo.minibatches=4
""")
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


def build(device, *more, words=SMALL):
    job = Trainer(load_train([*words, f"device={device}", *more]))
    torch.set_float32_matmul_precision("highest")
    torch.backends.cudnn.allow_tf32 = False  # on by default: convolutions would differ in the third digit
    return job


def plainly(fn, name, tell):
    """In the place of a CUDA graph."""
    return fn


def iterate(parts, count, progress=0.0, publish=lambda: None):
    for _ in range(count):
        losses = parts[1](parts[0](), progress)
        publish()
    return {name: float(value) for name, value in losses.items()}


def weights(job):
    return torch.cat([p.detach().flatten() for p in job.policy.parameters()]).cpu()


def close(mine, theirs):
    assert mine.keys() == theirs.keys()
    for name in mine:
        assert mine[name] == pytest.approx(theirs[name], rel=2e-3, abs=2e-5), name


def test_the_schedule_reaches_the_captured_path():
    job = build("cpu", "algo.schedule=linear")
    parts = capture_training(job.collector, job.learner, "graphs", print, plainly)
    iterate(parts, 1)
    before = weights(job)
    losses = iterate(parts, 1, progress=1.0)
    assert losses["lr"] == 0.0 and torch.equal(weights(job), before)


@pytest.mark.soak  # the compiler takes its time; what is traced for it is tested below
def test_a_compiled_update_equals_the_plain_one():
    small = ["model.encoder=dict", "model.keys=[state,dynamic_obstacle]", "model.trunk=[16]", "algo.minibatches=2"]
    jobs = [build("cpu", *small) for _ in range(2)]
    compile_update(jobs[1].learner)
    results = []
    for job in jobs:
        torch.manual_seed(3)
        results.append({name: float(x) for name, x in job.learner.update(job.collector.rollout()).items()})
    close(results[1], results[0])
    torch.testing.assert_close(weights(jobs[1]), weights(jobs[0]), atol=2e-5, rtol=1e-3)


def test_loading_a_state_keeps_the_optimizers_memory():
    job = build("cpu")
    job.learner.update(job.collector.rollout())
    state = job.learner.state_dict()
    saved = {i: {k: v.clone() for k, v in s.items()} for i, s in state["optimizer"].items()}
    places = [v.data_ptr() for s in state["optimizer"].values() for v in s.values()]
    job.learner.update(job.collector.rollout())
    job.learner.load_state_dict({**state, "optimizer": saved})
    now = job.learner.state_dict()["optimizer"]
    assert [v.data_ptr() for s in now.values() for v in s.values()] == places
    assert all(torch.equal(now[i][k], v) for i, s in saved.items() for k, v in s.items())


DUELS = ["preset=aircombat_h200", "env.num_envs=256", "league.seats=16", "league.games=2", "model.trunk=[32]"]
DUELS += ["algo.rollout_steps=8", "algo.minibatches=2", "algo.epochs=1"]
GRU = [*SMALL, "env.observe_moving=false", "env.lidar_sees_moving=true", "model.memory=gru", "model.hidden_size=32"]
TASKS = {"navigation": SMALL, "duels": DUELS, "gru": GRU, "stack": [*SMALL, "model.memory=stack"]}
TASKS["mirror"] = [*SMALL, "model.mirror=true"]
on_gpu = [pytest.mark.gpu, needs_gpu]
FORMS = [
    pytest.param("cpu", "graphs", plainly, "navigation"),
    pytest.param("cpu", "graphs", plainly, "duels"),
    pytest.param("cuda", "graphs", None, "navigation", marks=on_gpu),
    pytest.param("cuda", "graphs", None, "duels", marks=on_gpu),
    pytest.param("cuda", "compiled", None, "navigation", marks=on_gpu),
    pytest.param("cpu", "graphs", plainly, "gru"),
    pytest.param("cuda", "compiled", None, "gru", marks=on_gpu),
    pytest.param("cuda", "graphs", None, "stack", marks=on_gpu),
    pytest.param("cuda", "compiled", None, "mirror", marks=on_gpu),
]  # a compiled duel draws its random numbers in another order


@pytest.mark.parametrize(("device", "form", "capture", "task"), FORMS)
def test_one_captured_iteration_equals_the_plain_one(device, form, capture, task):
    job = build(device, words=TASKS[task])
    logged = []
    parts = capture_training(job.collector, job.learner, form, logged.append, capture)
    iterate(parts, 5)
    assert not [text for text in logged if "cannot" in text]  # the first form that the compiler makes is the right one
    state = torch.utils._pytree.tree_map(lambda x: x.clone() if isinstance(x, torch.Tensor) else x, job.state_dict(5))
    batch = parts[0]()
    seen = Rollout.of(batch).to_tensordict().clone()
    mine = {name: float(value) for name, value in parts[1](batch, 0.0).items()}
    twin = build(device, words=TASKS[task])
    twin.load_state_dict(state)
    plain = capture_training(twin.collector, twin.learner, "plain", print)
    their_batch = plain[0]()
    theirs_seen = Rollout.of(their_batch).to_tensordict()
    keys = ["action", "log_prob", "value", "reward", "terminated", "truncated", "valid"]
    for key in (*keys, *(["memory"] if task in ("gru", "stack") else [])):  # where a difference begins
        torch.testing.assert_close(
            seen[key], theirs_seen[key], atol=1e-4, rtol=1e-3, msg=lambda text, key=key: f"{key}: {text}"
        )
    theirs = {name: float(value) for name, value in plain[1](their_batch, 0.0).items()}
    close(mine, theirs)
    torch.testing.assert_close(weights(job), weights(twin), atol=5e-5, rtol=2e-3)
    # and the captured one goes on from a state it is given, as if it had just been built
    job.load_state_dict(state)
    again = iterate(parts, 1)
    close(again, mine)
    torch.testing.assert_close(weights(job), weights(twin), atol=5e-5, rtol=2e-3)


def test_a_first_call_that_fails_does_not_count(monkeypatch):
    """A compilation that is tried again must not run into the watch against waiting for the device: compilers do
    wait."""
    monkeypatch.setattr(torch.cuda, "Stream", object)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 98)
    calls = []

    def fn():
        calls.append("plain")
        if len(calls) <= 2:
            raise RuntimeError("does not compile")
        return 7

    captured = GraphedFunction(fn, "a step")
    monkeypatch.setattr(captured, "_warm_up", lambda: calls.append("watched"))
    for _ in range(2):
        with pytest.raises(RuntimeError, match="does not compile"):
            captured()
    assert captured() == 7
    captured()
    assert calls == ["plain", "plain", "plain", "watched"]


def test_a_compiler_error_is_summarized_in_one_line():
    raised = "An exception occurred in a subprocess:\n\nTraceback\n  File x\nNameError: tmp3 is not defined\n\n"
    for text, logged in (("no such op\nmore", "no such op"), (raised, "NameError: tmp3"), ("", "ValueError: ")):
        assert logged in summarize_error(ValueError(text)) and "\n" not in summarize_error(ValueError(text))


# -- on a GPU ----------------------------------------------------------------------------------------------------------


@pytest.mark.gpu
@needs_gpu
def test_capturing_again_and_again_keeps_no_memory():
    weight = torch.randn(256, 256, device="cuda")
    held = []
    for _ in range(6):
        captured = GraphedFunction(lambda: weight @ weight, "a product")
        for _ in range(5):
            captured()
        del captured
        torch.cuda.synchronize()
        held.append(torch.cuda.memory_allocated())
    assert held[1] == held[-1]


@pytest.mark.gpu
@needs_gpu
def test_garbage_of_earlier_graphs_does_not_break_a_capture():
    weight = torch.randn(256, 256, device="cuda")
    for _ in range(4):  # graphs, events and pinned memory that only the garbage collector frees
        cycle = {"event": torch.cuda.Event(enable_timing=True), "pinned": torch.zeros(1 << 16).pin_memory()}
        captured = cycle["captured"] = GraphedFunction(lambda cycle=cycle: weight @ weight, "a product")
        for _ in range(5):
            captured()
        cycle["event"].record()
        weight[:, 0].copy_(cycle["pinned"][:256], non_blocking=True)
        del cycle, captured

    def fn():
        product = weight @ weight
        kept = [[i] for i in range(100_000)]  # enough for many full collections, were they allowed
        return product + len(kept)

    logged, before = [], gc.get_threshold()
    gc.set_threshold(100, 1, 1)
    try:
        captured = GraphedFunction(fn, "a sum", logged.append)
        results = [captured().clone() for _ in range(6)]
    finally:
        gc.set_threshold(*before)
    assert not logged and not captured.eager and gc.isenabled()
    torch.testing.assert_close(results[-1], results[0])


@pytest.mark.gpu
@needs_gpu
def test_a_replayed_update_obeys_a_changed_learning_rate():
    job = build("cuda", "algo.schedule=linear")
    parts = capture_training(job.collector, job.learner, "graphs", print)
    iterate(parts, 5)
    before = weights(job)
    losses = iterate(parts, 1, progress=1.0)
    assert losses["lr"] == 0.0 and torch.equal(weights(job), before)
    losses = iterate(parts, 1, progress=0.5)
    assert losses["lr"] == pytest.approx(2.5e-4) and not torch.equal(weights(job), before)


@pytest.mark.gpu
@needs_gpu
@pytest.mark.parametrize("pipeline", ["off", "on", "on_policy"])
@pytest.mark.parametrize("form", ["plain", "graphs"])
def test_an_iteration_never_waits_for_the_device(form, pipeline):
    job = build("cuda", f"collect.pipeline={pipeline}")
    parts = capture_training(job.collector, job.learner, form, print)
    job.collect, job.learn = parts
    for _ in range(5):
        job.step()
    readings = ReadBack(job.env.device)
    torch.cuda.set_sync_debug_mode("error")
    try:
        readings.send(0, job.step(0.3).metrics)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    ((_, values),) = readings.take(wait=True)
    assert job.logged_metrics(values)["kl"] >= 0


class Peeking(Walk):
    """Looks at a tensor in every step."""

    def _advance(self, action):
        super()._advance(action)
        if self.x.max().item() > 1e9:
            raise AssertionError


@pytest.mark.gpu
@needs_gpu
@pytest.mark.parametrize("form", ["graphs", "compiled"])
def test_an_env_that_waits_is_named_by_its_line(form):
    env = Peeking(32, "cuda")
    policy = build_policy(env.observation_spec, env.action_spec).cuda()
    algo = PPO(policy, PPOConfig(minibatches=2, epochs=1, rollout_steps=8))
    collector = SyncDataCollector(env, policy, 32 * 8, return_same_td=True)
    logged = []
    losses = iterate(capture_training(collector, algo, form, logged.append), 6)
    assert all(torch.isfinite(torch.tensor(list(losses.values()))))
    rollout = [text for text in logged if "the rollout" in text]
    assert len(rollout) == 1 and "test_capture.py" in rollout[0] and ".item()" in rollout[0]


def test_an_update_that_waits_is_repeated_eagerly():
    job = build("cpu")
    calls = []

    def capture(fn, name, tell):
        def call():
            calls.append(name)
            if calls.count("the update") == 1 and name == "the update":
                raise CaptureFailed("item")
            return fn()

        return call

    losses = iterate(capture_training(job.collector, job.learner, "graphs", print, capture), 2)
    assert calls.count("the update") == 3 and math.isfinite(losses["kl"])


# -- compilers that fail -----------------------------------------------------------------------------------------------


class Failing(Exception):
    """Stands for an error of the compiler: its module is one of the compiler's."""


Failing.__module__ = "torch._inductor.exc"


def test_a_step_that_does_not_compile_is_tried_twice(monkeypatch):
    job = build("cpu")
    settings = []

    def fails(fn, dynamic, options):
        settings.append(dict(options))

        def call(*args):
            raise Failing("no such kernel")

        return call

    logged = []
    monkeypatch.setattr("slipstream.algorithms.execution.capture.compile_update", lambda learner, log: None)
    monkeypatch.setattr(torch, "compile", fails)
    parts = capture_training(job.collector, job.learner, "compiled", logged.append, plainly)
    losses = iterate(parts, 2)
    assert [options.pop("combo_kernels", False) for options in settings] == [True, False]
    assert settings[0] == settings[1] and [*settings[0]] == ["unsafe_marked_cacheable_functions"]
    assert len(logged) == 3 and "compiling" in logged[0] and all("env's step" in line for line in logged[1:])
    assert losses["kl"] >= 0 and job.collector.frames == 2 * job.frames_per_batch


@pytest.mark.gpu
@needs_gpu
def test_duels_with_a_league_are_compiled():
    logged = []
    job = build("cuda", words=DUELS)
    losses = iterate(capture_training(job.collector, job.learner, "compiled", logged.append), 6)
    assert all(math.isfinite(value) for value in losses.values())
    assert not [line for line in logged if "cannot" in line], logged
