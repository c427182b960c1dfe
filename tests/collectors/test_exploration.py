from __future__ import annotations

import threading

import pytest

from slipstream.collectors import ExplorationType, exploration_type, set_exploration_type


def test_blocks_nest_and_the_outer_choice_comes_back():
    with set_exploration_type(ExplorationType.MEAN):
        with set_exploration_type(ExplorationType.MODE):
            assert exploration_type() is ExplorationType.MODE
        assert exploration_type() is ExplorationType.MEAN
    assert exploration_type() is ExplorationType.RANDOM
    with pytest.raises(KeyboardInterrupt), set_exploration_type(ExplorationType.MEAN):
        raise KeyboardInterrupt
    assert exploration_type() is ExplorationType.RANDOM


def test_another_thread_has_its_own_choice():
    seen = []
    with set_exploration_type(ExplorationType.MEAN):
        thread = threading.Thread(target=lambda: seen.append(exploration_type()))
        thread.start()
        thread.join()
    assert seen == [ExplorationType.RANDOM]


def test_anything_else_is_refused_with_the_choices():
    choices = "ExplorationType.RANDOM, ExplorationType.MEAN, ExplorationType.MODE, not 'mean'"
    with pytest.raises(TypeError, match=choices), set_exploration_type("mean"):
        pass
