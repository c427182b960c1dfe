"""What savers raise, under one name."""


class SaveError(RuntimeError):
    """What was to be kept on a disk, or read back from it, could not be; the message says what to do, the cause is chained."""
