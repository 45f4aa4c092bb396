"""What every backend keeps while running; the suite runs over `BACKENDS`: a line there is enough to inherit it."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from edgeopt.errors import DataError, UsageError


def numbers(*shape, start=0):
    return (np.arange(np.prod(shape, dtype=int), dtype=np.float32) - 2 + start).reshape(shape)


def test_inputs_and_outputs_are_described_as_the_file_has_them(loaded):
    session = loaded("two").session
    assert [(i.name, i.dtype) for i in session.inputs] == [("b", "float32"), ("a", "int64")]
    assert [(o.name, o.dtype) for o in session.outputs] == [("z", "float32"), ("m", "float32")]
    assert all(not isinstance(i.shape[0], int) and i.shape[1] == 2 for i in session.inputs)


def test_a_fixed_shape_is_told(loaded):
    assert loaded("fixed").session.inputs[0].shape == (2, 3)


def test_batches_of_changing_size(loaded):
    model = loaded("batch")
    for size in (1, 4, 4, 1, 7):
        model.run_and_check(numbers(size, 3, start=size))


def test_an_empty_batch_gives_an_empty_result(loaded):
    model = loaded("batch")
    model.run_and_check(numbers(2, 3))
    model.run_and_check(numbers(0, 3))
    model.run_and_check(numbers(2, 3))


@pytest.mark.parametrize("value", [np.float32(3), np.array(3, np.float32)], ids=["numpy scalar", "0-d array"])
def test_a_single_number(loaded, value):
    model = loaded("scalar")
    for _ in range(2):
        assert model.run_and_check(value)["y"].shape == ()


@pytest.mark.parametrize("dtype", ["float16", "float64", "int32", "int64", "uint8", "int8", "bool"])
def test_types(loaded, dtype):
    model = loaded(dtype)
    for values in ([0, 1, 1], [1, 0, 1]):
        model.run_and_check(np.array(values).astype(dtype))


def test_outputs_of_64_mib(loaded):
    model = loaded("big")
    if not model.computes:
        pytest.skip("it computes nothing real")
    for start in (0, 1):
        assert model.run_and_check(numbers(1, 4096, start=start))["y"].nbytes == 64 * 2**20


def test_outputs_whose_size_depends_on_the_values(loaded):
    model = loaded("found")
    if not model.computes:
        pytest.skip("it computes nothing real")
    for values in ([0, 1, 1], [1, 0, 0, 0], [0, 0], []):
        model.run_and_check(np.array(values, np.float32))


def test_a_model_without_inputs(loaded):
    model = loaded("alone")
    assert model.session.inputs == ()
    for _ in range(2):
        model.run_and_check()["y"][...] = 9
    with pytest.raises(DataError, match="no input 'x'"):
        model.session.run({"x": numbers(1)})


def test_several_outputs_keep_their_order(loaded):
    model = loaded("two")
    for start in (0, 5):
        model.run_and_check(numbers(2, 2, start=start), np.array([[1, 2], [3, start]]))


def test_the_order_of_the_feeds_does_not_matter(loaded):
    model = loaded("two")
    b, a = numbers(1, 2), np.array([[7, 9]])
    model.check(model.session.run({"a": a, "b": b}), b, a)


@pytest.mark.parametrize("rows", [1, 7])
def test_repeated_runs_are_equal_to_the_last_bit(backend, model_file, rows):
    session = backend.load(model_file("product"), {})
    feed = np.random.default_rng(rows).standard_normal((rows, 256)).astype(np.float32)
    first = session.run({"x": feed})["y"]
    assert first.any()
    assert all(session.run({"x": feed})["y"].tobytes() == first.tobytes() for _ in range(20))


@pytest.mark.parametrize("kind", ["fixed", "large"])
def test_results_stay_as_they_are_through_later_runs(loaded, kind):
    model = loaded(kind)
    shape = model.recipe.inputs[0][2]
    first = model.run(numbers(*shape))
    kept = {name: array.copy() for name, array in first.items()}
    for start in (10, 20):
        later = model.run(numbers(*shape, start=start))
        assert all(not np.shares_memory(later[name], first[name]) for name in first)
    assert all(np.array_equal(first[name], kept[name]) for name in first)


@pytest.mark.parametrize("kind", ["untouched", "large"])
def test_writing_to_a_result_changes_neither_the_model_nor_the_feeds(loaded, kind):
    model = loaded(kind)
    feed = numbers(*model.recipe.inputs[0][2])
    before = feed.copy()
    for array in model.run(feed).values():
        array[...] = 9
    assert np.array_equal(feed, before)
    model.run_and_check(feed)


@pytest.mark.parametrize("step", [1, -1])
def test_a_feed_changed_in_place_is_seen(loaded, step):
    model = loaded("large")
    feed = numbers(1, 200_000)[:, ::step]
    for _ in range(3):
        model.run_and_check(feed)
        feed += 1


def test_sizes_from_small_to_large_and_back(loaded):
    model = loaded("any-size")
    for size in (3, 100_000, 100_000, 3, 100_000, 0, 3):
        model.run_and_check(numbers(size))


def unaligned(array):
    raw = np.empty(array.nbytes + 1, np.uint8)[1:]
    raw[:] = array.reshape(-1).view(np.uint8)
    return raw.view(array.dtype).reshape(array.shape)


def read_only(array):
    array = array.copy()
    array.flags.writeable = False
    return array


WAYS_TO_LIE_IN_MEMORY = {
    "fortran": np.asfortranarray,
    "strided": lambda array: np.repeat(array, 2, axis=-1)[..., ::2],
    "reversed": lambda array: array[..., ::-1],
    "other byte order": lambda array: array.astype(array.dtype.newbyteorder()),
    "unaligned": unaligned,
    "read-only": read_only,
}


@pytest.mark.parametrize("way", WAYS_TO_LIE_IN_MEMORY)
@pytest.mark.parametrize("size", [2, 50_000])
def test_arrays_may_lie_in_memory_as_they_like(loaded, way, size):
    model = loaded("batch")
    model.run_and_check(numbers(size, 3))
    for start in (1, 2):
        model.run_and_check(WAYS_TO_LIE_IN_MEMORY[way](numbers(size, 3, start=start)))


def test_two_sessions_at_once(loaded):
    one, other = loaded("batch"), loaded("two")
    for start in (0, 1):
        one.run_and_check(numbers(2, 3, start=start))
        other.run_and_check(numbers(1, 2, start=start), np.array([[start, 1]]))


def test_sessions_of_their_own_in_several_threads(backend, model_file, loaded):
    path, model = model_file("batch"), loaded("batch")

    def work(start):
        session = backend.load(path, {})
        for size in (2, 300, 2):
            feed = numbers(size, 3, start=start)
            model.check(session.run({"x": feed}), feed)
        session.close()
        return True

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(8)))


@pytest.mark.parametrize("size", [2, 50_000])
def test_several_threads_may_use_one_session(loaded, size):
    model = loaded("batch")
    feeds = [numbers(size, 3, start=start) for start in range(4)]

    def work(feed):
        for _ in range(10):
            model.run_and_check(feed)
        return True

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, feeds))


def test_a_closed_session_says_so(loaded):
    model = loaded("batch")
    model.run(numbers(1, 3))
    model.session.close()
    model.session.close()
    with pytest.raises(UsageError, match="closed"):
        model.run(numbers(1, 3))


WRONG = {
    "missing": ({}, "'x' is missing"),
    "another name": ({"y": numbers(2, 3)}, "'x' is missing"),
    "one too many": ({"x": numbers(2, 3), "more": numbers(1)}, "no input 'more'"),
    "type": ({"x": numbers(2, 3).astype(np.float64)}, "type float32, not float64"),
    "type of the same size": ({"x": numbers(2, 3).astype(np.int32)}, "type float32, not int32"),
    "objects": ({"x": numbers(2, 3).astype(object)}, "type float32, not object"),
    "rank": ({"x": numbers(3)}, "2 dimensions"),
    "rank above": ({"x": numbers(1, 2, 3)}, "2 dimensions"),
    "shape": ({"x": numbers(3, 2)}, r"shape \[2, 3\], not \[3, 2\]"),
    "shape that broadcasts": ({"x": numbers(1, 3)}, r"shape \[2, 3\], not \[1, 3\]"),
    "list": ({"x": [[1.0, 2.0, 3.0]] * 2}, "type float32, not float64"),
    "nothing": ({"x": None}, "type float32, not object"),
}


@pytest.mark.parametrize("after", ["at once", "after a good run"])
@pytest.mark.parametrize("wrong", WRONG)
def test_wrong_feeds_get_a_sentence_and_do_no_harm(loaded, wrong, after):
    model = loaded("fixed")
    if after != "at once":
        model.run_and_check(numbers(2, 3))
    feeds, sentence = WRONG[wrong]
    with pytest.raises(DataError, match=sentence) as raised:
        model.session.run(feeds)
    assert raised.value.message.endswith(".")
    assert raised.value.hint
    model.run_and_check(numbers(2, 3, start=1))


@pytest.mark.parametrize("shape", [(1,), (2, 2)])
def test_an_array_is_not_a_single_number(loaded, shape):
    model = loaded("scalar")
    model.run_and_check(np.array(3, np.float32))
    with pytest.raises(DataError, match="0 dimensions"):
        model.run(numbers(*shape))


def test_an_input_of_an_optional_operand_may_not_be_left_out(loaded):
    model = loaded("optional")
    model.run_and_check(numbers(5), np.array(1, np.float32))
    with pytest.raises(DataError, match="'highest' is missing"):
        model.session.run({"x": numbers(5)})
