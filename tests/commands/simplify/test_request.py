import pytest

from edgeopt.commands.simplify.request import read_shapes
from edgeopt.errors import UsageError


def test_shapes_as_they_are_written():
    assert read_shapes(("image=1x3x224x224", "a=b=2", "scalar=")) == {
        "image": (1, 3, 224, 224),
        "a=b": (2,),
        "scalar": (),
    }


@pytest.mark.parametrize("wrong", ["x", "x=1,2", "x=ax3", "=1x2", "x=1x"])
def test_what_is_no_shape(wrong):
    with pytest.raises(UsageError, match="is not a shape"):
        read_shapes((wrong,))
