"""The errors of saving and loading, and how text from a file is shown."""


def printable(text: object, keep: str = "\n\t") -> str:
    r"""Return text that a terminal only shows: control characters, such as those of colors, become `\x1b`.

    Those in `keep` are left as they are; with keep="" the text is one line.
    """
    text = str(text)
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in keep else ascii(c)[1:-1] for c in text)


class SaveError(RuntimeError):
    """Something could not be saved or read back. The message says what to do; the cause is chained."""


class DamagedFileError(SaveError, ValueError):
    """The file is not what was written: cut short, damaged, forged, or of another kind."""


class TooLargeError(SaveError):
    """Reading the file would take more memory than `max_bytes`."""


class UnsafeFolderError(SaveError, OSError):
    """A folder holds symbolic links that lead out of it, so that writing there would change files elsewhere."""
