"""Every command in a message, a help text or a document is one that the programs take."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.printed import commands_in, refusal

ROOT = Path(__file__).parents[1]
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "benchmarks").glob("*.md")]
# `edgeopt bench --sweep` names a command and what it is about, without all that it needs.
INCOMPLETE = ("Missing argument", "Missing option", "requires an argument")
# For a value that the source puts into a text: what it is shows only when it is printed.
STAND_IN = "77"
UNKNOWN = "No such command"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_documents_name_only_commands_that_the_programs_take(page):
    text = page.read_text()
    blocks = "\n".join(re.findall(r"^```\w*$(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL))
    refused = {each: refusal(each) for each in commands_in(text)}
    assert {each: why for each, why in refused.items() if why and not _is_prose(each, why, text)} == {}
    assert {each: refused[each] for each in commands_in(blocks) if refused[each]} == {}


@pytest.mark.parametrize("folder", ["edgeopt", "agent/edgeopt_agent"])
def test_messages_and_help_name_only_commands_that_the_programs_take(folder):
    refused, seen = {}, 0
    for path in sorted((ROOT / folder).rglob("*.py")):
        for line, text in _texts(path):
            for command in commands_in(re.sub(r"(?<=[a-z])\0", "", text).replace("\0", STAND_IN)):
                seen += 1
                why = refusal(command)
                if why and STAND_IN not in why and not _is_prose(command, why, text):
                    refused[f"{path.relative_to(ROOT)}:{line}: {command}"] = why
    assert seen > 50
    assert refused == {}


def _is_prose(command: str, why: str, text: str) -> bool:
    """A sentence that begins with the program's name, or a name in backticks without all that it needs."""
    return _is_incomplete(why) if f"`{command}" in text else why.startswith(UNKNOWN)


def _is_incomplete(why: str) -> bool:
    return any(each in why for each in INCOMPLETE)


def _texts(path: Path) -> Iterator[tuple[int, str]]:
    """Every text of a source file; a zero byte for each value in it."""
    source = path.read_text()
    if not re.search(r"edgeopt(-agent)? ", source):
        return
    nodes = list(ast.walk(ast.parse(source)))
    formatted = [node for node in nodes if isinstance(node, ast.JoinedStr)]
    parts = {id(part) for node in formatted for part in node.values}
    for node in formatted:
        yield node.lineno, "".join(p.value if isinstance(p, ast.Constant) else "\0" for p in node.values)
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in parts:
            yield node.lineno, node.value
