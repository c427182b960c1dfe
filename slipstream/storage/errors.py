"""The errors of saving and loading."""


class SaveError(RuntimeError):
    """Something could not be saved or read back. The message says what to do; the cause is chained."""


class DamagedFileError(SaveError, ValueError):
    """The file is not what was written: cut short, damaged, forged, or of another kind."""


class TooLargeError(SaveError):
    """Reading the file would take more memory than `max_bytes`."""


class UnsafeFolderError(SaveError, OSError):
    """A folder holds symbolic links that lead out of it, so that writing there would change files elsewhere."""
