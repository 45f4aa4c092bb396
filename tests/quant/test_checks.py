"""The table of bad data: a sentence with a next step for each row, and exit code 3, before any long work."""

import numpy as np
import pytest

from edgeopt.backends.base import TensorInfo
from edgeopt.data.read import load_data
from edgeopt.data.samples import Samples, check_samples, from_feeds
from edgeopt.errors import DataError, EdgeoptError
from edgeopt.graph.model import save
from edgeopt.profiles import shipped_profiles
from edgeopt.quant.checks import check_data
from edgeopt.quant.findings import findings_of
from edgeopt.quant.provider_rules import check_targets
from edgeopt.quant.ranges import ObservedRange, count, empty
from edgeopt.quant.records import Range
from tests.conftest import seeded, write_onnx
from tests.quant.planted import planted, quantized, settings_of

INPUTS = (TensorInfo("image", "float32", (1, 3, 4, 4)), TensorInfo("length", "int64", (1,)))


def good(count=24):
    images = np.random.default_rng(0).standard_normal((count, 3, 4, 4)).astype(np.float32)
    return {"image": images, "length": np.arange(count)[:, None]}


def with_nan():
    arrays = good()
    arrays["image"][5, 0, 0, 0] = np.nan
    return arrays


BAD_FILES = {
    "empty": ({name: array[:0] for name, array in good().items()}, "contains no samples"),
    "NaN": (with_nan(), r"holds NaN or infinity \(first in sample 5\)"),
    "wrong name": (
        {"picture": good()["image"], "length": good()["length"]},
        "no array for the model's input 'image'",
    ),
    "wrong rank": ({**good(), "image": np.zeros((24, 4), np.float32)}, "has 2 dimensions"),
    "wrong shape": ({**good(), "image": np.zeros((24, 3, 5, 5), np.float32)}, r"\[1, 3, 5, 5\]"),
    "one sample": (good(1), "holds one sample"),
    "constant": (
        {n: np.repeat(a[:1], 24, axis=0) for n, a in good().items()},
        "All 24 samples of the data are equal",
    ),
    "no two of a length": ({**good(), "length": np.zeros((3, 1), int)}, "different numbers of samples"),
    "text for numbers": ({**good(), "image": np.full((24, 3, 4, 4), "?")}, "type"),
}


def checked(path):
    """As `edgeopt quantize` reads data."""
    return check_data(load_data(path, INPUTS))


def refused(work):
    with pytest.raises(DataError) as caught:
        work()
    assert caught.value.exit_code == 3
    assert caught.value.hint
    return caught.value.message


@pytest.mark.parametrize("row", BAD_FILES)
def test_a_file(tmp_path, row):
    import re

    arrays, said = BAD_FILES[row]
    np.savez(tmp_path / "data.npz", **arrays)
    assert re.search(said, refused(lambda: checked(tmp_path / "data.npz")))


@pytest.mark.parametrize("content", [b"", b"no archive", b"PK\x03\x04 cut off", b"\x80\x04K\x01."])
def test_an_unreadable_file(tmp_path, content):
    (tmp_path / "data.npz").write_bytes(content)
    assert "cannot be read as data" in refused(lambda: checked(tmp_path / "data.npz"))


def test_an_archive_cut_short(tmp_path):
    np.savez(tmp_path / "whole.npz", **good())
    (tmp_path / "data.npz").write_bytes((tmp_path / "whole.npz").read_bytes()[:2000])
    assert "cannot be read as data" in refused(lambda: checked(tmp_path / "data.npz"))


def test_nothing_there_and_an_empty_folder(tmp_path):
    assert "There is no data" in refused(lambda: checked(tmp_path / "data.npz"))
    assert "holds no .npy file" in refused(lambda: checked(tmp_path))


def rows(count=24):
    arrays = good(count)
    return [{name: array[k] for name, array in arrays.items()} for k in range(count)]


def failing():
    yield rows()[0]
    raise KeyError("frame 2")


