"""docs/tutorial.md, as it stands: its commands, its programs, and what it says that they print."""

import re

import numpy as np
import onnx
import pytest
from onnx import helper

from tests.pages import ROOT, Reader, compare_lines, follow

PAGE = ROOT / "docs" / "tutorial.md"


@pytest.mark.parametrize(
    ("expected", "printed", "missing"),
    [
        ("3.03x faster\n", "x\n2.5x   faster, as proved", []),
        ("release 83f6819d03ab\n...\nend\n", "release 42eed870b764 and so on: end", []),
        ("first\nsecond\n", "second first", ["second"]),
        ("exit code 4\n", "slower", ["exit code 4"]),
    ],
)
def test_lines_of_the_page_are_found_in_what_was_printed(expected, printed, missing):
    assert compare_lines(expected, printed)[0] == missing


def test_answers_of_a_program_must_be_exact(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("```python\nprint(7)\n```\n```text\n2\n```\n```\necho 7\n```\n```text\n2\n```\n")
    assert follow(page, Reader(tmp_path)) == {"2": "7\n"}


def test_block_is_renewed_with_the_figures_that_were_printed():
    expected = "  3.03x   faster, release 83f6819d03ab\n...\nnot printed 5\n"
    _, renewed = compare_lines(expected, "so 2.5x faster, release 42eed870b764")
    assert renewed == "  2.5x   faster, release 42eed870b764\n...\nnot printed 5\n"


def test_tutorial_has_six_chapters_with_commands():
    chapters = re.split(r"^## \d\. ", PAGE.read_text(), flags=re.MULTILINE)[1:]
    assert len(chapters) == 6
    assert all("\n```\nedgeopt" in chapter or "\n```python\n" in chapter for chapter in chapters)


@pytest.fixture
def reader(tmp_path):
    made = Reader(tmp_path)
    yield made
    made.stop_server()


@pytest.fixture
def own_model(conv_model):
    """A model as the reader has one: a single input named `input`, for pictures."""
    model = onnx.load(conv_model)
    for node in model.graph.node:
        node.input[:] = ["input" if name == "x" else name for name in node.input]
    del model.graph.input[:]
    shape = ["batch", 3, 224, 224]
    model.graph.input.append(helper.make_tensor_value_info("input", onnx.TensorProto.FLOAT, shape))
    return model


@pytest.mark.slow
@pytest.mark.timeout(2400)
def test_every_block_runs_and_prints_what_the_page_says(reader, own_model):
    def save_own_model(block):
        own = "net.onnx" in block
        reader.search_s = 10 if own else 60  # the reader's model needs no proof
        if own:
            onnx.save(own_model, reader.folder / "net.onnx")

    assert follow(PAGE, reader, save_own_model) == {}
    assert reader.stop_server() == 0
    assert ", 0 failed" in (reader.folder / "watch.log").read_text().splitlines()[-1]
    assert (reader.folder / "net.edgeopt" / "deployment.toml").is_file()
    assert np.load(reader.folder / "inputs.npz")["input"].shape == (32, 3, 224, 224)
    pages = ("graph.html", "report.html", "changes.html")
    assert [name for name in pages if "<html" not in (reader.folder / name).read_text()] == []
