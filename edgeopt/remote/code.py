"""Package of this edgeopt to unpack elsewhere, and the packages that it needs there."""

import importlib.metadata
import io
import re
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from edgeopt.errors import MissingError
from edgeopt.profiles.load import profiles_folder

_ANY_DAY = (2020, 1, 1, 0, 0, 0)
"""Timestamp of all members, so that the same code is the same file."""


def packed_code() -> bytes:
    """Returns the package with its target profiles, as a zip file."""
    package = Path(__file__).resolve().parents[1]
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as file:
        for folder, inside in ((package, "edgeopt"), (profiles_folder(), "edgeopt/_profiles")):
            for path in _files_of(folder):
                name = f"{inside}/{path.relative_to(folder).as_posix()}"
                file.writestr(zipfile.ZipInfo(name, _ANY_DAY), path.read_bytes(), zipfile.ZIP_DEFLATED)
    return packed.getvalue()


def _files_of(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.rglob("*")):
        inside = path.relative_to(folder).parts
        if path.is_file() and "__pycache__" not in inside and inside[0] != "_profiles":
            yield path


def requirements(extras: Sequence[str]) -> list[str]:
    """Returns the requirements of edgeopt with these extras, for pip."""
    try:
        listed = importlib.metadata.requires("edgeopt") or []
    except importlib.metadata.PackageNotFoundError:
        raise MissingError(
            "This edgeopt is not installed as a package, so the packages that it needs are unknown.",
            "Install it with pip to measure on other devices.",
        ) from None
    found = []
    for line in listed:
        requirement, _, marker = line.partition(";")
        extra = re.search(r"""extra == ["']([\w-]+)["']""", marker)
        if extra is None or extra[1] in extras:
            found.append(requirement.strip())
    return found
