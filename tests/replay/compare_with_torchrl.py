"""Run TorchRL's own tests twice, with its LazyTensorStorage and with our SlipstreamStorage in its place, and print what
passes only with its own, by the message.

    git clone --depth 1 https://github.com/pytorch/rl /tmp/rl
    python tests/replay/compare_with_torchrl.py /tmp/rl/test

Each test that differs must be a refusal: an axis more than one (ndim), torch.compile, writing out of turn or in place,
or reading the arrays of LazyTensorStorage. Tests of remote buffers are left out: they start processes.
"""

from __future__ import annotations

import argparse
import collections
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).parents[2]
PLUGIN = """
import sys
import torchrl.data
from slipstream.replay.adapters.torchrl import SlipstreamStorage

theirs = torchrl.data.LazyTensorStorage
SlipstreamStorage.__name__ = theirs.__name__  # in the names of the tests
for name, module in list(sys.modules.items()):
    if name.startswith("torchrl") and not name.endswith("storages.tensor") and hasattr(module, "LazyTensorStorage"):
        module.LazyTensorStorage = SlipstreamStorage
"""


def outcomes(tests: Path, files: list[str], folder: Path, ours: bool) -> dict[str, str]:
    """Return {test: "" if it passed, else the first line of its message}; tests that were skipped are left out."""
    report = folder / f"{ours}.xml"
    command = [*(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}")]
    command += [*(["-p", "slipstream_in_place"] if ours else []), "-k", "not Remote and not fresh_interpreter", *files]
    path = os.pathsep.join([str(ROOT), str(folder)])
    subprocess.run(command, cwd=tests, env={**os.environ, "PYTHONPATH": path}, stdout=subprocess.DEVNULL, check=False)
    found: dict[str, str] = {}
    for case in ElementTree.parse(report).iter("testcase"):
        results = {child.tag: child.get("message") or "failed" for child in case}
        if "skipped" not in results:
            failure = results.get("failure", results.get("error", ""))
            found[f"{case.get('classname')}::{case.get('name')}"] = failure.partition("\n")[0]
    return found


def main() -> None:
    """Compare and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tests", type=Path, help="the folder test/ of TorchRL's repository")
    parser.add_argument("files", nargs="*", default=["rb/test_rb_core.py", "rb/test_composable.py"])
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "slipstream_in_place.py").write_text(PLUGIN)
        theirs, ours = (outcomes(args.tests, args.files, folder, ours) for ours in (False, True))
    passed = [test for test, failure in theirs.items() if not failure]
    differ = {test: ours.get(test, "it did not run") for test in passed if ours.get(test, "it did not run")}
    print(
        f"{len(passed)} tests pass with LazyTensorStorage, {len(passed) - len(differ)} of them with SlipstreamStorage"
    )
    for message, count in collections.Counter(differ.values()).most_common():
        names = sorted({test.rpartition("::")[2].partition("[")[0] for test in differ if differ[test] == message})
        print(f"{count:5}  {message[:200]}\n       {', '.join(names[:6])}{' ...' if len(names) > 6 else ''}")


if __name__ == "__main__":
    main()
