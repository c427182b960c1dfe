"""Background workers from inside."""

from __future__ import annotations

from slipstream.storage.background import BackgroundWorker


def wait_for_error(worker: BackgroundWorker) -> None:
    """Wait until a task has failed."""
    with worker._changed:
        assert worker._changed.wait_for(lambda: worker._errors, 30)
