"""The public names and parameters that documents and docs promise (public_api.txt). Parameters may be added, each with
a default."""

from __future__ import annotations

import inspect
import re
from functools import reduce
from pathlib import Path

import pytest

import slipstream
from slipstream import ExplorationType

NEEDED = inspect.Parameter.empty
PROMISES = [
    line[:-1].split("(", 1) for line in (Path(__file__).parent / "public_api.txt").read_text().split("\n") if line
]


def parameters(function) -> dict[str, inspect.Parameter]:
    function = function.__init__ if inspect.isclass(function) else function
    return {name: p for name, p in inspect.signature(function).parameters.items() if name != "self"}


def shown(parameter: inspect.Parameter) -> str:
    """A parameter as a line of the file has it: classes and members of enums by their name."""
    default = parameter.default
    text = getattr(default, "__name__", getattr(default, "name", repr(default)))
    return parameter.name if default is NEEDED else f"{parameter.name}={text}"


@pytest.mark.parametrize(("name", "promised"), PROMISES, ids=[name for name, _ in PROMISES])
def test_a_public_name_takes_what_it_took(name, promised):
    assert name.partition(".")[0] in slipstream.__all__
    function = reduce(getattr, name.split("."), slipstream)
    if name == "ExplorationType":
        return
    wanted = re.findall(r"(\w+)(?:=((?:\([^)]*\)|'[^']*'|[^,])+))?", promised)
    found = parameters(function)
    assert [key for key in found if key in dict(wanted)] == [key for key, _ in wanted]  # all there, in this order
    for key, default in wanted:
        assert default == "..." or shown(found[key]) == (f"{key}={default}" if default else key)
    spread = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    added = [p for key, p in found.items() if key not in dict(wanted) and p.kind not in spread]
    assert [p.name for p in added if p.default is NEEDED] == []  # what a caller of today does not give


def test_positional_parameters_of_the_documents_stay_positional():
    counts = {"DictReplayBuffer": 4, "SyncDataCollector": 3, "PipelinedDataCollector": 3, "RolloutStorage": 2}
    for name, count in counts.items():
        kinds = [p.kind for p in parameters(getattr(slipstream, name)).values()][:count]
        assert kinds == [inspect.Parameter.POSITIONAL_OR_KEYWORD] * count


def test_the_documented_modules():
    from slipstream.envs import adapters, base
    from slipstream.models import build_policy
    from slipstream.train import run

    assert {kind.name for kind in ExplorationType} >= {"RANDOM", "MEAN", "MODE"}
    assert list(parameters(build_policy))[:2] == ["observation_spec", "action_spec"] and parameters(run)
    assert {"Outcome", "TensorEnv", "StepRecord", "BadActionError"} <= set(dir(base))
    assert {"GymnasiumEnv", "GymnasiumVectorEnv", "PettingZooEnv", "SB3VecEnv", "TorchRLEnv"} <= set(dir(adapters))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: slipstream.NavigationEnv(2.5), "num_envs must be a whole number, not 2.5"),
        (lambda: slipstream.AirCombatEnv("4"), "num_envs must be a whole number, not '4'"),
        (
            lambda: slipstream.SyncDataCollector(slipstream.NavigationEnv(4), None, frames_per_batch=8.0),
            "a whole number, not 8.0",
        ),
        (
            lambda: slipstream.SyncDataCollector(slipstream.NavigationEnv(4), None, frames_per_batch=-8),
            "must be at least 1, not -8",
        ),
        (lambda: slipstream.RolloutStorage("nowhere", compression_level=1.5), "compression_level is 1.5"),
        (lambda: slipstream.CompressedLidarTransform(compression_level=1.5), "compression_level=1.5 is not in 0 … 16"),
        (lambda: slipstream.PrioritizedSampler(alpha=float("nan")), "give alpha >= 0"),
    ],
)
def test_a_wrong_number_is_refused_when_it_is_given(make, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        make()
