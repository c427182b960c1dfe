"""The errors of checkpoints."""

from collections.abc import Iterator
from contextlib import contextmanager

from slipstream.storage.errors import DamagedFileError, SaveError

_WRONG_PARTS = (KeyError, TypeError, AttributeError, IndexError, RuntimeError, ArithmeticError, NotImplementedError)


class CheckpointError(SaveError):
    """A checkpoint could not be saved or opened. The message says what to do; the cause is chained."""


class CorruptCheckpointError(CheckpointError, DamagedFileError):
    """The file is damaged, cut short, or was never a checkpoint."""


class UnsafeCheckpointError(CheckpointError):
    """Loading the file would run code from it, so it was refused."""


@contextmanager
def reading_state(source: object) -> Iterator[None]:
    """Raise CorruptCheckpointError for what a missing or wrong part of a state from `source` causes in this block."""
    try:
        yield
    except (SaveError, OSError):
        raise
    except ValueError as error:  # it says what does not fit
        raise CorruptCheckpointError(f"{source}: {error}") from error
    except _WRONG_PARTS as error:
        if "out of memory" in str(error):
            raise
        why = f"{error.args[0]!r} is missing" if isinstance(error, KeyError) and error.args else type(error).__name__
        raise CorruptCheckpointError(
            f"{source}: a part of the saved state is missing or of the wrong kind ({why}): take another "
            "checkpoint, or start a new run with init="
        ) from error
