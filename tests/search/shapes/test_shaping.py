import pytest

from edgeopt.backends.base import TensorInfo
from edgeopt.errors import UsageError
from edgeopt.search.shapes.sized import MOST_PROGRAMS, MOST_SIZES, read_dimensions

INPUTS = (
    TensorInfo("ids", "int64", ("batch", "seq")),
    TensorInfo("pairs", "float32", ("batch", "seq", "seq")),
    TensorInfo("extra", "float32", (None, 4)),
)


def sizes(*texts):
    return {d.name: d.sizes for d in read_dimensions(texts, INPUTS)[0]}


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("seq=16:32:128", (16, 32, 64, 128)),
        ("seq=1:1:1", (1,)),
        ("batch=1:4:16", (1, 2, 4, 8, 16)),
        ("seq=10:50:300", (10, 20, 50, 80, 160, 300)),  # 40 is as good as 50
        ("seq=64,16,32,16", (16, 32, 64)),
    ],
)
def test_least_usual_largest_and_doublings_between_or_a_list(text, wanted):
    assert sizes(text) == {text.partition("=")[0]: wanted}


def test_the_usual_size_is_the_one_named_or_the_middle_of_a_list():
    found = read_dimensions(("seq=16:100:128", "batch=1,2,8"), INPUTS)[0]
    assert [d.usual for d in found] == [100, 2]
    assert found[0].axes == {"ids": (1,), "pairs": (1, 2)}


def test_a_dimension_without_a_name_is_called_by_its_place():
    assert sizes("extra.0=1:2:4") == {"extra.0": (1, 2, 4)}


def test_many_sizes_are_thinned_out_and_that_is_said():
    found, said = read_dimensions(("seq=1:64:4096", "batch=1:8:64"), INPUTS)
    assert {1, 64, 4096} <= set(found[0].sizes)
    assert {1, 8, 64} <= set(found[1].sizes)
    assert len(found[0].sizes) * len(found[1].sizes) <= MOST_PROGRAMS
    assert "Sizes in between were reduced" in said
    assert "seq: 1," in said
    assert not read_dimensions(("seq=16:32:128",), INPUTS)[1]


@pytest.mark.parametrize(
    ("texts", "said", "hint"),
    [
        (("sequence=1:2:4",), "no open dimension 'sequence'", "batch, seq, extra.0"),
        (("bath=1:2:4",), "no open dimension 'bath'", "Did you mean 'batch'"),
        (("seq",), "which sizes", "Write seq=16:32:128"),
        (("seq=8:4:16",), "must list the minimum", "Write seq"),
        (("seq=8:16",), "2 sizes; it needs three", "Write seq"),
        (("seq=a:b:c",), "'a' is not a size", "whole numbers"),
        (("seq=0:1:2",), "'0' is not a size", "whole numbers"),
        (("seq=4,",), "'' is not a size", "whole numbers"),
        (("seq=4", "seq=8"), "twice", "at once"),
        ((f"seq={','.join(map(str, range(1, MOST_SIZES + 2)))}",), f"{MOST_SIZES + 1} combinations", "fewer"),
    ],
)
def test_what_cannot_be_is_refused_with_what_can(texts, said, hint):
    with pytest.raises(UsageError) as caught:
        read_dimensions(texts, INPUTS)
    assert said in caught.value.message
    assert hint in caught.value.hint


def test_a_model_without_open_dimensions_needs_no_buckets():
    with pytest.raises(UsageError, match="no open dimension") as caught:
        read_dimensions(("seq=4",), (TensorInfo("x", "float32", (1, 3)),))
    assert "are fixed" in caught.value.hint
