import numpy as np
import pytest

from edgeopt.graph.passes.knowledge.linear import expanded_before, gathered, spread_out


@pytest.fixture
def value_of(make_model):
    def value_of(text, **weights):
        model = make_model(f"g (float[1,2] x) => (float[1,2] y) {{ {text} y = Add(x, w) }}", **weights).ir
        return next(node for node in model.graph if node.op_type == "Add").inputs[1]

    return value_of


def test_a_filled_weight_takes_no_memory(value_of):
    array = spread_out(value_of("w = ConstantOfShape <value = float {2.5}> (s)", s=np.int64([400, 300])))
    assert array.shape == (400, 300)
    assert array.strides == (0, 0)
    assert array[399, 299] == np.float32(2.5)


def test_without_a_value_it_is_filled_with_zeros(value_of):
    array = spread_out(value_of("w = ConstantOfShape (s)", s=np.int64([2])))
    assert (array == np.zeros(2, np.float32)).all()
    assert array.dtype == np.float32


def test_an_expand_keeps_what_is_larger_than_asked(value_of):
    column = np.float32([[1], [2], [3]])
    array = spread_out(value_of("w = Expand(v, s)", v=column, s=np.int64([4, 1, 2])))
    assert (array == np.broadcast_to(column, (4, 3, 2))).all()


@pytest.mark.parametrize(
    ("text", "weights"),
    [
        ("w = Neg(v)", {"v": np.ones((1, 2), np.float32)}),
        ("s = Shape(x) w = ConstantOfShape <value = float {1}> (s)", {}),
        ("w = Expand(v, s)", {"v": np.ones((1, 3), np.float32), "s": np.int64([1, 2])}),
    ],
    ids=("computed", "shape-known-later", "does-not-fit"),
)
def test_what_is_no_spread_constant(value_of, text, weights):
    assert spread_out(value_of(text, **weights)) is None


def test_gathered_keeps_the_axes_that_differ():
    rows = np.arange(3.0).reshape(3, 1, 1) * np.ones((3, 4, 5))
    assert gathered(rows).shape == (3, 1, 1)
    assert gathered(np.full((2, 2), 7.0)).tolist() == [[7.0]]
    mixed = np.random.default_rng(0).random((2, 1, 3))
    assert (gathered(np.repeat(mixed, 6, axis=1)) == mixed).all()


def test_gathered_leaves_nan_and_empty_arrays_alone():
    assert gathered(np.full((2, 2), np.nan)).shape == (2, 2)
    assert gathered(np.zeros((0, 3))).shape[0] == 0


def test_an_expand_is_put_before_the_node(make_model):
    model = make_model(
        "g (float[1,2] x) => (float[1,2] y) { y = Add(x, w) }", w=np.float32([3]), s=np.int64([1, 2])
    ).ir
    add = model.graph[0]
    wide = expanded_before(add, add.inputs[1], model.graph.initializers["s"], "wide")
    assert [node.op_type for node in model.graph] == ["Expand", "Add"]
    assert (spread_out(wide) == np.float32([[3, 3]])).all()
    assert tuple(wide.shape) == (1, 2)
