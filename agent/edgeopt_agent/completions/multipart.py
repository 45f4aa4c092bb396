"""Forms as multipart/form-data (RFC 7578), parsed strictly."""

import re

from edgeopt_agent.completions.errors import ParameterError

_BOUNDARY = re.compile(
    rb"""multipart/form-data\s*;\s*boundary=(?:"([^"]{1,70})"|([^\s";,]{1,70}))\s*""", re.IGNORECASE
)
_DISPOSITION = re.compile(rb"""content-disposition:\s*form-data\s*(;.*)""", re.IGNORECASE)
_NAME = re.compile(rb""";\s*name=(?:"([^"]*)"|([^\s";]+))""", re.IGNORECASE)
_MAX_PARTS = 64
_MAX_HEAD_BYTES = 4096


def boundary_of(content_type: bytes | None) -> bytes | None:
    """Returns the boundary in the header Content-Type; None if that names no form."""
    found = _BOUNDARY.fullmatch((content_type or b"").strip())
    return None if found is None else found[1] or found[2]


def read_form(body: bytes, boundary: bytes) -> dict[str, bytes]:
    """Returns the content of each field by name, and of an array (`NAME[]`) the last one.

    Raises ParameterError for a body that is not such a form.
    """
    mark = b"--" + boundary
    if not body.startswith(mark):
        raise _broken("it does not begin with its boundary")
    fields: dict[str, bytes] = {}
    place = len(mark)
    while body[place : place + 2] != b"--":
        if body[place : place + 2] != b"\r\n" or len(fields) >= _MAX_PARTS:
            raise _broken("a line does not end after its boundary" if fields else "it has no fields")
        end = body.find(b"\r\n" + mark, place)
        head_end = body.find(b"\r\n\r\n", place, place + _MAX_HEAD_BYTES)
        if end < 0 or not 0 <= head_end < end:
            raise _broken("it ends within a field" if end < 0 else "a field has no headers")
        name = _name_of(body[place:head_end])
        if name in fields and not name.endswith("[]"):
            raise ParameterError(f"The field '{name[:40]}' comes twice.", name[:40], "invalid_value")
        fields[name] = body[head_end + 4 : end]
        place = end + 2 + len(mark)
    return fields


def _name_of(head: bytes) -> str:
    for line in head.split(b"\r\n"):
        if (disposition := _DISPOSITION.fullmatch(line)) and (found := _NAME.search(disposition[1])):
            return (found[1] if found[1] is not None else found[2]).decode(errors="replace")
    raise _broken("a field has no name")


def _broken(reason: str) -> ParameterError:
    return ParameterError(f"The body is not a form of multipart/form-data: {reason}.", None, "invalid_form")
