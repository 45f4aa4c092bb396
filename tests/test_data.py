import numpy as np
import pytest

from edgeopt.backends.base import TensorInfo
from edgeopt.data.read import load_data
from edgeopt.data.samples import check_samples, from_feeds, open_samples, save_samples
from edgeopt.errors import DataError

X = TensorInfo("x", "float32", (1, 3))
BATCH = TensorInfo("x", "float32", ("batch", 3))
IDS = TensorInfo("ids", "int32", (1, "length"))
SCALE = TensorInfo("scale", "float32", ())
TEXTS = TensorInfo("texts", "str", ("n",))
ANY_RANK = TensorInfo("x", "float32", (), rank_known=False)


def rows(count=4, dtype=np.float32):
    return np.arange(count * 3, dtype=dtype).reshape(count, 3)


@pytest.fixture
def write_npz(tmp_path):
    def write(**arrays):
        path = tmp_path / "data.npz"
        np.savez(path, **arrays)
        return path

    return write


@pytest.mark.parametrize("info", [X, BATCH])
@pytest.mark.parametrize("array", [rows(), rows()[:, None, :]], ids=["batch axis left out", "batch axis given"])
def test_a_sample_may_leave_out_a_batch_axis_of_1(info, array):
    samples = check_samples({"x": array}, (info,))
    assert len(samples) == 4
    assert samples.shapes() == {"x": [1, 3]}
    assert np.array_equal(samples.feeds(2)["x"], rows()[2:3])


def test_a_larger_batch_stays_as_it_is():
    samples = check_samples({"x": np.zeros((5, 2, 3), np.float32)}, (BATCH,))
    assert (len(samples), samples.shapes()) == (5, {"x": [2, 3]})


def test_a_scalar_input_gets_an_array_of_no_dimensions():
    one = check_samples({"scale": np.array([0.5, 2.0], np.float32)}, (SCALE,)).feeds(1)["scale"]
    assert isinstance(one, np.ndarray)
    assert (one.shape, one.dtype, float(one)) == ((), np.float32, 2.0)


def test_an_input_of_unknown_rank_takes_samples_as_they_are():
    samples = check_samples({"x": rows()}, (ANY_RANK,))
    assert (len(samples), samples.shapes()) == (4, {"x": [3]})


def test_arrays_that_are_no_input_are_ignored_and_named():
    samples = check_samples({"x": rows(), "labels": np.arange(9)}, (X,))
    assert samples.ignored == ("labels",)
    assert set(samples.feeds(0)) == {"x"}


@pytest.mark.parametrize(
    ("array", "info"),
    [
        (rows(dtype=np.float64), X),
        (rows(dtype=np.uint8), X),
        (rows(dtype=">f4"), X),
        (rows(dtype=np.int64), IDS),
        (np.array([["a", "b"]]), TEXTS),
        (np.array([["a", "b"]], dtype=object), TEXTS),
    ],
    ids=["float64", "uint8", "other byte order", "int64", "text", "text objects"],
)
def test_values_are_brought_to_the_type_of_the_input(array, info):
    one = check_samples({info.name: array}, (info,)).feeds(0)[info.name]
    assert one.dtype.kind == "U" if info.dtype == "str" else one.dtype == np.dtype(info.dtype)
    assert one.reshape(-1).tolist() == array[0].tolist()


@pytest.mark.parametrize(
    ("arrays", "inputs", "sentence"),
    [
        ({"y": rows()}, (X,), "the data has no array for the model's input 'x'; it has: y."),
        ({}, (X,), "it has: nothing."),
        (
            {"x": rows(), "ids": np.zeros((5, 2), np.int32)},
            (X, IDS),
            "The arrays in the data hold different numbers of samples (x: 4, ids: 5).",
        ),
        (
            {"x": np.zeros(3, np.float32)},
            (X,),
            "has 1 dimensions [3]; the input has 2 [1, 3], so the array needs 3 (samples first), or 2 where",
        ),
        ({"x": np.zeros((4, 1, 1, 3), np.float32)}, (X,), "has 4 dimensions"),
        (
            {"scale": np.float32(1)},
            (SCALE,),
            "has 0 dimensions []; the input has 0 [], so the array needs 1 (samples first).",
        ),
        ({"x": rows(0)}, (X,), "The array 'x' in the data contains no samples."),
        ({"x": np.zeros((4, 5), np.float32)}, (X,), "holds samples of shape [1, 5]; the input takes [1, 3]."),
        ({"x": np.zeros((4, 2, 3), np.float32)}, (X,), "holds samples of shape [2, 3]; the input takes [1, 3]."),
        ({"ids": np.zeros((4, 2), np.float32)}, (IDS,), "is of type float32; the input takes int32."),
        ({"x": np.zeros((4, 3), bool)}, (X,), "is of type bool; the input takes float32."),
        ({"x": np.array([["a", "b", "c"]])}, (X,), "the input takes float32."),
        ({"texts": rows()}, (TEXTS,), "is of type float32; the input takes str."),
        ({"x": np.zeros((4, 3), np.float32)}, (TensorInfo("x", "bfloat17", (1, 3)),), "the input takes bfloat17."),
        (
            {"ids": np.array([[1, 2**40]])},
            (IDS,),
            "The array 'ids' in the data holds numbers that do not fit into int32.",
        ),
        ({"x": np.full((2, 3), 1e300)}, (X,), "holds numbers that do not fit into float32."),
        (
            {"x": np.array([[1, 2, 3], [4, np.nan, 6]])},
            (X,),
            "The array 'x' in the data holds NaN or infinity (first in sample 1).",
        ),
        ({"x": np.array([[np.inf, 2, 3]], np.float32)}, (X,), "(first in sample 0)."),
    ],
)
def test_wrong_data_gets_one_sentence(arrays, inputs, sentence):
    with pytest.raises(DataError) as caught:
        check_samples(arrays, inputs)
    assert sentence in caught.value.message
    assert caught.value.hint


