"""Wrong arithmetic that looks nearly right must deviate: on every small case, whatever the tolerance is there."""

import msgspec
import numpy as np
import pytest

from edgeopt.commands.ops.cases import CASES
from edgeopt.commands.ops.compare import compare
from edgeopt.commands.ops.prepare import output_dtype, prepare

SMALL = [case for case in CASES if case.size == "small"]
NORMS = (
    "BatchNormalization",
    "InstanceNormalization",
    "LayerNormalization",
    "GroupNormalization",
    "RMSNormalization",
)


@pytest.fixture(scope="module")
def prepared():
    return [prepare(case) for case in SMALL]


def right(prepared):
    return {name: array.astype(output_dtype(prepared.case, array)) for name, array in prepared.expected.items()}


def in_bfloat16(array):
    """The nearest number of eight binary digits."""
    mantissa, exponent = np.frexp(array.astype(np.float64))
    return np.ldexp(np.rint(mantissa * 2**8) / 2**8, exponent).astype(array.dtype)


def one_higher(array):
    return np.minimum(array.astype(np.int64) + 1, np.iinfo(array.dtype).max).astype(array.dtype)


def conforming(prepared, precisions, change):
    """The names of the cases that conform although every output is changed."""
    found, tried = [], 0
    for each in prepared:
        if each.case.precision in precisions:
            before = right(each)
            after = {name: change(array) for name, array in before.items()}
            if any(not np.array_equal(before[name], after[name]) for name in before):
                tried += 1
                found += [each.case.name] if compare(each, after).conforms else []
    assert tried > 20
    return found


def test_the_right_numbers_conform(prepared):
    assert [each.case.name for each in prepared if not compare(each, right(each)).conforms] == []


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_numbers_rounded_to_bfloat16_deviate(prepared, precision):
    changed = lambda array: in_bfloat16(array) if array.dtype.kind == "f" else array  # noqa: E731
    assert conforming(prepared, {precision}, changed) == []


def test_eight_bit_numbers_that_are_all_one_too_high_deviate(prepared):
    changed = lambda array: one_higher(array) if array.dtype.name in {"int8", "uint8"} else array  # noqa: E731
    assert conforming(prepared, {"int8"}, changed) == []


def test_outputs_that_are_eight_percent_too_large_deviate(prepared):
    changed = lambda array: array * array.dtype.type(1.08) if array.dtype.kind == "f" else array  # noqa: E731
    assert conforming(prepared, {"fp32", "fp16"}, changed) == []


@pytest.mark.parametrize("size", ["small", "medium"])
@pytest.mark.parametrize("operator", NORMS)
def test_a_normalization_without_its_epsilon_deviates(operator, size):
    cases = [c for c in CASES if (c.operator, c.size, c.precision) == (operator, size, "fp32")]
    assert cases
    for case in cases:
        without = msgspec.structs.replace(case, attributes={**case.attributes, "epsilon": 0.0})
        verdict = compare(prepare(case), right(prepare(without)))
        assert not verdict.conforms, case.name


@pytest.mark.parametrize("name", ["Resize linear x2 fp16 large", "ReduceSum all fp16 large"])
def test_the_size_of_a_case_makes_no_error_of_eight_percent_pass(name):
    prepared = prepare(next(case for case in CASES if case.name == name))
    outputs = {key: array * np.float16(1.08) for key, array in right(prepared).items()}
    assert not compare(prepared, outputs).conforms


@pytest.mark.parametrize("variant", ["linear x2", "cubic x2"])
def test_a_resize_whose_places_are_off_by_a_thousandth_deviates(variant):
    case = next(c for c in CASES if c.name == f"Resize {variant} fp32 medium")
    scales = case.ports[2]
    moved = msgspec.structs.replace(scales, values=(1.0, 1.0, 2.0001, 2.0001))
    other = prepare(msgspec.structs.replace(case, ports=(*case.ports[:2], moved)))
    assert not compare(prepare(case), right(other)).conforms
