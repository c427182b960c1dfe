"""Settings found by measuring: the probe that runs short trainings, the advisor's questions, `=auto`."""

from slipstream.training.tuning.probe import TrainingProbe
from slipstream.training.tuning.questions import training_questions
from slipstream.training.tuning.sizing import choose_sizes

__all__ = ["TrainingProbe", "choose_sizes", "training_questions"]
