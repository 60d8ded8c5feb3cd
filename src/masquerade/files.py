"""Files written completely or not at all, secrets that only their owner may read, and lock files.

A file is written under a hidden name in its own folder and renamed once it is complete and on the disk. A failure
before that leaves nothing behind, and any older file stays as it was. A process that is killed leaves its hidden file;
it was locked as long as the process lived, so whoever writes into the folder next sweeps it away. Every failure is a
one-line FileError that names the file.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import secrets
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Self

from masquerade.errors import ParameterError, Problem

PRIVATE = 0o600
_ANY = 0o666  # less the umask
_HERE, _EXCHANGE = -100, 2  # AT_FDCWD and RENAME_EXCHANGE of <fcntl.h> and <linux/fs.h>
_UNFINISHED = f".{'[0-9a-f]' * 16}.tmp"

Opener = Callable[..., AbstractContextManager[BinaryIO]]


class FileError(ParameterError):
    """A problem with a local file. The text contains its path: never show it to a peer."""

    @classmethod
    def at(cls, path: Path, text: str) -> Self:
        """Make an error about one file."""
        return cls(Problem(text, source=str(path)))


class FileExists(FileError):
    """A file that must be new exists already."""


FolderLook = tuple[tuple[str, int, int, int], ...]


def look_at(folder: Path, suffix: str) -> FolderLook:
    """Return names, files, times and sizes of a folder's files, by which a change is seen; nothing if it is gone."""
    found = []
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if not entry.name.endswith(suffix):
                continue
            with suppress(OSError):  # a link that leads nowhere
                status = entry.stat()
                found.append((entry.name, status.st_ino, status.st_mtime_ns, status.st_size))
    return tuple(sorted(found))


@contextmanager
def replacing_together() -> Iterator[Opener]:
    """Yield a function that opens a replacement for the file at a path; all are renamed when the block succeeds.

    The first is renamed last: who finds it finds what was opened after it, whenever this process was killed. It can be
    read while it is open. The umask is subtracted from a mode. A path that is a symbolic link stays one.
    """
    hidden_of: dict[Path, Path] = {}
    with ExitStack() as held:  # until the files have their names

        @contextmanager
        def opened(path: Path, mode: int = _ANY) -> Iterator[BinaryIO]:
            target = _target(path)
            sweep(target.parent)
            hidden_of[path] = hidden = _hidden(target)
            with _naming(path):
                locked = _created(hidden, mode)
                held.callback(os.close, locked)
                with _written(locked) as file:
                    yield file

        try:
            yield opened
            for path, hidden in reversed(hidden_of.items()):
                with _naming(path):
                    hidden.replace(path.resolve())
                    sync_folder(hidden.parent)
        finally:  # names are noted before the files exist, as an interrupt may come at any moment
            for hidden in hidden_of.values():
                _discard(hidden)


@contextmanager
def replacing(path: Path, mode: int = _ANY) -> Iterator[BinaryIO]:
    """Open a file that replaces `path` when the block succeeds."""
    with replacing_together() as opened, opened(path, mode) as file:
        yield file


@contextmanager
def replacing_folder(path: Path) -> Iterator[Path]:
    """Yield a hidden folder that takes the place of the folder `path` when the block succeeds.

    Only its owner may look into it until then. The two change places at once where the system can (`_exchanged`), so
    there is always one. Elsewhere the older folder is moved aside first: a process that is killed just then leaves it
    under a hidden name.
    """
    if path.exists() and not path.is_dir():
        raise FileError.at(path, "cannot be written: it is a file, and a folder is to be there")
    if not path.parent.is_dir():
        raise FileError.at(path, f"cannot be written: there is no folder {path.parent}")
    target = path.resolve()
    sweep(target.parent)
    hidden, older = _hidden(target), _hidden(target)
    with _naming(path), ExitStack() as held:
        hidden.mkdir(0o700)
        descriptor = os.open(hidden, os.O_RDONLY | os.O_CLOEXEC)
        held.callback(os.close, descriptor)
        with suppress(OSError):  # on a file system without locks nobody sweeps
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        try:
            yield hidden
            umask = os.umask(0)
            os.umask(umask)
            hidden.chmod(0o777 & ~umask)
            sync_folder(hidden)
            if not target.exists():
                hidden.rename(target)
            elif not _exchanged(hidden, target):
                target.rename(older)
                hidden.rename(target)
            sync_folder(target.parent)
        finally:
            for each in (hidden, older):
                shutil.rmtree(each, ignore_errors=True)


def _exchanged(one: Path, other: Path) -> bool:
    """Let two folders change places at once; return False where the system or the file system cannot.

    Linux has `renameat2` since 3.15 and glibc since 2.28; Python offers it nowhere.
    """
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if rename is None:
        return False
    if rename(_HERE, os.fsencode(one), _HERE, os.fsencode(other), _EXCHANGE) == 0:
        return True
    if (number := ctypes.get_errno()) in (errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP):
        return False
    raise OSError(number, os.strerror(number), str(other))


def write_whole(path: Path, data: bytes | str, mode: int = _ANY) -> None:
    """Write a file atomically, replacing any older one; text in UTF-8."""
    with replacing(path, mode) as file:
        file.write(data.encode() if isinstance(data, str) else data)


