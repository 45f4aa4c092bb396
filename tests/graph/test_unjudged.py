import numpy as np
import pytest

from edgeopt.graph.accuracy import compare_outputs
from edgeopt.graph.unjudged import equality_text, unjudged_outputs

NAN = float("nan")


@pytest.mark.parametrize(
    ("outputs", "expected"),
    [
        ([[], []], "The output 'y' holds no values on all samples"),
        ([[NAN, NAN], [NAN, float("inf")]], "The output 'y' is NaN or infinity everywhere,"),
        ([[0, 0], [0, 0]], "The output 'y' is almost zero on all samples"),
        ([[1, NAN], [2, 3]], "The output 'y' holds 1 NaN or infinite values of 4 on the samples"),
        ([[0.5, -1e9, 0.25]], "The output 'y' has values of up to 1e+09, and 67 % of its values are less than"),
        ([[1, 2], [1, 2], [1, 2]], "The output 'y' is the same on all 3 samples"),
        ([[1, 2]], None),
        ([[1, 2], [1, 3]], None),
    ],
    ids=["empty", "all NaN", "zero", "some NaN", "mask", "constant", "one sample", "ordinary"],
)
def test_outputs_that_show_no_accuracy_are_named_with_the_reason(outputs, expected):
    warnings = unjudged_outputs([{"y": np.array(one, np.float32)} for one in outputs])
    assert len(warnings) == (expected is not None)
    assert not expected or warnings[0].startswith(expected)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1, 2], "Equal in every value here"),
        ([1, NAN, float("inf")], "Equal in every finite value here; 2 values are NaN or infinite in both"),
        ([1, NAN], "Equal in every finite value here; 1 value is NaN or infinite in both"),
        ([NAN, NAN], "All outputs are NaN, infinite, empty or zero here, which does not show"),
        ([], "All outputs are NaN, infinite, empty or zero here, which does not show"),
        ([0, 0], "All outputs are NaN, infinite, empty or zero here, which does not show"),
    ],
)
@pytest.mark.parametrize("stored", [False, True], ids=["fresh", "without samples"])
def test_equality_claims_no_more_than_the_values_show(values, expected, stored):
    answers = [{"y": np.array(values, np.float32)}]
    outputs = compare_outputs(answers, answers).outputs
    if stored:
        outputs = [each.without_samples() for each in outputs]
    assert equality_text(outputs, "here").startswith(expected)
