import numpy as np
import pytest

from edgeopt.commands.ops.case import OperatorCase, fed, numbers, spread, weights
from edgeopt.commands.ops.compare import compare
from edgeopt.commands.ops.prepare import prepare


def case(operator="Add", precision="fp32", ports=None):
    ports = ports or [fed(4, 8), fed(4, 8)]
    return OperatorCase(operator, "", "small", precision, tuple(ports))


def right(prepared):
    dtype = {"fp32": np.float32, "fp16": np.float16, "int8": np.uint8}[prepared.case.precision]
    return {name: array.astype(dtype) for name, array in prepared.expected.items()}


@pytest.mark.parametrize("precision", ["fp32", "fp16", "int8"])
def test_the_right_numbers_conform(precision):
    prepared = prepare(case(precision=precision))
    verdict = compare(prepared, right(prepared))
    assert verdict.conforms
    assert verdict.error_share < 0.2
    assert verdict.message == ""


@pytest.mark.parametrize(("precision", "off"), [("fp32", 1e-5), ("fp16", 0.02), ("int8", 2)])
def test_one_number_that_is_off_is_found_and_named(precision, off):
    prepared = prepare(case(precision=precision))
    outputs = right(prepared)
    before = float(outputs["y0"][2, 3])
    outputs["y0"][2, 3] += outputs["y0"].dtype.type(off if before < 200 else -off)
    verdict = compare(prepared, outputs)
    assert not verdict.conforms
    assert "1 of 32 numbers are off: at [2, 3]" in verdict.message
    assert "dB" in verdict.message


def test_a_quantized_number_may_be_off_by_one_step():
    prepared = prepare(case(precision="int8"))
    outputs = right(prepared)
    outputs["y0"][0, 0] += 1 if outputs["y0"][0, 0] < 200 else -1
    assert compare(prepared, outputs).conforms


def test_a_sum_of_many_may_be_off_by_more_than_a_single_one():
    few = prepare(case("MatMul", ports=[fed(4, 4), weights(4, 4, fan_in=4)]))
    many = prepare(case("MatMul", ports=[fed(4, 4096), weights(4096, 4, fan_in=4096)]))
    verdicts = []
    for prepared in (few, many):
        outputs = right(prepared)
        outputs["y0"] *= np.float32(1 + 4e-6)
        verdicts.append(compare(prepared, outputs))
    assert verdicts[0].error_share > 2 * verdicts[1].error_share
    assert verdicts[1].conforms


def test_what_moves_whole_numbers_must_be_exact():
    prepared = prepare(next(iter(spread("ArgMax", [[fed(2, 8)]] * 3, attributes={"axis": -1, "keepdims": 0}))))
    outputs = dict(prepared.expected)
    assert compare(prepared, outputs).conforms
    verdict = compare(prepared, {"y0": outputs["y0"] + 1})
    assert not verdict.conforms
    assert "instead of" in verdict.message


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda array: array.reshape(-1), "float32 [32], not float32 [4, 8]"),
        (lambda array: array.astype(np.float64), "float64 [4, 8], not float32 [4, 8]"),
        (
            lambda array: np.where(array == array.max(), np.nan, array),
            "1 of 32 numbers of the output y0 are not finite",
        ),
    ],
)
def test_a_wrong_shape_type_or_no_number_is_said(change, said):
    prepared = prepare(case())
    verdict = compare(prepared, {"y0": change(right(prepared)["y0"])})
    assert not verdict.conforms
    assert said in verdict.message


def test_a_missing_output_is_said():
    assert compare(prepare(case()), {}).message == "The output y0 is missing."


def test_what_only_moves_numbers_must_give_them_exactly():
    for precision in ("fp32", "fp16", "int8"):
        ports = (fed(4, 8), numbers(8, 4))
        prepared = prepare(OperatorCase("Reshape", "", "small", precision, ports, keeps_scale=True))
        outputs = right(prepared)
        assert compare(prepared, outputs).conforms
        value = outputs["y0"]
        value[0, 0] = (
            value[0, 0] - 1 if value.dtype == np.uint8 else np.nextafter(value[0, 0], value.dtype.type(9))
        )
        assert not compare(prepared, outputs).conforms


def test_only_a_few_quantized_numbers_may_be_off_by_a_step():
    prepared = prepare(case(precision="int8", ports=[fed(20, 50), fed(20, 50)]))
    for count, conforms in ((20, True), (21, False)):
        outputs = right(prepared)
        flat = outputs["y0"].reshape(-1)
        flat[:count] = np.where(flat[:count] < 200, flat[:count] + 1, flat[:count] - 1)
        verdict = compare(prepared, outputs)
        assert verdict.conforms == conforms
        assert conforms == (verdict.message == "")
    assert "21 of 1,000 numbers are off by one step (20 may be)" in verdict.message
