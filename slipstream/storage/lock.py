"""One writer a folder: a lock that the system lets go when its holder dies, however it dies."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import weakref
from pathlib import Path

try:
    import fcntl
except ImportError:  # not a POSIX system: there is no lock then
    fcntl = None  # type: ignore[assignment]

NAME = ".writer.lock"


class WriterLock:
    """Held from `take` to `release`, or for a `with` block. A second taker, also in the same process, gets a BlockingIOError that
    says who holds it, and `remedy`: what to do then."""

    def __init__(self, folder: Path, remedy: str = "give every writer its own folder") -> None:
        self._path, self._remedy = folder / NAME, remedy
        self._fd = -1

    def take(self) -> None:
        """Takes the lock, or raises at once."""
        if self._fd >= 0 or fcntl is None:
            return
        fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.read(fd, 200).decode(errors="replace").strip()
            os.close(fd)
            if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
                who = holder or "another writer"
                raise BlockingIOError(f"{self._path.parent} is being written by {who}: {self._remedy}") from None
            if error.errno in (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS):  # a file system without locks
                return
            raise
        with contextlib.suppress(OSError):  # a full disk: the lock holds without the name
            os.ftruncate(fd, 0)
            os.pwrite(fd, f"process {os.getpid()} on {socket.gethostname()}\n".encode(), 0)
        self._fd = fd
        _held.add(self)

    def release(self) -> None:
        """Lets the lock go; may be called twice."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __enter__(self) -> WriterLock:
        self.take()
        return self

    def __exit__(self, *exc: object) -> None:
        self.release()


_held: weakref.WeakSet[WriterLock] = weakref.WeakSet()


def _leave_to_parent() -> None:
    """A forked child lets go of its copies: one that outlives its parent would hold the lock on, in the name of the dead."""
    for lock in list(_held):
        lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_to_parent)
