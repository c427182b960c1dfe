"""Settings found by measuring: the probe that runs short trainings, the advisor's questions, `=auto`."""

from slipstream.tuning.probe import TrainingProbe
from slipstream.tuning.questions import training_questions
from slipstream.tuning.sizing import choose_sizes

__all__ = ["TrainingProbe", "choose_sizes", "training_questions"]
