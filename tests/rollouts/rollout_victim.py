"""Saves batches until it is killed; says after each one that is on the disk.

python rollout_victim.py FOLDER
"""

from __future__ import annotations

import sys

from rollout_worlds import world

from slipstream import RolloutStorage


def main(folder: str) -> None:
    with RolloutStorage(folder) as storage:
        i = 0
        while True:
            storage.save(world(32, 64, first=i), i)
            if i % 5 == 4:
                storage.wait()
                print(i, flush=True)
            i += 1


if __name__ == "__main__":
    main(sys.argv[1])
