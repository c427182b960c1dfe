"""The evaluations of a training use one env again and again: each equals one in a fresh env, bit for bit. On a GPU they
run beside the training."""

import shlex

import pytest
import torch

from slipstream import train
from slipstream.config.compose import load_train
from slipstream.models.policy import ActorCritic
from slipstream.tasks.navigation.evaluation import Crossing, RepeatedEvaluation, evaluation_env, fly, metrics_of
from slipstream.training.metrics_log import read_metrics
from slipstream.training.trainer import Trainer

SMALL = [
    *("env.num_envs=4", "env.num_obstacles=20", "env.dyn.num_obstacles=8", "env.decision_interval=4"),
    *("algo.rollout_steps=8", "env.map_half_m=6", "device=cpu"),
    *("eval.num_drones=3", "eval.map_seeds=[5,6]", "eval.max_steps=80"),
]
DISTURBED = [
    *("env.dynamics=quadrotor", "env.disturbance.latency_steps=2", "env.disturbance.mass_range=0.2"),
    *("env.disturbance.wind_mps2=1", "env.disturbance.lidar_noise_m=0.1", "env.disturbance.velocity_noise_mps=0.1"),
]
FORMS = {
    "lag": [],
    "quadrotor, disturbed": DISTURBED,
    "gru": ["model.memory=gru", "algo.minibatches=2"],
    "stack": ["model.memory=stack", "algo.minibatches=2"],
    "mirror": ["model.mirror=true"],
    "dqn": ["algo=dqn", "env.actions=discrete"],
    "sac": ["algo=sac"],
}


@pytest.mark.parametrize("form", FORMS)
def test_a_repeated_flight_equals_one_in_a_fresh_env(form):
    with Trainer(load_train([*SMALL, *FORMS[form]])) as job:
        policy, drones = job.policy.eval(), job.cfg.eval.num_drones

        def fresh_env():
            return evaluation_env(job.cfg.env, job.cfg.eval, "cpu")

        kept = Crossing(fresh_env(), policy, drones)
        for weights in range(2):
            env = fresh_env()
            expected = fly(env, policy, drones, record_paths=False)
            flown = [metrics_of(kept.fly(), "") for _ in range(2)]
            assert flown == [metrics_of(expected, "")] * 2, weights
            states = kept.env.state_dict()
            assert all(torch.equal(x, states[name]) for name, x in env.state_tensors().items())
            with torch.no_grad():
                for p in policy.parameters():
                    p.mul_(1.5)


def test_a_training_evaluates_both_worlds_alike_each_time():
    with Trainer(load_train([*SMALL, "eval.static_too=true"])) as job:
        first = job.evaluate()
        envs = [kept.env for kept in job.evaluation._crossings.values()]
        assert [env.movers.count for env in envs] == [8, 0]
        assert job.evaluate() == first and {"eval/success", "eval/static_success"} <= first.keys()
        job.step()
        after = job.evaluate()
        assert [kept.env for kept in job.evaluation._crossings.values()] == envs
    with Trainer(load_train([*SMALL, "eval.static_too=true"])) as twin:
        twin.step()
        assert twin.evaluate() == after  # as its first evaluation


# -- on a GPU ----------------------------------------------------------------------------------------------------------

on_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
LARGER = shlex.split("""
    env.num_envs=64 env.num_worlds=4 env.num_obstacles=60 env.dyn.num_obstacles=16 env.decision_interval=4
    env.map_half_m=6 env.max_episode_steps=80 algo.rollout_steps=8 algo.epochs=2 algo.minibatches=4
    eval.num_drones=16 eval.map_seeds=[5,6] eval.max_steps=1200 eval.static_too=true device=cuda
""")


def weights(policy):
    return {name: x.clone() for name, x in policy.state_dict().items()}


def equal(a, b):
    return a.keys() == b.keys() and all(torch.equal(x, b[name]) for name, x in a.items())


def flown_again(job):
    """The metrics of the weights that were evaluated last, in fresh envs that nothing runs beside."""
    again = RepeatedEvaluation(job.evaluation._worlds, job.cfg.eval, job.evaluation.policy, job.env.device)
    again.start()
    again.close()  # before anything else uses its envs
    found = {}
    for prefix, crossing in again._crossings.items():
        found |= metrics_of(crossing.fly(), f"eval/{prefix}")
    return found