def write_new(path: Path, data: bytes, mode: int = _ANY) -> None:
    """Write a file atomically; FileExists when one exists, even if it was made meanwhile."""
    check_place(path)
    sweep(path.parent)
    hidden = _hidden(path)
    try:
        with _naming(path), ExitStack() as held:
            locked = _created(hidden, mode)
            held.callback(os.close, locked)
            with _written(locked) as file:
                file.write(data)
            os.link(hidden, path)
            sync_folder(path.parent)
    finally:
        _discard(hidden)


def sweep(folder: Path) -> None:
    """Remove what killed processes left unfinished in a folder; files that are being written stay."""
    with suppress(OSError):  # what cannot be removed now is in nobody's way
        for path in folder.glob(_UNFINISHED):
            with suppress(OSError):
                _sweep_one(path)


def _sweep_one(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)  # its writer lives: BlockingIOError
        if os.path.samestat(os.fstat(descriptor), path.lstat()):  # and no writer has made it anew
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()
    finally:
        os.close(descriptor)


def read_file(path: Path) -> bytes:
    """Read a whole file; FileError when that fails."""
    try:
        return path.read_bytes()
    except (OSError, ValueError) as error:  # ValueError: an impossible path
        raise FileError.at(path, f"cannot be read: {_reason(error)}") from None


def read_secret(path: Path, what: str, *, by_group: bool = False) -> bytes:
    """Read a file that only its owner (with `by_group` also its group) may read; `what` names it in errors."""
    data = read_file(path)
    if stat.S_IMODE(path.stat().st_mode) & (0o007 if by_group else 0o077):
        raise FileError.at(path, f"others may read {what}; chmod 600 it")
    return data


def kept_secret(path: Path, what: str, make: Callable[[], bytes]) -> bytes:
    """Read a secret, creating it if there is none; if another process is faster, use the secret that it wrote."""
    if not path.exists():
        with suppress(FileExists):
            write_new(path, make(), PRIVATE)
    return read_secret(path, what)


class FileLock:
    """A lock that one process at a time can hold; its file stays after release. `name` is what it guards."""

    def __init__(self, path: Path, name: str) -> None:
        self._path, self.name = path, name
        self._file: int | None = None

    def hold(self) -> bool:
        """Take the lock unless we hold it; return False when another process has it."""
        if self._file is not None:
            return True
        with _naming(self._path):
            file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(file)
            return False
        self._file = file
        return True

    def release(self) -> None:
        """Release the lock if we hold it."""
        if self._file is not None:
            os.close(self._file)
            self._file = None


def make_folder(folder: Path) -> None:
    """Make a folder and its missing parents; FileError when that fails."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError.at(folder, f"cannot be made: {error.strerror}") from None


def sync_folder(folder: Path) -> None:
    """Flush the folder's entries to disk: only then does a new file survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def check_place(path: Path) -> None:
    """Raise FileError if a file clearly cannot be written here."""
    _target(path)


def check_space(folder: Path) -> None:
    """Raise FileError if no file of a few kilobytes can be written into a folder now, as when a disk is full."""
    probe = folder / f".{secrets.token_hex(8)}.probe"
    try:
        write_whole(probe, bytes(1 << 14), PRIVATE)
    finally:
        _discard(probe)


def _discard(path: Path) -> None:
    """Remove a file if it is there. A read-only disk refuses even for one that is not, which must hide no error."""
    with suppress(OSError):
        path.unlink()


def _target(path: Path) -> Path:
    """Resolve a path's links and check that a file can be there."""
    try:
        if path.exists() and not path.is_file():
            raise FileError.at(path, f"cannot be written: {'a folder' if path.is_dir() else 'not a file'}")
        if not path.parent.is_dir():
            raise FileError.at(path, f"cannot be written: there is no folder {path.parent}")
        return path.resolve()
    except (OSError, ValueError, RuntimeError) as error:  # an impossible path, a loop of links
        raise _unwritable(path, error) from None


def _hidden(target: Path) -> Path:
    return target.with_name(f".{secrets.token_hex(8)}.tmp")


def _created(path: Path, mode: int) -> int:
    """Make a new file, locked until its descriptor is closed: so it is not taken for a killed process's."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        with suppress(OSError):  # on a file system without locks nobody sweeps
            fcntl.flock(descriptor, fcntl.LOCK_EX)  # waits for somebody who sweeps it just now
        if os.fstat(descriptor).st_nlink:
            return descriptor
        os.close(descriptor)  # it was swept before it was locked


@contextmanager
def _written(descriptor: int) -> Iterator[BinaryIO]:
    """Open a file by a descriptor, which stays open, and flush it to disk when the block succeeds."""
    with os.fdopen(os.dup(descriptor), "w+b") as file:
        yield file
        file.flush()
        os.fsync(file.fileno())


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    try:
        yield
    except FileExistsError:
        raise FileExists.at(path, "exists already, and is not overwritten") from None
    except (OSError, UnicodeError) as error:
        raise _unwritable(path, error) from None


def _unwritable(path: Path, error: Exception) -> FileError:
    return FileError.at(path, f"cannot be written: {_reason(error)}")


def _reason(error: Exception) -> object:
    return error.strerror if isinstance(error, OSError) and error.strerror else error
