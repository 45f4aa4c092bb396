from typing import Annotated, Literal

import msgspec
import pytest

from edgeopt.backends.options import BackendOption, about, described, read_options
from edgeopt.errors import UsageError


class Sample(msgspec.Struct, frozen=True):
    threads: Annotated[int, msgspec.Meta(ge=0)] = 0
    level: Literal["none", "extended"] = "none"
    shapes: dict[str, tuple[int, ...]] = {}


def test_what_is_not_given_keeps_its_default():
    assert read_options(Sample, {"threads": 2}, "sample") == Sample(threads=2)


def test_a_shape_is_a_list_of_sizes():
    assert read_options(Sample, {"shapes": {"x": [1, 3]}}, "sample").shapes == {"x": (1, 3)}


@pytest.mark.parametrize(
    ("options", "message", "hint"),
    [
        ({"treads": 2}, "The backend sample has no option 'treads'.", "Did you mean 'threads'?"),
        ({"zzz": 2}, "The backend sample has no option 'zzz'.", "There are: threads, level, shapes."),
        (
            {"level": "extendet"},
            "The option 'level' of sample must be one of none, extended, not 'extendet'.",
            "Did you mean 'extended'?",
        ),
        ({"threads": -1}, "The option 'threads' of sample must be int >= 0, not -1.", ""),
        ({"threads": "two"}, "The option 'threads' of sample must be int, not 'two'.", ""),
        (
            {"shapes": 3},
            "The option 'shapes' of sample must be a table, not 3.",
            'Write it as JSON, for instance: {"input": [1, 3, 224, 224]}',
        ),
    ],
)
def test_what_is_not_known_is_said_in_a_sentence(options, message, hint):
    with pytest.raises(UsageError) as raised:
        read_options(Sample, options, "sample")
    assert (raised.value.message, raised.value.hint) == (message, hint)


class Base(msgspec.Struct, frozen=True):
    threads: Annotated[int, msgspec.Meta(ge=0), about("Threads", search=(0, 1))] = 0


class Device(Base, frozen=True):
    device_id: Annotated[Annotated[int, msgspec.Meta(ge=0, le=7)] | None, about("Which device")] = None
    mode: Annotated[Literal["", "fast"], about("How", search=("fast",))] = ""
    exact: Annotated[bool, about("Exactly")] = True
    shapes: Annotated[dict[str, int], about("Sizes")] = {}


def test_options_are_told_with_their_own_first():
    assert described(Device) == (
        BackendOption("device_id", "a whole number from 0 to 7", (), None, "Which device"),
        BackendOption("mode", "one of these", ("", "fast"), "", "How", ("fast",)),
        BackendOption("exact", "true or false", (), True, "Exactly"),
        BackendOption("shapes", "a table", (), None, "Sizes"),
        BackendOption("threads", "a whole number from 0", (), 0, "Threads", (0, 1)),
    )


def test_what_is_told_is_what_is_checked():
    with pytest.raises(UsageError, match="must be int <= 7"):
        read_options(Device, {"device_id": 8}, "sample")
    with pytest.raises(UsageError, match="must be one of '', fast") as raised:
        read_options(Device, {"mode": "fats"}, "sample")
    assert raised.value.hint == "Did you mean 'fast'?"
    assert read_options(Device, {"threads": 2}, "sample").threads == 2
