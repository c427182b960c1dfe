"""Importing slipstream makes OpenMP's threads wait without spinning, as the command line does."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest


@pytest.mark.skipif(sys.platform != "linux", reason="libgomp is Linux's")
@pytest.mark.parametrize(
    ("first", "given", "warns"),
    [("slipstream", {}, False), ("torch", {}, True), ("torch", {"GOMP_SPINCOUNT": "5"}, False),
     ("torch", {"OMP_WAIT_POLICY": "passive"}, False), ("torch", {"OMP_NUM_THREADS": "1"}, False)],
)  # fmt: skip
def test_imports_set_the_spin_count_or_warn(first, given, warns):
    env = {k: v for k, v in os.environ.items() if k not in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY", "OMP_NUM_THREADS")}
    env |= {"OMP_NUM_THREADS": "2"} | given
    code = f"import {first}, slipstream, os; print(os.environ.get('GOMP_SPINCOUNT'))"
    if given:  # a stand-in for torch is enough
        torch = f"types.SimpleNamespace(get_num_threads=lambda: {env['OMP_NUM_THREADS']})"
        code = f"import sys, types; sys.modules['torch'] = {torch}; {code}"
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == given.get("GOMP_SPINCOUNT", "None" if "OMP_WAIT_POLICY" in given else "1000")
    assert ("torch was imported before slipstream" in done.stderr) == warns
