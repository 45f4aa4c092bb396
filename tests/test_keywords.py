import inspect
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, TypedDict, Unpack

import msgspec
import pytest

from edgeopt.errors import UsageError
from edgeopt.keywords import read, takes
from edgeopt.options import argument, option


class Asked(msgspec.Struct, frozen=True):
    model: Annotated[Path, argument("What to run.")]
    floor: Annotated[str | None, option("At least this.")] = None
    counts: Annotated[str | None, option("So many.")] = None
    against: Annotated[tuple[str, ...], option("This too.")] = ()
    rounds: Annotated[int | None, option("At most so many.")] = None
    strict: Annotated[bool, option("No falling back.")] = False


class Wishes(TypedDict, total=False):
    floor: str | float
    counts: Iterable[int]
    against: str | Path
    rounds: int
    strict: bool


@takes(Asked, Wishes)
def work(model: str, *, emit: object = None, **wishes: Unpack[Wishes]) -> Asked:
    """Does it."""
    return read(Asked, {**wishes, "model": model})


def test_python_gives_numbers_lists_and_names_of_files():
    asked = work("m.onnx", floor=20.5, counts=(1, 2), against=Path("o.onnx"), rounds=None, strict=True)
    assert asked == Asked(Path("m.onnx"), "20.5", "1,2", ("o.onnx",), None, True)
    assert work("m.onnx", counts=(), against=["a", "b"]) == Asked(Path("m.onnx"), against=("a", "b"))


@pytest.mark.parametrize("wrong", [{"rounds": "six"}, {"strict": 2}, {"floor": True}, {"against": [b"a"]}])
def test_a_value_of_another_kind_is_refused_by_name(wrong):
    (name,) = wrong
    with pytest.raises(UsageError, match=f"^{name} must be"):
        work("m.onnx", **wrong)


def test_an_unknown_keyword_is_a_type_error_that_names_the_nearest():
    with pytest.raises(TypeError, match=r"'rouns'.*'rounds'"):
        work("m.onnx", rouns=3)


def test_help_shows_what_there_is_to_give():
    names = list(inspect.signature(work).parameters)
    assert names == ["model", "floor", "counts", "against", "rounds", "strict", "emit"]
    assert inspect.signature(work).parameters["strict"].default is False
    assert "rounds: At most so many." in work.__doc__


class Ranged(msgspec.Struct, frozen=True):
    rounds: Annotated[int | None, option("So many.", minimum=6, maximum=1000)] = None
    rate_per_s: Annotated[float | None, option("So many a second.")] = None


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"rounds": 0}, "--rounds must be from 6 to 1000, not 0"),
        ({"rounds": 1001}, "--rounds must be from 6 to 1000, not 1001"),
        ({"rate_per_s": float("inf")}, "--rate must be a finite number, not inf"),
        ({"rate_per_s": float("nan")}, "--rate must be a finite number, not nan"),
    ],
)
def test_a_number_outside_of_its_range_is_refused(wrong, said):
    with pytest.raises(UsageError, match=said):
        read(Ranged, wrong)
