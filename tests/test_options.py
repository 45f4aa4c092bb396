"""Options that are declared once: every command that has a request, and what Python and the app make of it."""

from pathlib import Path
from typing import Annotated

import msgspec
import pytest

from edgeopt.options import argument, arguments, changed, option, option_named, options_of


class Asked(msgspec.Struct, frozen=True):
    model: Annotated[Path, argument("What to run.", metavar="MODEL")]
    out: Annotated[Path, option("Where it goes.", "-o", "--out")]
    rate_per_s: Annotated[float | None, option("Runs a second.", minimum=1, maximum=9)] = None
    shape: Annotated[tuple[str, ...], option("Sizes.", metavar="NAME=SIZE")] = ()
    fresh: Annotated[bool, option("Anew, or not.", "--fresh/--resume")] = False


def test_a_field_says_all_that_is_to_be_said_of_an_option():
    model, out, rate, shape, fresh = options_of(Asked)
    assert (model.flag, model.required, model.kind) == ("", True, Path)
    assert (out.flags, out.flag, out.help) == (("-o", "--out"), "--out", "Where it goes.")
    assert (rate.flag, rate.minimum, rate.maximum, rate.kind, rate.default) == ("--rate", 1, 9, float, None)
    assert (shape.flag, shape.many, shape.kind, shape.metavar) == ("--shape", True, str, "NAME=SIZE")
    assert (fresh.flag, fresh.kind, fresh.default) == ("--fresh", bool, False)
    assert option_named(Asked, "rate_per_s") == rate


def test_what_is_typed_for_a_request():
    given = {"model": "m.onnx", "out": Path("a"), "shape": ("x=1", "y=2"), "fresh": True, "rate_per_s": None}
    assert arguments(Asked, given) == ("m.onnx", "-o", "a", "--shape", "x=1", "--shape", "y=2", "--fresh")
    with pytest.raises(TypeError, match="no rate"):
        arguments(Asked, {"rate": 3})


def test_what_differs_from_the_defaults():
    request = Asked(Path("m.onnx"), Path("a"), shape=("x=1",))
    assert [each.name for each in changed(request)] == ["model", "out", "shape"]
