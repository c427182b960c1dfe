"""The memory of the test process."""

import ctypes
import gc


def trim_heap():
    """Return free memory to the system: what a test allocates next would be taken from it without the process growing."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
