"""An evaluation that runs beside the training leaves the log and the files of one that the training waits for."""

import copy

import pytest
import torch
from tiny_runs import TINY, differences, rows_of, run_words, state_of

from slipstream.tasks.evaluation import TrainingEvaluation
from slipstream.tasks.navigation.task import NavigationTask
from slipstream.training.metrics_log import read_metrics
from slipstream.training.outputs import RunOutputs
from slipstream.training.trainer import Trainer

# 8 iterations; those after 3 and 6 and the last are evaluated
WORDS = [*TINY, "algo.epochs=2", "total_frames=512", "save_interval=100", "eval_interval=3"]


class Slow(TrainingEvaluation):
    """Its results come when they were asked for `polls` times; it flies a copy of the weights, as on a GPU."""

    def __init__(self, trained, own, polls):
        super().__init__(own.policy, own.start)
        self.trained, self.own, self.polls, self.left = trained, own, polls, 0

    def start(self):
        self.policy.load_state_dict(self.trained.state_dict())
        self.left = self.polls

    def take(self, wait=True):
        if self.left and not wait:
            self.left -= 1
            return None
        self.own.start()
        return self.own.take()


@pytest.fixture
def slow(monkeypatch):
    make = NavigationTask.make_evaluation

    def with_polls(polls):
        def make_slow(task, cfg, policy, device):
            return Slow(policy, make(task, cfg, copy.deepcopy(policy), device), polls)

        monkeypatch.setattr(NavigationTask, "make_evaluation", make_slow)

    return with_polls


def run(root, name):
    return run_words(root, name, *WORDS)


def best(folder):
    return torch.load(folder.path / "best.pt", weights_only=True)["policy"]


@pytest.fixture(scope="module")
def waited(tmp_path_factory):
    return run(tmp_path_factory.mktemp("waited"), "waited")


@pytest.mark.parametrize("polls", [1, 2, 100])
def test_rows_and_files_are_those_of_a_run_that_waits(waited, slow, tmp_path, polls):
    slow(polls)
    beside = run(tmp_path, "beside")
    rows = rows_of(beside)
    assert rows == rows_of(waited)
    assert [row["iteration"] for row in rows] == list(range(1, 9))
    assert [row["iteration"] for row in rows if "eval/success" in row] == [3, 6, 8]
    assert not differences(state_of(beside), state_of(waited))
    assert not differences(best(beside), best(waited))


def test_a_stopped_run_counts_the_evaluation_that_runs(waited, slow, tmp_path, monkeypatch):
    slow(100)
    monkeypatch.setattr(RunOutputs, "stop_requested", property(lambda out: out.trainer.frames >= 5 * 64))
    stopped = run(tmp_path, "stopped")
    assert rows_of(stopped) == rows_of(waited)[:5]
    assert state_of(stopped)["best"] == rows_of(stopped)[2]["eval/success"]
    assert not differences(best(stopped), best(waited))


def test_a_run_that_fails_beside_an_evaluation_logs_its_rows(waited, slow, tmp_path, monkeypatch):
    slow(100)
    step = Trainer.step

    def failing(trainer, *args):
        if trainer.frames == 5 * 64:
            raise FloatingPointError("loss")
        return step(trainer, *args)

    monkeypatch.setattr(Trainer, "step", failing)
    with pytest.raises(FloatingPointError):
        run(tmp_path, "failed")
    assert [row["iteration"] for row in read_metrics(tmp_path / "failed")] == [1, 2, 3, 4, 5]
