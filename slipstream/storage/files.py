"""Files that appear complete or not at all, one writer per folder, and the system calls behind both.

Every write goes to a temporary name, then fsync, rename and fsync of the folder. The system calls are methods of
`FileSystem`, so that a test can make any of them fail.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import itertools
import os
import re
import socket
import stat
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from slipstream.storage.errors import UnsafeFolderError

try:
    import fcntl
except ImportError:  # not a POSIX system: there are no locks
    fcntl = None  # type: ignore[assignment]

LOCK_NAME = ".writer.lock"
_WRITEBACK_BYTES = 8 << 20
_counter = itertools.count()
_HOST = "".join(c for c in socket.gethostname() if c.isalnum())[:32] or "host"


_sync_file_range = getattr(ctypes.CDLL(None), "sync_file_range", None)  # Linux only


class FileSystem:
    """The system calls of a save."""

    write, fsync, replace = staticmethod(os.write), staticmethod(os.fsync), staticmethod(os.replace)
    unlink, symlink = staticmethod(os.unlink), staticmethod(os.symlink)

    @staticmethod
    def create(path: Path) -> int:
        """Create a file for writing, with the permissions that the umask leaves."""
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0), 0o666)


DISK = FileSystem()  # tests put one that fails in its place


class AtomicFile:
    """A file being written under a temporary name, see `atomic_file`."""

    def __init__(self, fd: int) -> None:
        self.position = self._synced = 0
        self.error: OSError | None = None
        self._fd = fd

    def write(self, data: Any) -> int:
        """Append all of `data`."""
        view = memoryview(data).cast("B")
        done = 0
        try:
            while done < len(view):
                done += DISK.write(self._fd, view[done:])
        except OSError as error:
            self.error = self.error or error
            raise
        self.position += done
        if _sync_file_range is not None and self.position - self._synced >= _WRITEBACK_BYTES:
            # let the disk begin (SYNC_FILE_RANGE_WRITE): fsync has little left to do, 188 MB take 448 ms and not 577
            start, length = ctypes.c_int64(self._synced), ctypes.c_int64(self.position - self._synced)
            _sync_file_range(self._fd, start, length, 2)
            self._synced = self.position
        return done

    def write_at(self, offset: int, data: bytes) -> None:
        """Overwrite bytes that were written before, such as a header; nothing is appended afterwards."""
        os.lseek(self._fd, offset, os.SEEK_SET)
        self.write(data)
        self.position -= len(data)

    def flush(self) -> None:
        """Do nothing: `torch.save` calls it, and no bytes are buffered."""


@contextlib.contextmanager
def atomic_file(path: Path, durable: bool = True) -> Iterator[AtomicFile]:
    """Write a file that appears at the end of the block, on the disk. After an error the old file is unchanged.

    A symbolic link at `path` is replaced, not followed.

    Args:
        durable: False does not wait for the disk: a power cut may leave the old file, or an empty one.
    """
    check_writable(path)
    temporary = temporary_name(path)
    fd = DISK.create(temporary)
    file = AtomicFile(fd)
    try:
        try:
            yield file
            if durable:
                DISK.fsync(fd)
        finally:
            os.close(fd)
        DISK.replace(temporary, path)
        if durable:
            sync_folder(path.parent)
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        # torch's writer reports a full disk as an internal error
        if file.error is not None and error is not file.error:
            raise file.error from error
        raise


def write_file(path: Path, data: bytes | Iterable[Any], durable: bool = True) -> None:
    """Write `data`, or several buffers, to a path that the user gave: a symbolic link there is kept, its target is
    replaced."""
    check_writable(path)
    with atomic_file(Path(os.path.realpath(path)), durable) as file:
        for part in (data,) if isinstance(data, bytes) else data:
            file.write(part)


def regular_files(folder: Path, is_named: Callable[[str], bool]) -> list[Path]:
    """Return the files in a folder that are named so, by name; none if there is no folder.

    What is so named but no file (a folder, a pipe, a device, a link to nothing) is left out with a warning: reading it
    fails or never ends, and the others are good.
    """
    found = []
    with contextlib.suppress(FileNotFoundError, NotADirectoryError), os.scandir(folder) as entries:
        for path in (folder / entry.name for entry in entries if is_named(entry.name)):
            if path.is_file():
                found.append(path)
            else:
                warnings.warn(f"{path} is not a file: it is left out", RuntimeWarning, stacklevel=3)
    return sorted(found)


def check_writable(path: Path) -> None:
    """Raise OSError if no file can be put at `path`: its folder is missing, or something that is not a file is
    there."""
    if not path.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {path.parent} to write {path.name} into: make it, or name another")
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder: name a file in it")
    if path.exists() and not path.is_file():
        raise FileExistsError(f"{path} is a device, a pipe or a socket: name another file")


def temporary_name(path: Path) -> Path:
    """The name under which this process writes `path`; `stale_files` recognizes it."""
    return path.with_name(f".{path.name}.{_HOST}-{os.getpid()}-{next(_counter)}.tmp")


def sync_folder(folder: Path) -> None:
    """Make renames and removals in `folder` durable."""
    fd = os.open(folder, os.O_RDONLY)
    try:
        DISK.fsync(fd)
    finally:
        os.close(fd)


def remove_file(path: Path) -> None:
    """Remove a file or a link; call `sync_folder` after the last one."""
    DISK.unlink(path)


def point_link(link: Path, target: Path) -> None:
    """Make `link` a symbolic link to the file `target` beside it, in one step."""
    temporary = temporary_name(link)
    try:
        DISK.symlink(target.name, temporary)
        DISK.replace(temporary, link)
    finally:
        with contextlib.suppress(OSError):
            os.unlink(temporary)


def stale_files(folder: Path) -> list[Path]:
    """Temporary files in `folder` of a process of this machine that no longer runs."""
    named = re.compile(rf"\..*\.{_HOST}-(\d+)-\d+\.tmp")
    found = ((path, named.fullmatch(path.name)) for path in folder.glob(".*.tmp"))
    return [path for path, match in found if match and not is_alive(int(match[1]))]


def is_alive(pid: int) -> bool:
    """Return whether this machine has a process with this number."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:  # of another user
        pass
    return True


