"""Set before torch is imported: two threads, and little spinning while they wait (see cli.py), whatever else the machine does."""

import os

os.environ.setdefault("GOMP_SPINCOUNT", "1000")
os.environ.setdefault("OMP_NUM_THREADS", "2")
os.environ.setdefault("NUMBA_NUM_THREADS", "2")
