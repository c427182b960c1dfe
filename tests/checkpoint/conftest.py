"""A machine lent for its GPU may have torch and pytest alone: the GPU tests run there all the same."""

from importlib.util import find_spec

collect_ignore = [] if find_spec("hypothesis") else ["test_checkpoint_changes.py", "test_checkpoint_roundtrip.py"]
