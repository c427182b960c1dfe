"""Files that appear whole or not at all, and the few calls to the system through which every byte goes."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import itertools
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from slipstream.storage.atomic import refuse_unwritable

_WRITEBACK = 8 << 20
_counter = itertools.count()
_HOST = "".join(c for c in socket.gethostname() if c.isalnum())[:32] or "host"


def _load_sync_file_range() -> Any:
    with contextlib.suppress(OSError, AttributeError):
        function = ctypes.CDLL(None).sync_file_range  # Linux alone has it
        function.argtypes = [ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint]
        return function
    return None


_sync_file_range = _load_sync_file_range()


class FileSystem:
    """The system calls of a save, one method each, so that a test can make any of them fail."""

    def create(self, path: Path) -> int:
        """A new file for writing, with the permissions that the umask leaves."""
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0), 0o666)

    def write(self, fd: int, data: Any) -> int:
        """Write some of `data`; how many bytes were taken."""
        return os.write(fd, data)

    def start_writeback(self, fd: int, offset: int, length: int) -> None:
        """Let the disk begin on what was just written, so that `fsync` finds little left to do; only a hint."""
        if _sync_file_range is not None:
            _sync_file_range(fd, offset, length, 2)  # SYNC_FILE_RANGE_WRITE: begin, do not wait

    def fsync(self, fd: int) -> None:
        """Everything written to `fd` is on the disk when this returns."""
        os.fsync(fd)

    def replace(self, source: Path, target: Path) -> None:
        """Rename over whatever is at `target`, in one step."""
        os.replace(source, target)

    def unlink(self, path: Path) -> None:
        """Remove a name."""
        os.unlink(path)

    def symlink(self, target: str, link: Path) -> None:
        """Make `link` point to `target`."""
        os.symlink(target, link)

    def link(self, source: Path, target: Path) -> None:
        """A second name for `source`."""
        os.link(source, target)


class AtomicFile:
    """A file being written under a temporary name; `commit` puts it in its place, leaving without it removes it."""

    def __init__(self, path: Path, fs: FileSystem) -> None:
        self.path = path
        self.position = self._begun = 0
        self.error: OSError | None = None
        self._fs = fs
        refuse_unwritable(path)
        self._temporary = path.with_name(f".{path.name}.{_HOST}-{os.getpid()}-{next(_counter)}.tmp")
        self._fd = fs.create(self._temporary)

    def write(self, data: Any) -> int:
        """Append all of `data`."""
        view = memoryview(data).cast("B")
        done = 0
        try:
            while done < len(view):
                done += self._fs.write(self._fd, view[done:])
        except OSError as error:
            self.error = self.error or error
            raise
        self.position += done
        if self.position - self._begun >= _WRITEBACK:
            self._fs.start_writeback(self._fd, self._begun, self.position - self._begun)
            self._begun = self.position
        return done

    def flush(self) -> None:
        """Nothing is held back: `torch.save` asks for it."""

    def write_at(self, offset: int, data: bytes) -> None:
        """Write over bytes already there (the header, once the index is known)."""
        os.lseek(self._fd, offset, os.SEEK_SET)
        self._fs.write(self._fd, data)

    def commit(self) -> None:
        """On the disk and under its name when this returns."""
        self._fs.fsync(self._fd)
        os.close(self._fd)
        self._fd = -1
        self._fs.replace(self._temporary, self.path)
        sync_folder(self.path.parent, self._fs)

    def abandon(self) -> None:
        """Leave nothing behind; does nothing after `commit`."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
        with contextlib.suppress(OSError):
            os.unlink(self._temporary)


@contextlib.contextmanager
def atomic_file(path: Path, fs: FileSystem) -> Iterator[AtomicFile]:
    """Write a file that appears, complete and durable, at the end of the block; an error leaves what was there before."""
    file = AtomicFile(path, fs)
    try:
        yield file
        file.commit()
    except BaseException as error:
        if (
            file.error is not None and error is not file.error
        ):  # torch's writer reports a full disk as an internal error
            raise file.error from error
        raise
    finally:
        file.abandon()


def sync_folder(folder: Path, fs: FileSystem) -> None:
    """Make renames and removals in `folder` durable."""
    fd = os.open(folder, os.O_RDONLY)
    try:
        fs.fsync(fd)
    finally:
        os.close(fd)


def point(link: Path, target: Path, fs: FileSystem) -> None:
    """Make `link` a symbolic link to `target`, its neighbour, in one step; a hard link where there are no symbolic ones."""
    temporary = link.with_name(f".{link.name}.{_HOST}-{os.getpid()}-{next(_counter)}.tmp")
    try:
        try:
            fs.symlink(target.name, temporary)
        except OSError as error:
            if error.errno not in (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS):
                raise
            fs.link(target, temporary)
        fs.replace(temporary, link)
    finally:
        with contextlib.suppress(OSError):
            os.unlink(temporary)


def stale_files(folder: Path, every_host: bool = False) -> list[Path]:
    """Temporary files in `folder` whose writer is gone: killed on this machine; with `every_host`, on any."""
    found = []
    for path in folder.glob(".*.tmp"):
        owner = path.name.removesuffix(".tmp").rpartition(".")[2].split("-")
        if len(owner) != 3 or not owner[1].isdigit():
            continue
        if owner[0] == _HOST and not _alive(int(owner[1])) or owner[0] != _HOST and every_host:
            found.append(path)
    return found


def enter_folder(folder: Path) -> None:
    """Make the folder, before the first file goes into it, and clear away what a killed process left half written."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in stale_files(folder):
        with contextlib.suppress(OSError):
            path.unlink()


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
