"""Types reach msgspec through `thread_safe` only, so that no thread reads what msgspec has half of."""

import ast
from collections.abc import Iterator

import pytest

from tests.structure.imports import modules, parsed

_READERS = {"decode": None, "Decoder": 0, "convert": 1}
"""The functions of msgspec that take a type, which `decode` does by its name only, and its place."""


def _raw_types(source: str) -> Iterator[str]:
    """The calls that pass a type of their own to msgspec."""
    for call in ast.walk(parsed(source)):
        if not isinstance(call, ast.Call):
            continue
        name = ast.unparse(call.func)
        if not name.startswith("msgspec.") or (reader := name.rsplit(".", 1)[1]) not in _READERS:
            continue
        place = _READERS[reader]
        kinds = [word.value for word in call.keywords if word.arg == "type"]
        kinds += [] if place is None else call.args[place : place + 1]
        for kind in kinds:
            if not (isinstance(kind, ast.Call) and ast.unparse(kind.func) == "thread_safe"):
                yield f"line {call.lineno}: {ast.unparse(call)}"


def _other_ways(source: str) -> Iterator[str]:
    """Imports by which a type could reach msgspec unseen."""
    for item in ast.walk(parsed(source)):
        if isinstance(item, ast.ImportFrom) and (item.module or "").split(".")[0] == "msgspec":
            yield from (ast.unparse(item) for each in item.names if each.name in {*_READERS, "json", "msgpack"})


def test_every_type_reaches_msgspec_through_thread_safe() -> None:
    found = [
        f"{module}, {fault}"
        for module, path in modules()
        if module != "edgeopt.decoding" and "msgspec" in (source := path.read_text(encoding="utf-8"))
        for fault in (*_raw_types(source), *_other_ways(source))
    ]
    assert found == [], "\n".join(found)


@pytest.mark.parametrize(
    "fault",
    [
        "msgspec.json.decode(x, type=Kind)",
        "msgspec.msgpack.decode(x, type=list[Kind])",
        "msgspec.convert(x, Kind)",
        "msgspec.convert(x, type=Kind)",
        "decoder = msgspec.json.Decoder(Kind)",
        "from msgspec.json import decode",
    ],
)
def test_a_type_of_its_own_is_found(fault: str) -> None:
    assert [*_raw_types(fault), *_other_ways(fault)] != []
    assert [*_raw_types(fault.replace("Kind", "thread_safe(Kind)"))] == [] or "list" in fault