def make_folder(folder: Path) -> None:
    """Create `folder` and the folders above it, durably: what is saved there must not vanish with its folder."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for path in missing:
        sync_folder(path.parent)


def prepare_folder(folder: Path) -> None:
    """Make `folder` ready for writing: create it, refuse links that lead out of it, remove files of killed
    processes."""
    make_folder(folder)
    refuse_outside_links(folder)
    for path in stale_files(folder):
        with contextlib.suppress(OSError):
            path.unlink()


def refuse_outside_links(folder: Path) -> None:
    """Raise UnsafeFolderError if a symbolic link in `folder`, or in one of its folders, leads out of it.

    Links within the folder, such as `latest.pt`, are allowed, and so is a `folder` that is itself a link: the user
    named it.
    """
    links = (path for pattern in ("*", "*/*") for path in folder.glob(pattern) if path.is_symlink())
    found = sorted({str(link.relative_to(folder)) for link in links if not _is_inside(link, folder)})
    if found:
        names = ", ".join(found[:8]) + (" ..." if len(found) > 8 else "")
        raise UnsafeFolderError(
            f"{folder} has symbolic links to files elsewhere ({names}): replace them by files, or use another folder"
        )


def default_output(path: Path) -> Path:
    """Return `path`, which the user did not type: raise UnsafeFolderError if it is a link to a file elsewhere."""
    if path.is_symlink() and not _is_inside(path, path.parent):
        raise UnsafeFolderError(f"{path} is a symbolic link to a file elsewhere: remove it, or name the file to write")
    return path


def open_in_place(path: Path, flags: int = 0) -> int:
    """Open a file for reading and writing where it is; return its descriptor. Anything that is not a file, and a file
    that has a second name elsewhere, is refused: it would be changed there too."""
    flags |= getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0)
    fd = os.open(path, os.O_RDWR | os.O_CREAT | flags, 0o666)
    info = os.fstat(fd)
    if stat.S_ISREG(info.st_mode) and info.st_nlink <= 1:
        return fd
    os.close(fd)
    if stat.S_ISREG(info.st_mode):
        raise UnsafeFolderError(f"{path} has a second name (a hard link), whose file would change too: copy it first")
    raise FileExistsError(f"{path} is a device, a pipe or a socket: remove it")


def _is_inside(link: Path, folder: Path) -> bool:
    return Path(os.path.realpath(link)).is_relative_to(os.path.realpath(folder))


class WriterLock:
    """A lock on a folder, held from `take` to `release` or for a `with` block. The system releases it when the process
    dies.

    A second `take`, also in the same process, raises BlockingIOError with the holder's name and `remedy`.
    """

    def __init__(self, folder: Path, remedy: str = "give every writer its own folder") -> None:
        self._path, self._remedy = folder / LOCK_NAME, remedy
        self._fd = -1

    def take(self) -> None:
        """Take the lock, or raise at once."""
        if self._fd >= 0 or fcntl is None:
            return
        refuse_outside_links(self._path.parent)
        fd = open_in_place(self._path, os.O_NOFOLLOW)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = "".join(c for c in os.read(fd, 200).decode(errors="replace") if c.isprintable())
            os.close(fd)
            if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
                raise BlockingIOError(
                    f"{self._path.parent} is being written by {holder or 'another writer'}: {self._remedy}"
                ) from None
            if error.errno in (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS):  # a file system without locks
                return
            raise
        with contextlib.suppress(OSError):  # a full disk: the lock is held without the name
            os.ftruncate(fd, 0)
            os.pwrite(fd, f"process {os.getpid()} on {socket.gethostname()}\n".encode(), 0)
        self._fd = fd
        # a forked child that outlives this process would keep the lock
        os.register_at_fork(after_in_child=self.release)

    def release(self) -> None:
        """Release the lock. May be called twice."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __enter__(self) -> WriterLock:
        self.take()
        return self

    def __exit__(self, *exc: object) -> None:
        self.release()