@pytest.mark.parametrize(
    ("feeds", "said"),
    [
        ([], "contains no samples"),
        (iter(()), "contains no samples"),
        ([np.zeros(3)], "Sample 0 of the data is of type ndarray, not a dict"),
        ([*rows(2), (1, 2)], "Sample 2 of the data is of type tuple"),
        ([{0: np.zeros(3)}], "dict with other keys"),
        (failing(), "The data failed at sample 1 with KeyError: 'frame 2'."),
        ([{**rows(1)[0], "image": None}], "'image' of sample 0 is of type NoneType"),
        ([{**rows(1)[0], "image": [[1], [2, 3]]}], "'image' of sample 0 is not an array"),
        ([*rows(1), {"image": rows(1)[0]["image"]}], "Sample 1 of the data lacks the input 'length'"),
        ([rows(1)[0], {**rows(1)[0], "image": np.zeros((1, 2))}], "shape"),
        (7, "The data is of type int, which yields no samples"),
    ],
)
def test_an_iterable_of_the_users_own(feeds, said):
    assert said in refused(lambda: check_data(check_samples(from_feeds(feeds), INPUTS)))


def test_good_data_passes_without_a_word(tmp_path):
    np.savez(tmp_path / "data.npz", **good())
    assert checked(tmp_path / "data.npz") == ()
    assert check_data(check_samples(from_feeds(iter(rows())), INPUTS)) == ()


def test_few_samples_may_calibrate_and_that_is_told():
    (said,) = check_data(check_samples(good(5), INPUTS))
    assert said.startswith(
        "The data holds 5 samples; with fewer than 12 the same ones must calibrate, plan and prove"
    )


def test_copies_are_no_samples():
    arrays = {name: np.tile(array[:4], (6, *(1,) * (array.ndim - 1))) for name, array in good().items()}
    (said,) = check_data(check_samples(arrays, INPUTS))
    assert said.startswith("Only 4 of the 24 samples differ")


def test_an_input_that_never_varies():
    arrays = {**good(), "image": np.full((24, 3, 4, 4), 0.5, np.float32)}
    (said,) = check_data(check_samples(arrays, INPUTS))
    assert said.startswith("The input 'image' is 0.5 everywhere")


def test_texts_are_samples_too():
    texts = Samples({"t": np.array(["a", "b"] * 8)}, {"t": 0})
    (said,) = check_data(texts)
    assert "Only 2 of the 16" in said


def seen(name, lows, highs, **more):
    return ObservedRange(name, np.array(lows, float), np.array(highs, float), elements=10, **more)


def kinds(*tensors, ranges=None):
    found = findings_of({one.tensor: one for one in tensors}, ranges or {})
    return [(one.kind, one.tensor, one.sample) for one in found], [one.sentence for one in found]


def test_ordinary_values_are_no_news():
    random = np.random.default_rng(0)
    highs = 3 + random.standard_normal((20, 24)) * 0.4
    assert kinds(*(seen(f"t{k}", -row, row) for k, row in enumerate(highs))) == ([], [])


def test_an_odd_sample_is_told_once_where_it_begins():
    calm = [1.0] * 10
    odd = [*calm[:6], 40.0, *calm[7:]]
    found, said = kinds(seen("x", [0] * 10, calm), seen("a", [0] * 10, odd), seen("b", [-k for k in odd], calm))
    assert found == [("outlier", "a", 6)]
    assert "Sample 6 reaches 40 in 'a', where others reach 1, and as odd in 1 more" in said[0]


@pytest.mark.parametrize(
    "highs", [[1, 1, 1, 40], [1] * 8 + [40] * 4, [0] * 9 + [40], [1, 2, 3, 4, 5, 6, 7, 8, 9.5]]
)
def test_too_few_to_tell_or_too_many_to_be_odd(highs):
    assert kinds(seen("x", [0] * len(highs), highs))[0] == []


def test_a_tensor_that_never_changes():
    found, said = kinds(seen("mask", [1, 1], [1, 1]), seen("zero", [0, 0], [0, 0]))
    assert [kind for kind, _, _ in found] == ["constant", "constant"]
    assert said[0].startswith("'mask' is 1 everywhere")


def channels(*reaches):
    return {"channel_axis": 1, "channel_lows": np.zeros(len(reaches)), "channel_highs": np.array(reaches, float)}


