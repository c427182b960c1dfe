"""What the monitor's tests share."""

import pytest
from hand_clock import Clock


@pytest.fixture
def clock() -> Clock:
    return Clock()
