import io
import json

import pytest
from rich.console import Console

from edgeopt.backends import BACKENDS
from edgeopt.backends.base import Available
from edgeopt.cli.backends import show_backends, show_options
from edgeopt.cli.main import run
from edgeopt.commands.backends import list_backends, list_options
from edgeopt.views.terminal import write


def seen(show, result):
    console = Console(file=io.StringIO(), width=140)
    write(show(result), console)
    return console.file.getvalue()


def told(capsys, *arguments):
    code = run([*arguments, "--json"])
    return code, json.loads(capsys.readouterr().out.splitlines()[-1])


def test_each_backend_is_available_or_says_why_not():
    result = list_backends()
    assert [line.name for line in result.backends] == [b.name for b in BACKENDS if b.name != "null"]
    for line in result.backends:
        assert line.available == bool(line.version) == (not line.reason)
    text = seen(show_backends, result)
    # What can be used stands first.
    known = {b.name for b in BACKENDS}
    names = [words[0] for line in text.splitlines() if (words := line.split()) and words[0] in known]
    here = [b.name for b in BACKENDS if b.package and isinstance(b.available(), Available)]
    assert names[: len(here)] == here
    assert "Darwin" not in text


def test_the_options_of_one(capsys):
    code, event = told(capsys, "backends", "onnxruntime-cuda")
    assert (code, event["kind"]) == (0, "backend")
    options = {option["name"]: option for option in event["data"]["options"]}
    assert options["use_tf32"]["default"] is True
    assert options["use_tf32"]["search"] == [True, False]
    assert options["gpu_mem_limit"] | {"description": ""} == {
        "name": "gpu_mem_limit", "kind": "a whole number from 0", "choices": [], "default": None,
        "description": "", "search": [],
    }  # fmt: skip
    assert options["cudnn_conv_algo_search"]["choices"] == ["EXHAUSTIVE", "HEURISTIC", "DEFAULT"]
    assert "threads" in options


def test_a_provider_tells_its_own_options_first():
    names = [option.name for option in list_options("onnxruntime-qnn").options]
    assert names.index("backend_type") < names.index("threads")


def test_options_for_people():
    text = seen(show_options, list_options("onnxruntime-cpu"))
    row = next(line for line in text.splitlines() if line.startswith("spinning"))
    assert "true or false" in row
    assert "true, false" in row


def test_a_backend_that_there_is_not(capsys):
    code, event = told(capsys, "backends", "onnxruntime-cuba")
    assert (code, event["code"], event["hint"]) == (2, "usage", "Did you mean 'onnxruntime-cuda'?")


@pytest.mark.parametrize("backend", [b for b in BACKENDS if b.package], ids=lambda b: b.name)
def test_what_a_search_tries_is_taken(backend):
    from edgeopt.backends.options import described, read_options

    for option in described(backend.options):
        for value in option.search:
            taken = read_options(backend.options, {option.name: value}, backend.name)
            assert getattr(taken, option.name) == value
