"""A bundle as one file, in use: unpacked into a private folder that is gone when nobody holds it any more."""

import os
import shutil
import weakref
from pathlib import Path

from edgeopt.bundle.archive import unpack
from edgeopt.errors import EdgeoptError, writing_to
from edgeopt.workspace import BUNDLE, fresh_place


class Opened:
    """The folder of an unpacked bundle, as long as this lives; the process's end removes it too."""

    __slots__ = ("__weakref__", "close", "file", "folder")

    def __init__(self, file: Path) -> None:
        private = fresh_place(BUNDLE)
        self.close = weakref.finalize(self, _remove, private, os.getpid())
        """Removes the folder at once, even while an error object still references this."""
        self.file = file
        # The last part is the bundle's own name, which messages use.
        self.folder = private / file.name
        try:
            with writing_to(private):
                private.mkdir(mode=0o700)
                unpack(file, self.folder, file.stat().st_size, f"The bundle '{file.name}'")
        except BaseException:
            self.close()
            raise

    def retell(self, error: EdgeoptError) -> None:
        """Lets it tell of the file, and not of a folder that is gone when it is read."""
        said = error.message.replace(str(self.folder), str(self.file))
        error.message = said.replace(str(self.folder.parent), str(self.file.parent))
        error.args = (error.message,)


_Identity = tuple[Path, int, int, int, int]
_in_use: "weakref.WeakValueDictionary[_Identity, Opened]" = weakref.WeakValueDictionary()


def opened(file: Path) -> Opened:
    """The bundle in a file, unpacked once for all who hold it at the same time; raises BundleError."""
    found = file.stat()
    # A file that was replaced or changed meanwhile is another one.
    identity = (file.absolute(), found.st_dev, found.st_ino, found.st_size, found.st_ctime_ns)
    held = _in_use.get(identity)
    if held is None or not held.close.alive:
        held = _in_use[identity] = Opened(file)
    return held


def _remove(private: Path, owner: int) -> None:
    # A fork of the process that unpacked it ends earlier, and must leave it.
    if os.getpid() == owner:
        shutil.rmtree(private, ignore_errors=True)
