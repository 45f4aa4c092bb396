import importlib.util
import subprocess
import sys
from email.message import Message
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "packaging" / "licences.py"


@pytest.fixture(scope="module")
def licences():
    specification = importlib.util.spec_from_file_location("licences", SCRIPT)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def about(**fields):
    message = Message()
    for key, value in fields.items():
        message[key.replace("_", "-")] = value
    return message


def test_the_list_is_that_of_what_is_installed():
    done = subprocess.run([sys.executable, str(SCRIPT), "check"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_list_has_what_extras_bring_and_what_those_bring(licences):
    assert {"numpy", "onnxruntime", "pyside6-essentials", "uvloop", "h11"} <= licences.installed("edgeopt")


@pytest.mark.parametrize(
    ("metadata", "expression"),
    [
        (about(License_Expression="MIT OR Apache-2.0"), "MIT OR Apache-2.0"),
        (about(License="MIT License"), "MIT"),
        (about(Classifier="License :: OSI Approved :: Apache Software License"), "Apache-2.0"),
        (about(License="BSD"), ""),
        (about(License_Expression="SSPL-1.0"), ""),
        (about(), ""),
    ],
)
def test_the_expression_comes_from_the_metadata(licences, metadata, expression):
    assert licences.licence("some-package", metadata) == expression


@pytest.mark.parametrize(
    ("listed", "found", "said"),
    [
        ({"a": "MIT"}, {"a": ""}, "no known licence"),
        ({}, {"a": "MIT"}, "not in docs/licences.md"),
        ({"a": "MIT"}, {"a": "Apache-2.0"}, "docs/licences.md says MIT"),
        ({"a": "SSPL-1.0"}, {}, "no known licence"),
        ({"a": "GPL-3.0-only"}, {}, "does not go with Apache-2.0"),
    ],
)
def test_a_licence_that_nobody_read_is_a_problem(licences, listed, found, said):
    (problem, *_) = licences.differences(listed, found)
    assert said in problem


def test_a_choice_that_goes_with_apache_is_enough(licences):
    listed = {"qt": "LGPL-3.0-only OR GPL-2.0-only OR GPL-3.0-only"}
    assert list(licences.differences(listed, listed)) == []


def test_a_new_package_gets_a_row_in_the_order_of_the_alphabet(licences):
    text = "# Licences\n\n| package | licence |\n|---|---|\n| `b` | MIT |\n"
    written = licences.with_rows(text, {**licences.rows(text), "a": "ISC"})
    assert written.endswith("|---|---|\n| `a` | ISC |\n| `b` | MIT |\n")
