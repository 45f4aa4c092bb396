import pytest

from edgeopt.nearest import near, nearest

KNOWN = ("ConvTranspose", "Conv", "MatMul", "matmul-into-conv", "Relu")


@pytest.mark.parametrize(
    ("word", "found"),
    [
        ("CONV", ["Conv"]),  # and not what begins with it
        ("convt", ["ConvTranspose"]),
        ("Rellu", ["Relu"]),
        ("RE", ["Relu"]),
        ("xyz", []),
    ],
)
def test_capitals_come_first_then_what_was_not_written_to_the_end_then_what_looks_alike(word, found):
    assert near(word, KNOWN) == found


def test_words_that_share_half_of_their_letters_are_not_alike():
    assert near("nope", ["npu-openvino", "cpu-int8"]) == []


def test_as_many_as_are_wanted_each_once():
    assert near("conv", ["conv2d", "conv3d", "conv2d"], maximum=2) == ["conv2d", "conv3d"]


def test_a_hint_names_the_nearest_or_all_or_what_else_there_is_to_say():
    assert nearest("MATMUL", KNOWN) == "Did you mean 'MatMul'?"
    assert nearest("xyz", ["a", "b"]) == "There are: a, b."
    assert nearest("xyz", ["a", "b"], "See --help.") == "See --help."