def test_dead_and_uneven_channels():
    found, said = kinds(
        seen("dead", [0], [2], **channels(1, 0, 2, 0)),
        seen("uneven", [0], [50], **channels(1, 1, 50, 0.9)),
        seen("even", [0], [3], **channels(1, 3, 2)),
        seen("all dead", [0], [0], **channels(0, 0)),
    )
    assert [(kind, tensor) for kind, tensor, _ in found] == [
        ("constant", "all dead"),
        ("dead channels", "dead"),
        ("uneven channels", "uneven"),
    ]
    assert "2 of 4 channels of 'dead' are 0" in said[1]
    assert "Channel 2 of 'uneven' reaches 50, the middle one of 4 1:" in said[2]


def test_a_range_that_costs_more_than_it_gives():
    histogram = empty(10.0)
    count(histogram, np.random.default_rng(0).uniform(-10, 10, 10_000).astype(np.float32))
    one = seen("t", [-10], [10], histogram=histogram)
    assert kinds(one, ranges={"t": Range(-9.9, 9.9)})[0] == []
    found, said = kinds(one, ranges={"t": Range(-5.0, 5.0)})
    assert found == [("cut off", "t", None)]
    assert "-5 to 5, clips values from -10 to 10" in said[0]


def test_what_is_not_finite_comes_first():
    found, said = kinds(seen("mask", [1], [1]), seen("l", [0] * 6, [1] * 6, not_finite=(1, 2, 4, 5)))
    assert found[0] == ("not finite", "l", 1)
    assert "on samples 1, 2, 4 and 1 more" in said[0]


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return planted(tmp_path_factory.mktemp("planted") / "planted.onnx")


@pytest.fixture(scope="module")
def naive(source):
    path = source.with_name("naive.onnx")
    save(quantized(source, settings_of("cpu-avx512-vnni")), path)
    return path


def test_a_file_for_vnni_breaks_where_there_is_none(naive):
    rows = check_targets(naive, ("cpu-avx2", "cpu-avx512", "cpu-avx512-vnni", "arm-dotprod"))
    assert [(row.target, row.verdict) for row in rows] == [
        ("cpu-avx2", "saturates"),
        ("cpu-avx512", "saturates"),
        ("cpu-avx512-vnni", "fine"),
        ("arm-dotprod", "fine"),
    ]
    assert rows[0].reason.startswith("3 of 3 products may overflow")
    assert "'Conv_0'" in rows[0].reason
    assert "--profile cpu-avx2" in rows[0].remedy


def test_one_with_seven_bits_does_not(source, tmp_path):
    save(quantized(source, settings_of("cpu-avx2")), tmp_path / "careful.onnx")
    (row,) = check_targets(tmp_path / "careful.onnx", ("cpu-avx2",))
    assert row.verdict == "fine"
    assert "weights of seven bits, which cannot overflow" in row.reason


def test_what_providers_cannot_take_falls_back_with_a_remedy(naive):
    rows = {row.target: row for row in check_targets(naive, ("gpu-tensorrt", "npu-coreml", "gpu-cuda"))}
    assert rows["gpu-tensorrt"].verdict == "falls back"
    assert "only symmetric signed" in rows["gpu-tensorrt"].reason
    assert rows["npu-coreml"].verdict == "falls back"
    assert rows["gpu-cuda"].verdict == "no gain"
    assert all(row.remedy for row in rows.values())


def test_what_is_written_for_tensorrt_is_fine_there(source, tmp_path):
    save(
        quantized(source, settings_of("gpu-tensorrt"), backend="onnxruntime-tensorrt"), tmp_path / "symmetric.onnx"
    )
    (row,) = check_targets(tmp_path / "symmetric.onnx", ("gpu-tensorrt",))
    assert row.verdict == "fine"


def test_operators_of_integers_are_named(source, tmp_path):
    save(quantized(source, settings_of("cpu-avx2"), scheme="int8-dynamic"), tmp_path / "dynamic.onnx")
    rows = check_targets(tmp_path / "dynamic.onnx", ("npu-qnn", "gpu-cuda", "gpu-tensorrt"))
    told = {row.target: row.reason for row in rows if "Integer" in row.reason}
    assert set(told) == {"npu-qnn", "gpu-cuda", "gpu-tensorrt"}
    assert "ConvInteger" in told["npu-qnn"]


def test_sixteen_bits_gain_nothing_on_a_cpu(source, tmp_path):
    save(
        quantized(source, settings_of("cpu-avx2"), scheme="a16w8", backend="onnxruntime-cpu"),
        tmp_path / "wide.onnx",
    )
    rows = check_targets(tmp_path / "wide.onnx", ("cpu-avx512-vnni",))
    assert [row.verdict for row in rows] == ["no gain"]


