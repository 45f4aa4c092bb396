import re
import tomllib
from pathlib import Path

import pytest

from edgeopt import errors
from edgeopt.errors import EdgeoptError, MissingExtraError, Terminated, printable


def tree(parent=EdgeoptError):
    yield parent
    for child in parent.__subclasses__():
        # The agent has some of its own, loaded in the same process by other tests.
        if child.__module__ == errors.__name__:
            yield from tree(child)


def drawn():
    """The exit code that the docstring draws for each error, those below a line without one take its code."""
    codes, stack = {}, []
    for line in errors.__doc__.splitlines():
        found = re.match(r"(?P<indent>[│├└─ ]*)(?P<name>\w+)(\s+exit (?P<code>\d+))?", line)
        if found is None or not hasattr(errors, found["name"]):
            continue
        depth = len(found["indent"])
        stack = [entry for entry in stack if entry[0] < depth]
        code = int(found["code"]) if found["code"] else (stack[-1][1] if stack else None)
        stack.append((depth, code))
        codes[found["name"]] = code
    return codes


def test_the_tree_in_the_docstring_is_the_tree():
    assert set(drawn()) == {error.__name__ for error in tree()} | {"Terminated"}


@pytest.mark.parametrize("error", [e for e in tree() if e is not EdgeoptError], ids=lambda e: e.__name__)
def test_every_error_leaves_with_the_code_that_is_drawn(error):
    assert error.exit_code == drawn()[error.__name__]


def test_every_error_has_a_code_of_its_own():
    codes = [error.code for error in tree() if error is not errors.InputError]
    assert len(set(codes)) == len(codes)


def test_an_error_carries_its_sentence_and_its_hint():
    error = errors.ModelError("The model is empty.", "Export it again.")
    assert (str(error), error.message, error.hint) == (
        "The model is empty.",
        "The model is empty.",
        "Export it again.",
    )


def test_a_missing_extra_says_how_to_install_it():
    error = MissingExtraError("cpu", "Running 'model.onnx'")
    assert error.message == "Running 'model.onnx' needs the 'cpu' extra, which is not installed."
    assert "pip install onnxruntime" in error.hint
    assert (error.extra, error.exit_code) == ("cpu", 5)


def test_extras_are_installed_by_the_packages_that_pyproject_names():
    """edgeopt is on no package index, so `pip install 'edgeopt[cpu]'` would fail or fetch something else."""
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
    declared = project["optional-dependencies"]

    def packages(extra):
        for requirement in declared[extra]:
            name = re.match(r"[\w-]+", requirement).group()
            inner = re.match(r"edgeopt\[(\w+)\]", requirement)
            yield from packages(inner.group(1)) if inner else [name.lower()]

    assert set(errors.EXTRAS) == set(declared) - {"all"}
    for extra, named in errors.EXTRAS.items():
        assert set(named) == set(packages(extra)), extra


def test_termination_is_not_caught_with_ordinary_errors():
    assert not issubclass(Terminated, Exception)


def test_control_characters_are_escaped():
    assert printable("name \x1b[2J\n\u202e\udc80ä") == r"name \x1b[2J\n\u202e\udc80ä"
    assert printable("one\n\ttwo", line_ends=True) == "one\n\\ttwo"