def test_an_archive_is_read(write_npz):
    samples = load_data(write_npz(x=rows(), labels=np.arange(4)), (X,))
    assert (len(samples), samples.ignored) == (4, ("labels",))


def test_a_folder_of_arrays_is_read(tmp_path):
    np.save(tmp_path / "x.npy", rows())
    np.save(tmp_path / "scale.npy", np.ones(4, np.float32))
    samples = load_data(tmp_path, (X, SCALE))
    assert samples.shapes() == {"x": [1, 3], "scale": []}


def put_single_array(path):
    with path.open("wb") as file:
        np.save(file, rows())


def put_objects(path):
    with path.open("wb") as file:
        np.savez(file, x=np.array([{}, {}]))


def put_cut_archive(path):
    with path.open("wb") as file:
        np.savez(file, x=rows())
    path.write_bytes(path.read_bytes()[:-40])


def put_broken_folder(path):
    path.mkdir()
    (path / "x.npy").write_bytes(b"\x93NUMPY")


@pytest.mark.parametrize(
    ("put", "sentence"),
    [
        (lambda _: None, "There is no data at '"),
        (lambda path: path.mkdir(), "holds no .npy files and no pictures."),
        (put_broken_folder, "x.npy' cannot be read as an array: "),
        (put_single_array, "'data.npz' is a single array, not an archive of named arrays."),
        (
            put_objects,
            "'data.npz' cannot be read as data: it is not an .npz archive, or holds Python objects",
        ),
        (put_cut_archive, "'data.npz' cannot be read as data: "),
        (lambda path: path.write_text("x,y\n1,2\n"), "'data.npz' cannot be read as data: "),
        (lambda path: path.touch(), "'data.npz' cannot be read as data: "),
    ],
    ids=["absent", "empty folder", "broken folder", "single array", "objects", "cut off", "text", "empty file"],
)
def test_data_that_cannot_be_read_gets_one_sentence(tmp_path, put, sentence):
    path = tmp_path / "data.npz"
    put(path)
    with pytest.raises(DataError) as caught:
        load_data(path, (X,))
    assert sentence in caught.value.message
    assert caught.value.hint


def test_single_runs_become_samples():
    runs = ({"x": row[None], "scale": np.float32(2)} for row in rows())
    samples = check_samples(from_feeds(runs), (X, SCALE))
    assert (len(samples), samples.shapes()) == (4, {"x": [1, 3], "scale": []})
    assert np.array_equal(samples.feeds(3)["x"], rows()[3:])


@pytest.mark.parametrize(
    ("runs", "sentence"),
    [
        ([], "The data contains no samples."),
        (
            [{"x": rows()}, {"y": rows()}],
            "Sample 1 of the data lacks the input 'x', which sample 0 has.",
        ),
        (
            [{"x": rows(2)}, {"x": rows(2)}, {"x": rows(3)}],
            "The input 'x' has the shape [2, 3] in sample 0 and [3, 3] in sample 2.",
        ),
    ],
)
def test_runs_that_do_not_fit_together_get_one_sentence(runs, sentence):
    with pytest.raises(DataError) as caught:
        from_feeds(runs)
    assert caught.value.message == sentence


def test_part_of_the_samples_is_a_view():
    samples = check_samples({"x": rows(6)}, (X,))
    part = samples[range(2, 5)]
    assert len(part) == 3
    assert np.shares_memory(part.arrays["x"], samples.arrays["x"])
    assert np.array_equal(part.feeds(0)["x"], samples.feeds(2)["x"])


def test_saved_samples_are_mapped_and_give_the_same_feeds(tmp_path):
    texts = TensorInfo("les textes: à part", "str", (1,))
    arrays = {
        "x": rows()[:, ::-1],
        "scale": np.ones(4, np.float32),
        texts.name: np.array([["é"], ["b"], ["c"], ["d"]]),
    }
    samples = check_samples(arrays, (X, SCALE, texts))
    save_samples(samples, tmp_path / "deep" / "samples")
    opened = open_samples(tmp_path / "deep" / "samples")
    assert all(isinstance(array, np.memmap) for array in opened.arrays.values())
    assert len(opened) == 4
    for index in range(4):
        wanted, got = samples.feeds(index), opened.feeds(index)
        assert list(got) == list(wanted)
        for name, array in wanted.items():
            assert got[name].shape == array.shape
            assert np.array_equal(got[name], array)