def test_open_shapes_are_named_with_what_fixes_them(tmp_path):
    nodes, weights = [("MatMul", ["x", "w"], ["y"], {})], {"w": seeded(32, 8)}
    path = write_onnx(tmp_path / "open.onnx", nodes, weights, {"x": ["batch", 32]}, {"y": ["batch", 8]})
    rows = check_targets(path, ("npu-qnn", "npu-openvino"))
    assert [row.verdict for row in rows] == ["falls back", "fails"]
    assert "--shape x=Nx32" in rows[0].remedy


def test_a_float_file_is_fine_anywhere(source):
    names = tuple(profile.name for profile in shipped_profiles())
    rows = check_targets(source, names)
    assert {row.target for row in rows} == set(names)
    assert {row.verdict for row in rows} == {"fine"}
    assert rows[0].reason == "Nothing in it is quantized."


def test_an_unknown_target_is_told_with_one_that_there_is(naive):
    with pytest.raises(EdgeoptError, match="cpu-avx3") as told:
        check_targets(naive, ("cpu-avx3",))
    assert "'cpu-avx" in told.value.hint


@pytest.mark.parametrize(("largest", "verdict"), [(64, "fine"), (65, "saturates")])
@pytest.mark.parametrize("kind", ["int8", "uint8"])
def test_weights_beyond_seven_bits_are_reported(tmp_path, largest, verdict, kind):
    middle = 128 if kind == "uint8" else 0
    weights = np.full((32, 8), middle - 1, kind)
    weights[3, 5] = middle + largest
    nodes = [
        ("QuantizeLinear", ["x", "s", "z"], ["q"], {}),
        ("DequantizeLinear", ["q", "s", "z"], ["d"], {}),
        ("DequantizeLinear", ["w", "s", "m"], ["wd"], {}),
        ("MatMul", ["d", "wd"], ["y"], {}),
    ]
    points = {"z": np.array(0, np.uint8), "m": np.array(middle, kind)}
    constants = {"w": weights, "s": np.array(0.1, np.float32), **points}
    path = write_onnx(tmp_path / "m.onnx", nodes, constants, {"x": [1, 32]}, {"y": [1, 8]})
    (row,) = check_targets(path, ("cpu-avx2",))
    assert row.verdict == verdict


def with_second_factor(path, nodes, constants, inputs):
    """A product of x in eight bits with `f` in eight bits."""
    nodes = [
        *nodes,
        ("QuantizeLinear", ["x", "s", "z"], ["q"], {}),
        ("DequantizeLinear", ["q", "s", "z"], ["d"], {}),
        ("QuantizeLinear", ["f", "s", "m"], ["fq"], {}),
        ("DequantizeLinear", ["fq", "s", "m"], ["fd"], {}),
        ("MatMul", ["d", "fd"], ["y"], {}),
    ]
    points = {"s": np.array(0.1, np.float32), "z": np.array(0, np.uint8), "m": np.array(0, np.int8)}
    return write_onnx(path, nodes, {**points, **constants}, {"x": [1, 32], **inputs}, {"y": [1, 8]})


def test_weights_that_are_rounded_at_the_load_may_overflow(tmp_path):
    path = with_second_factor(tmp_path / "m.onnx", [], {"f": seeded(32, 8)}, {})
    (row,) = check_targets(path, ("cpu-avx2",))
    assert row.verdict == "saturates"


@pytest.mark.parametrize("far", [False, True], ids=["an input", "a table behind it"])
def test_products_of_two_computed_factors_are_counted_and_condemn_no_file(tmp_path, far):
    nodes = [("Gather", ["table", "which"], ["g"], {}), ("Relu", ["g"], ["f"], {})] if far else []
    constants = {"table": np.full((64, 8), 9, np.float32), "which": np.arange(32)} if far else {}
    path = with_second_factor(tmp_path / "m.onnx", nodes, constants, {} if far else {"f": [32, 8]})
    (avx2, vnni) = check_targets(path, ("cpu-avx2", "cpu-avx512-vnni"))
    assert (avx2.verdict, vnni.verdict) == ("fine", "fine")
    assert "1 product of two computed factors may overflow" in avx2.reason
    assert "overflow" not in vnni.reason
