"""A folder that was opened once; all that is done in it goes through its descriptor."""

import errno
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from traceml.files import limits

# Where a folder may be written to and not be listed, a path is all that can be opened of it.
_OPEN = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC
_LIST = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


def is_shortage(error: object) -> bool:
    """Whether it says that this process, or the system, has no descriptor left for now."""
    return isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE)


class LinkError(OSError):
    """A symbolic link stands where none is followed."""

    def __init__(self, path: Path) -> None:
        super().__init__(errno.ELOOP, "it is a symbolic link, which is not followed", str(path))


class TooManyError(OSError):
    """A folder holds more than any of ours."""

    def __init__(self, path: Path) -> None:
        super().__init__(errno.EFBIG, f"it holds more than {limits.NAMES} files", str(path))


@dataclass(frozen=True, slots=True)
class Folder:
    """An open folder. Its names are names: nothing with a separator, and never through a link."""

    path: Path  # for messages
    descriptor: int

    @classmethod
    def at(cls, path: Path) -> "Folder":
        """The folder that the user names: links on the way to it are his own wish."""
        return cls(path, os.open(path, _OPEN))

    def inside(self, name: str, *, make: bool = False) -> "Folder":
        """A folder in this one, made if it is not there and wanted; LinkError for a link."""
        if make:
            with suppress(FileExistsError):
                os.mkdir(checked(name), dir_fd=self.descriptor)
        try:
            found = os.open(checked(name), _OPEN | os.O_NOFOLLOW, dir_fd=self.descriptor)
        except OSError:
            self.refuse_link(name)
            raise
        return Folder(self.path / name, found)

    def private(self, name: str) -> "Folder":
        """A folder in this one that nobody else can enter, made if it is not there.

        PermissionError if somebody else made it, or opened it to others.
        """
        with suppress(FileExistsError):
            os.mkdir(checked(name), 0o700, dir_fd=self.descriptor)
        folder = self.inside(name)
        if folder.is_own and not os.fstat(folder.descriptor).st_mode & 0o077:
            return folder
        os.close(folder.descriptor)
        raise PermissionError(errno.EACCES, "it is not private", str(folder.path))

    def __enter__(self) -> "Folder":
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.descriptor)

    @property
    def is_own(self) -> bool:
        """Whether it belongs to the user who asks."""
        return os.fstat(self.descriptor).st_uid == os.geteuid()

    def names(self) -> list[str]:
        """What lies in it, in order; TooManyError if that is more than anybody would put there."""
        with self._listable() as descriptor, os.scandir(descriptor) as entries:
            found = [entry.name for entry in islice(entries, limits.NAMES + 1)]
        if len(found) > limits.NAMES:
            raise TooManyError(self.path)
        return sorted(found)

    def size(self) -> int:
        """Bytes of all that lies in it."""
        found = (self.look(name) for name in self.names())
        return sum(each.st_size for each in found if each is not None)

    def look(self, name: str) -> os.stat_result | None:
        """What stands under that name, a link for itself; None if nothing does or may be seen."""
        try:
            return os.stat(checked(name), dir_fd=self.descriptor, follow_symlinks=False)
        except (FileNotFoundError, PermissionError):
            return None

    def has_folder(self, name: str) -> bool:
        """Whether a folder of that name is in it."""
        found = self.look(name)
        return found is not None and stat.S_ISDIR(found.st_mode)

    def has_file(self, name: str) -> bool:
        """Whether a regular file of that name is in it."""
        found = self.look(name)
        return found is not None and stat.S_ISREG(found.st_mode)

    def folders(self, prefix: str, is_wanted: "Callable[[Folder], bool]") -> list[str]:
        """The folders in it whose names begin so, as far as they are wanted; no links to any."""
        try:
            names = self.names()
        except (PermissionError, TooManyError):  # it may be entered, and not be listed
            return []
        return [each for each in names if each.startswith(prefix) and self._has(each, is_wanted)]

    def _has(self, name: str, is_wanted: "Callable[[Folder], bool]") -> bool:
        if not self.has_folder(name):
            return False
        try:
            with self.inside(name) as folder:
                return is_wanted(folder)
        except OSError:  # one that may not be entered
            return False

    def refuse_link(self, name: str) -> None:
        """LinkError if a link stands under that name, which systems tell in several ways."""
        found = self.look(name)
        if found is not None and stat.S_ISLNK(found.st_mode):
            raise LinkError(self.path / name)

    def remove(self, name: str) -> None:
        """Take a file or link away; what a link leads to stays."""
        os.unlink(checked(name), dir_fd=self.descriptor)

    def sync(self) -> None:
        """Have the system bring to disk which files are in it."""
        with self._listable() as descriptor:
            os.fsync(descriptor)

    @contextmanager
    def _listable(self) -> Iterator[int]:
        descriptor = os.open(".", _LIST, dir_fd=self.descriptor)
        try:
            yield descriptor
        finally:
            os.close(descriptor)


@contextmanager
def opened(place: Path | Folder) -> Iterator[Folder]:
    """A folder that TraceML made, by its path: it is none if its last part is a link."""
    if isinstance(place, Folder):
        yield place
        return
    path = place.absolute()
    with Folder.at(path.parent) as parent, parent.inside(path.name or ".") as folder:
        yield folder


def checked(name: str) -> str:
    """The name, if it can only be one in the folder itself."""
    if "/" in name or "\0" in name or name in ("", ".."):
        raise OSError(errno.EINVAL, "that is no file's name", name)
    return name
