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
import socket
import stat
import warnings
import weakref
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
_LINK_DEPTH = 2  # levels that `refuse_outside_links` looks at: the folder itself and its folders
_counter = itertools.count()
_HOST = "".join(c for c in socket.gethostname() if c.isalnum())[:32] or "host"


_sync_file_range = getattr(ctypes.CDLL(None), "sync_file_range", None)  # Linux only


class FileSystem:
    """The system calls of a save, one method each."""

    def create(self, path: Path) -> int:
        """Create a file for writing, with the permissions that the umask leaves."""
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0), 0o666)

    def write(self, fd: int, data: Any) -> int:
        """Write some of `data`; return the number of bytes written."""
        return os.write(fd, data)

    def start_writeback(self, fd: int, offset: int, length: int) -> None:
        """Let the disk begin with these bytes, so that `fsync` has little left to do. Only a hint."""
        if _sync_file_range is not None:
            # SYNC_FILE_RANGE_WRITE: start, do not wait
            _sync_file_range(fd, ctypes.c_int64(offset), ctypes.c_int64(length), 2)

    def fsync(self, fd: int) -> None:
        """Return once everything written to `fd` is on the disk."""
        os.fsync(fd)

    def replace(self, source: Path, target: Path) -> None:
        """Rename over `target` in one step."""
        os.replace(source, target)

    def unlink(self, path: Path) -> None:
        """Remove a name."""
        os.unlink(path)

    def symlink(self, target: str, link: Path) -> None:
        """Make `link` point to `target`."""
        os.symlink(target, link)


DISK = FileSystem()


class AtomicFile:
    """A file being written under a temporary name. `commit` moves it into place; without it nothing is left behind."""

    def __init__(self, path: Path, fs: FileSystem) -> None:
        check_writable(path)
        self.path = path
        self.position = self._synced = 0
        self.error: OSError | None = None
        self._fs = fs
        self._temporary = temporary_name(path)
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
        if self.position - self._synced >= _WRITEBACK_BYTES:
            self._fs.start_writeback(self._fd, self._synced, self.position - self._synced)
            self._synced = self.position
        return done

    def write_at(self, offset: int, data: bytes) -> None:
        """Overwrite bytes that were written before, such as a header."""
        os.lseek(self._fd, offset, os.SEEK_SET)
        done = 0
        while done < len(data):
            done += self._fs.write(self._fd, data[done:])

    def flush(self) -> None:
        """Do nothing: `torch.save` calls it, and no bytes are buffered."""

    def commit(self) -> None:
        """Return once the file is on the disk under its name."""
        self._fs.fsync(self._fd)
        os.close(self._fd)
        self._fd = -1
        self._fs.replace(self._temporary, self.path)
        sync_folder(self.path.parent, self._fs)

    def abandon(self) -> None:
        """Remove the temporary file. Does nothing after `commit`."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
        with contextlib.suppress(OSError):
            os.unlink(self._temporary)


@contextlib.contextmanager
def atomic_file(path: Path, fs: FileSystem = DISK) -> Iterator[AtomicFile]:
    """Write a file that appears at the end of the block. After an error the old file is unchanged.

    A symbolic link at `path` is replaced, not followed.
    """
    file = AtomicFile(path, fs)
    try:
        yield file
        file.commit()
    except BaseException as error:
        # torch's writer reports a full disk as an internal error
        if file.error is not None and error is not file.error:
            raise file.error from error
        raise
    finally:
        file.abandon()


def write_file(path: Path, data: bytes | Iterable[Any], fs: FileSystem = DISK) -> None:
    """Write `data`, or several buffers, to a path that the user gave: a symbolic link there is kept, its target is
    replaced."""
    check_writable(path)
    with atomic_file(Path(os.path.realpath(path)), fs) as file:
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


def sync_folder(folder: Path, fs: FileSystem = DISK) -> None:
    """Make renames and removals in `folder` durable."""
    fd = os.open(folder, os.O_RDONLY)
    try:
        fs.fsync(fd)
    finally:
        os.close(fd)


def point_link(link: Path, target: Path, fs: FileSystem = DISK) -> None:
    """Make `link` a symbolic link to the file `target` beside it, in one step."""
    temporary = temporary_name(link)
    try:
        fs.symlink(target.name, temporary)
        fs.replace(temporary, link)
    finally:
        with contextlib.suppress(OSError):
            os.unlink(temporary)


def stale_files(folder: Path) -> list[Path]:
    """Temporary files in `folder` of a process of this machine that no longer runs."""
    found = []
    for path in folder.glob(".*.tmp"):
        owner = path.name.removesuffix(".tmp").rpartition(".")[2].split("-")
        if len(owner) != 3 or not owner[1].isdigit():
            continue
        if owner[0] == _HOST and not is_alive(int(owner[1])):
            found.append(path)
    return found


def is_alive(pid: int) -> bool:
    """Return whether this machine has a process with this number."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        return True
    return True


def make_folder(folder: Path, fs: FileSystem = DISK) -> None:
    """Create `folder` and the folders above it, durably: what is saved there must not vanish with its folder."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for path in missing:
        sync_folder(path.parent, fs)


def prepare_folder(folder: Path, fs: FileSystem = DISK) -> None:
    """Make `folder` ready for writing: create it, refuse links that lead out of it, remove files of killed
    processes."""
    make_folder(folder, fs)
    refuse_outside_links(folder)
    for path in stale_files(folder):
        with contextlib.suppress(OSError):
            path.unlink()


def refuse_outside_links(folder: Path) -> None:
    """Raise UnsafeFolderError if a symbolic link in `folder`, or in one of its folders, leads out of it.

    Links within the folder, such as `latest.pt`, are allowed, and so is a `folder` that is itself a link: the user
    named it.
    """
    root = os.path.realpath(folder)
    found = [
        os.path.relpath(link, folder) for link in _links(os.fspath(folder), _LINK_DEPTH) if not _is_inside(link, root)
    ]
    if found:
        names = ", ".join(sorted(found)[:8]) + (" ..." if len(found) > 8 else "")
        raise UnsafeFolderError(
            f"{folder} has symbolic links to files elsewhere ({names}): replace them by files, or use another folder"
        )


def default_output(path: Path) -> Path:
    """Return `path`, which the user did not type: raise UnsafeFolderError if it is a link to a file elsewhere."""
    if path.is_symlink() and not _is_inside(os.fspath(path), os.path.realpath(path.parent)):
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


def _links(folder: str, depth: int) -> Iterator[str]:
    with contextlib.suppress(FileNotFoundError, NotADirectoryError, PermissionError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_symlink():
                yield entry.path
            elif depth > 1 and entry.is_dir(follow_symlinks=False):
                yield from _links(entry.path, depth - 1)


def _is_inside(link: str, root: str) -> bool:
    target = os.path.realpath(link)
    return target == root or target.startswith(root.rstrip(os.sep) + os.sep)


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
        _held.add(self)

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


_held: weakref.WeakSet[WriterLock] = weakref.WeakSet()


def _release_in_child() -> None:
    """Close the copies of a forked child: one that outlives its parent would keep the lock."""
    for lock in list(_held):
        lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_release_in_child)
