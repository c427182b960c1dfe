"""Where numba is missing the same loops run in Python."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import sys
sys.modules["numba"] = None
import numpy as np, warnings
warnings.simplefilter("error")
from slipstream.replay.samplers import permute
from slipstream.replay.sum_tree import SumTree
from slipstream.replay.index import StepIndex, PrefixSum
assert permute(np.arange(40), 40, key=5).tolist() == {permuted}
tree = SumTree(300)
tree[np.arange(300)] = np.arange(300.0)
assert tree.total == 44850 and tree.find(np.array([0.5, 1.5, 44849.0])).tolist() == [1, 2, 299]
prefix = PrefixSum(100)
for n in (50, 30, 40): prefix.add(n)
assert prefix.get_range_idx(np.array([0, 29, 30, 69])).tolist() == [0, 0, 1, 1]
"""


def test_the_loops_give_the_same_without_numba():
    import numpy as np

    from slipstream.replay.samplers import permute

    program = PROGRAM.format(permuted=permute(np.arange(40), 40, key=5).tolist())
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
