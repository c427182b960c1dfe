"""What can go wrong with a checkpoint."""

from slipstream.storage.errors import SaveError


class CheckpointError(SaveError):
    """A checkpoint could not be saved or opened; the message says what to do, the cause is chained."""


class CorruptCheckpointError(CheckpointError):
    """The file is damaged, cut short, or was never a checkpoint of ours."""


class UnsafeCheckpointError(CheckpointError):
    """The file would run code by being loaded; it was refused."""