def train_beside(job, steps=3):
    """Take steps while an evaluation runs; return its metrics."""
    found = None
    for _ in range(steps):
        job.step()
        found = job.take_evaluation(wait=False) if found is None else found
    return job.take_evaluation() if found is None else found


@pytest.mark.gpu
@on_gpu
@pytest.mark.parametrize("form", ["lag", "quadrotor, disturbed", "gru", "stack", "bf16"])
def test_an_evaluation_beside_a_training_equals_one_by_itself(form):
    words = ["algo.bf16=true"] if form == "bf16" else FORMS[form]
    with Trainer(load_train([*LARGER, *words])) as job:
        job.capture(print, "graphs")
        for _ in range(6):
            job.step()
        results = []
        for _ in range(2):
            evaluated = weights(job.policy)
            job.start_evaluation()
            assert job.evaluation._beside is not None
            results.append(train_beside(job))
            assert equal(weights(job.evaluation.policy), evaluated) and not equal(weights(job.policy), evaluated)
            assert results[-1] == flown_again(job)
        with torch.no_grad():
            for mine, theirs in zip(job.policy.parameters(), job.evaluation.policy.parameters(), strict=True):
                mine.copy_(theirs)
        assert job.evaluate() == results[-1]
        job.start_evaluation()  # closed while it runs
    with Trainer(load_train([*LARGER, *words])) as other:
        assert other.evaluate().keys() == results[0].keys()


@pytest.mark.gpu
@on_gpu
def test_a_training_is_the_same_beside_an_evaluation():
    def trained(evaluates):
        with Trainer(load_train(LARGER)) as job:
            job.capture(print, "graphs")
            for it in range(12):
                job.step()
                if evaluates and it in (1, 7):  # before the graphs are captured, and between replays
                    job.start_evaluation()
                elif evaluates and it in (2, 3, 8, 9):
                    job.evaluation._beside.poll()
                elif evaluates and it in (4, 10):
                    job.take_evaluation()
            return weights(job.policy)

    alone = trained(False)
    if not equal(alone, trained(False)):
        pytest.skip("two trainings with one seed differ on this GPU")
    assert equal(alone, trained(True))


@pytest.mark.gpu
@on_gpu
def test_best_is_the_policy_that_was_evaluated(tmp_path, monkeypatch):
    started, start = [], RepeatedEvaluation.start

    def noted(self):
        started.append(weights(self._trained))
        start(self)

    monkeypatch.setattr(RepeatedEvaluation, "start", noted)
    words = ["total_frames=10240", "eval_interval=6", "save_interval=1000", "quiet=true", "wandb.mode=disabled"]
    folder = train.run(load_train([*LARGER, *words, f"root={tmp_path}", "name=beside"]))
    rows = read_metrics(folder.path)
    assert [row["iteration"] for row in rows] == list(range(1, 21))
    scores = {row["iteration"]: row["eval/success"] for row in rows if "eval/success" in row}
    assert list(scores) == [6, 12, 18, 20] and len(started) == 4
    best = max(scores.values())
    expected = started[list(scores.values()).index(best)]
    saved = torch.load(folder.path / "best.pt", weights_only=True)["policy"]
    assert equal({name: x.cpu() for name, x in expected.items()}, {name: x.cpu() for name, x in saved.items()})


@pytest.mark.gpu
@on_gpu
@pytest.mark.parametrize("form", ["dqn", "sac", "waits", "draws"])
def test_a_policy_that_cannot_be_captured_is_waited_for(form, monkeypatch):
    value, factor = ActorCritic.critic_value, {"waits": lambda x: float(x.sum()), "draws": lambda x: torch.rand_like(x)}
    if form in factor:
        changed = lambda self, x, seen: value(self, x, seen) * factor[form](x[:, 0])  # noqa: E731
        monkeypatch.setattr(ActorCritic, "critic_value", changed)
    words = [word for word in LARGER if form in factor or not word.startswith(("algo.epochs", "algo.minibatches"))]
    with Trainer(load_train([*words, *FORMS.get(form, [])])) as job:
        first = job.evaluate()
        assert job.evaluation._beside is None and job.evaluate() == first
        job.start_evaluation()
        assert job.take_evaluation(wait=False) == first
