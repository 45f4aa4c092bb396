from pathlib import Path
from typing import Annotated

import msgspec
import pytest

from edgeopt.cli import program
from edgeopt.cli.console import JsonFlag, asks
from edgeopt.options import argument, option


class Asked(msgspec.Struct, frozen=True):
    model: Annotated[Path, argument("What to run.")]
    more: Annotated[str | None, argument("And this.", metavar="MORE")] = None
    out: Annotated[Path | None, option("Where it goes.", "-o", "--out")] = None
    rate_per_s: Annotated[float | None, option("Runs a second.", minimum=1)] = None
    shape: Annotated[tuple[str, ...], option("Sizes.", metavar="NAME=SIZE")] = ()
    duty: Annotated[str, option("How.")] = "steady"
    strict: Annotated[bool, option("No falling back.")] = False
    fresh: Annotated[bool, option("Anew, or not.", "--fresh/--resume")] = False


@pytest.fixture
def run():
    """Calls a command made of it; gives what it was asked, and the exit code."""
    asked = []

    @asks(Asked)
    def work(request: Asked, json: JsonFlag = False) -> None:
        """Do it."""
        asked.append((request, json))

    def build():
        made = program.application(lambda: None)
        program.add(made, "work", work)
        return made

    def call(*words):
        code = program.run("edgeopt", build, ["work", *words])
        return (asked[-1] if asked else None), code

    return call


def test_what_is_typed_is_the_request(run):
    words = (
        "m.onnx",
        "-o",
        "x",
        "--rate",
        "2",
        "--shape",
        "a=1",
        "--shape",
        "b=2",
        "--strict",
        "--fresh",
        "--json",
    )
    request = Asked(Path("m.onnx"), None, Path("x"), 2.0, ("a=1", "b=2"), "steady", strict=True, fresh=True)
    assert run(*words, "--json") == ((request, True), 0)


def test_what_is_left_out_is_as_the_struct_says(run):
    assert run("m.onnx", "--resume") == ((Asked(Path("m.onnx")), False), 0)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "'model'"),
        (("m", "--rate", "0"), "--rate must be at least 1, not 0"),
        (("m", "--rate", "nan"), "--rate must be a number at least 1, not nan"),
        (("m", "--rate", "1e400"), "--rate must be a number at least 1, not inf"),
        (("m", "--no-strict"), "--no-strict"),
        (("m", "--nothing"), "nothing"),
    ],
)
def test_what_is_typed_wrong_is_refused_before_any_work(run, words, said, capsys):
    assert run(*words) == (None, 2)
    assert said in capsys.readouterr().err


def test_the_help_has_every_field_in_its_order(run, capsys):
    run("--help")
    printed = capsys.readouterr().out
    places = [
        printed.index(word)
        for word in ("-o, --out", "--rate", "--shape NAME=SIZE", "--duty", "--strict", "--json")
    ]
    assert places == sorted(places)
    assert "[default: steady]" in printed
    assert "[at least 1]" in printed
