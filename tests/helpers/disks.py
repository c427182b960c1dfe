"""File systems that fail or wait, in the place of `slipstream.storage.files.DISK`."""

import errno
import os
import threading

from slipstream.storage import files
from slipstream.storage.files import FileSystem


def put_in(monkeypatch, disk):
    """Let all saves use `disk`; return it."""
    monkeypatch.setattr(files, "DISK", disk)
    return disk


class FailingDisk(FileSystem):
    """Fails at the n-th call of one kind, as a full disk or a lost mount does; a failing write may first write a
    part."""

    def __init__(self, kind="", at=-1, error=errno.ENOSPC):
        self.kind, self.at, self.error, self.calls = kind, at, error, {}

    def _count(self, kind):
        n = self.calls[kind] = self.calls.get(kind, 0) + 1
        if kind == self.kind and n == self.at:
            raise OSError(self.error, os.strerror(self.error))

    def create(self, path):
        self._count("create")
        return super().create(path)

    def write(self, fd, data):
        if self.kind == "write" and self.calls.get("write", 0) + 1 == self.at:
            super().write(fd, data[: len(data) // 2])
        self._count("write")
        return super().write(fd, data)

    def fsync(self, fd):
        self._count("fsync")
        super().fsync(fd)

    def replace(self, source, target):
        self._count("replace")
        super().replace(source, target)

    def unlink(self, path):
        self._count("unlink")
        super().unlink(path)

    def symlink(self, target, link):
        self._count("symlink")
        super().symlink(target, link)


class HeldDisk(FileSystem):
    """Holds every new file until it is opened, so that snapshots wait in the queue."""

    def __init__(self):
        self.open, self.reached = threading.Event(), threading.Event()

    def create(self, path):
        self.reached.set()
        assert self.open.wait(30)
        return super().create(path)
