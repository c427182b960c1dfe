"""The errors of checkpoints."""

from slipstream.storage.errors import DamagedFileError, SaveError


class CheckpointError(SaveError):
    """A checkpoint could not be saved or opened. The message says what to do; the cause is chained."""


class CorruptCheckpointError(CheckpointError, DamagedFileError):
    """The file is damaged, cut short, or was never a checkpoint."""


class UnsafeCheckpointError(CheckpointError):
    """Loading the file would run code from it, so it was refused."""
