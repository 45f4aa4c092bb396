import numpy as np
import pytest

from edgeopt.backends import backend_named
from edgeopt.backends.openvino.result_buffers import ResultBuffers

FLOAT = np.dtype(np.float32)


def made(buffers, value, shape=(4, 5), dtype=FLOAT):
    return buffers.copy(np.full(shape, value, dtype))


def address(array):
    return array.__array_interface__["data"][0]


def test_memory_comes_back_with_the_last_view():
    buffers = ResultBuffers(2)
    first = made(buffers, 1)
    place, view = address(first), first[1:]
    del first
    assert address(made(buffers, 2)) != place
    del view
    assert address(made(buffers, 3)) == place


def test_memory_is_aligned_and_writeable():
    array = made(ResultBuffers(2), 1)
    assert address(array) % 64 == 0
    assert array.flags.carray


@pytest.mark.parametrize("other", [((5, 4), FLOAT), ((4, 5), np.dtype(np.int32)), ((2, 5), FLOAT)])
def test_results_of_another_shape_or_type_get_memory_of_their_own(other):
    buffers = ResultBuffers(2)
    place = address(made(buffers, 1))
    array = made(buffers, 2, *other)
    assert (array.shape, array.dtype) == other
    assert address(array) != place
    assert address(made(buffers, 3)) == place


def test_idle_buffers_are_limited():
    buffers = ResultBuffers(2)
    kept = [made(buffers, value) for value in range(10)]
    assert len({address(array) for array in kept}) == 10
    kept.clear()
    assert len(buffers._idle) == 2


def test_a_closed_session_keeps_no_memory(write_model):
    shape = "float[1,60000]"
    path = write_model(f"g ({shape} x) => ({shape} y, {shape} z) {{ y = Relu(x) z = Neg(x) }}")
    session = backend_named("openvino-cpu").load(path, {})
    buffers = session._buffers
    kept = [session.run({"x": np.full((1, 60_000), value, np.float32)}) for value in range(9)]
    last = kept[-1]["y"]
    kept.clear()
    assert len(buffers._idle) == 4  # two an output
    session.close()
    assert not buffers._idle
    assert (last == 8).all()
    del last
    assert not buffers._idle
