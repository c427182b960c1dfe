"""The evaluations of a training use one env again and again: each equals one in a fresh env, bit for bit."""

import pytest
import torch

from slipstream.config.compose import load_train
from slipstream.tasks.navigation.evaluation import _metrics, _RepeatedCrossing, evaluation_env, fly
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
    "dqn": ["algo=dqn", "env.actions=discrete"],
    "sac": ["algo=sac"],
}


@pytest.mark.parametrize("form", FORMS)
def test_a_repeated_flight_equals_one_in_a_fresh_env(form):
    with Trainer(load_train([*SMALL, *FORMS[form]])) as job:
        policy, drones = job.policy.eval(), job.cfg.eval.num_drones

        def fresh_env():
            return evaluation_env(job.cfg.env, job.cfg.eval, "cpu")

        kept = _RepeatedCrossing(fresh_env(), policy, drones)
        for weights in range(2):
            env = fresh_env()
            expected = fly(env, policy, drones, record_paths=False)
            flown = [_metrics(kept.fly(), "") for _ in range(2)]
            assert flown == [_metrics(expected, "")] * 2, weights
            states = kept.crossing.env.state_dict()
            assert all(torch.equal(x, states[name]) for name, x in env.state_tensors().items())
            with torch.no_grad():
                for p in policy.parameters():
                    p.mul_(1.5)


def test_a_training_evaluates_both_worlds_alike_each_time():
    with Trainer(load_train([*SMALL, "eval.static_too=true"])) as job:
        first = job.evaluate()
        envs = [kept.crossing.env for kept in job.evaluation._crossings.values()]
        assert [env.movers.count for env in envs] == [8, 0]
        assert job.evaluate() == first and {"eval/success", "eval/static_success"} <= first.keys()
        job.step()
        after = job.evaluate()
        assert [kept.crossing.env for kept in job.evaluation._crossings.values()] == envs
    with Trainer(load_train([*SMALL, "eval.static_too=true"])) as twin:
        twin.step()
        assert twin.evaluate() == after  # as its first evaluation
