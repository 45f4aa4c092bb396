"""Sentences are for people: no code decides by the words of one, because a better word would then be a fault."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = (ROOT / "edgeopt", ROOT / "agent" / "edgeopt_agent", ROOT / "gui" / "edgeopt_gui")
SENTENCES = {"failure", "hint", "message", "no_verdict", "reason", "reasons", "sentence", "summary", "unknown"}
READS = {"find", "index", "partition", "rpartition", "split", "rsplit", "startswith", "endswith"}
CUTS = {"removeprefix", "removesuffix"}
# What a library says stands nowhere but in its sentence: a runtime of a model that it refuses, Qt of a platform.
OF_A_LIBRARY = {
    ("edgeopt/backends/onnxruntime/cpu.py", "refusal.message"),
    ("edgeopt/backends/openvino/model.py", "message"),  # OpenVINO, of an operator that it has no rule for
    ("edgeopt/data/read.py", "reason"),  # NumPy, of a file with Python objects
}
# Reasons by what they are of: to look whether there is one reads no words.
BY_KEY = {"facts.unknown"}


def is_sentence(node: ast.expr) -> bool:
    """By its name: a field, a variable, or one of several."""
    if isinstance(node, ast.Subscript):
        return is_sentence(node.value)
    name = getattr(node, "attr", getattr(node, "id", ""))
    return isinstance(node, ast.Attribute | ast.Name) and name in SENTENCES


def readings(tree: ast.AST) -> list[str]:
    """The sentences whose words are looked at, as they are written."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare) and any(isinstance(op, ast.In | ast.NotIn) for op in node.ops):
            found += [each for each in node.comparators if is_sentence(each) and ast.unparse(each) not in BY_KEY]
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
        "row.cost.unknown.startswith(WITHIN)",
        "reasons[0].startswith(WITHIN)",
        "entry.reasons[-1].endswith('domain ')",
        "reason.partition(chr(39))",
        "'domain' in reason",
        "hint.startswith('Did you')",
    ],
)
def test_a_reading_is_found(line):
    assert len(readings(ast.parse(line))) == 1


def test_to_print_one_is_no_reading():
    assert readings(ast.parse("f'{error.message.rstrip(chr(46))}.' if error.message else one.reason[:160]")) == []


def test_to_look_for_a_reason_by_what_it_is_of_is_no_reading():
    assert readings(ast.parse("'device' in facts.unknown and name in reasons_by_name")) == []
