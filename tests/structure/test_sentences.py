"""Sentences are for people: no code decides by the words of one, because a better word would then be a fault."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = (ROOT / "edgeopt", ROOT / "agent" / "edgeopt_agent", ROOT / "gui" / "edgeopt_gui")
SENTENCES = {"failure", "hint", "message", "reason", "summary"}
READS = {"find", "index", "partition", "rpartition", "split", "rsplit", "startswith", "endswith"}
CUTS = {"removeprefix", "removesuffix"}
# What a runtime says of a model that it refuses stands nowhere but in its sentence.
OF_A_LIBRARY = {("edgeopt/backends/onnxruntime/coverage.py", "refusal.message")}


def is_sentence(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and node.attr in SENTENCES


def readings(tree: ast.AST) -> list[str]:
    """The sentences whose words are looked at, as they are written."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare) and any(isinstance(op, ast.In | ast.NotIn) for op in node.ops):
            found += [each for each in node.comparators if is_sentence(each)]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if node.func.attr in READS | CUTS and is_sentence(node.func.value):
                found.append(node.func.value)
            if isinstance(node.func.value, ast.Name) and node.func.value.id == "re":
                found += [each for each in node.args if is_sentence(each)]
    return [ast.unparse(each) for each in found]


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.name)
def test_no_code_reads_the_words_of_a_sentence(source):
    found = {
        (file.relative_to(ROOT).as_posix(), each)
        for file in source.rglob("*.py")
        for each in readings(ast.parse(file.read_text()))
    }
    assert found - OF_A_LIBRARY == set()


@pytest.mark.parametrize(
    "line",
    [
        "'hung' in error.message",
        "'a' not in entry.reason",
        "result.summary.partition(': ')",
        "error.message.startswith('failed')",
        "re.search('x', report.reason)",
    ],
)
def test_a_reading_is_found(line):
    assert len(readings(ast.parse(line))) == 1


def test_to_print_one_is_no_reading():
    assert readings(ast.parse("f'{error.message.rstrip(chr(46))}.' if error.message else one.reason[:160]")) == []
