"""Warnings about outputs that show no accuracy, because they are equal in a wrong model too."""

from collections.abc import Mapping, Sequence

import numpy as np

from edgeopt.graph.accuracy import MASK_FACTOR, OutputAccuracy, compare_outputs, flat

NO_VALUES = "all outputs are NaN, infinite, empty or zero"
"""Outputs for which `show_accuracy` is False, in words."""
_FEWEST_HIDDEN = 0.1
"""Least share of small values beside a mask that is worth a warning."""


def unjudged_outputs(answers: Sequence[Mapping[str, np.ndarray]]) -> list[str]:
    """Returns warnings about outputs of the source model whose values show the accuracy in part or not at all."""
    flattened = [flat(one) for one in answers]
    found = []
    for output in compare_outputs(answers, answers).outputs:
        values = [one[output.name] for one in flattened if output.name in one]
        why = _unjudged(output, values)
        if why is None and output.name in answers[0] and _is_constant(values):
            why = f"is the same on all {len(values)} samples, so its accuracy is that of a single result."
        if why:
            found.append(f"The output '{output.name}' {why}")
    return found


def _unjudged(output: OutputAccuracy, values: Sequence[np.ndarray]) -> str | None:
    size = sum(np.size(one) for one in values)
    if not size:
        return "holds no values on all samples, so nothing of it is compared."
    if output.not_finite == size:
        return "is NaN or infinity everywhere, so it cannot show the accuracy. Check the model and the data."
    if output.silent:
        return "is almost zero on all samples, so it cannot show the accuracy. Check the model and the data."
    if output.not_finite:
        return (
            f"holds {output.not_finite:,} NaN or infinite values of {size:,} on the samples: the accuracy is that "
            "of the others."
        )
    if output.counted:
        return None
    sizes = np.abs(np.concatenate([np.ravel(one) for one in values]).astype(np.float64))
    largest, sizes = float(sizes.max()), sizes[sizes > 0]
    hidden = float(np.mean(sizes < largest / MASK_FACTOR))
    if largest >= MASK_FACTOR and hidden >= _FEWEST_HIDDEN:
        return (
            f"has values of up to {largest:.3g}, and {100 * hidden:.0f} % of its values are less than a "
            f"{MASK_FACTOR:,}th of that. If the large ones are equal in both models, the ratio in dB is that of "
            "the others; if not, it hardly shows errors of the others."
        )
    return None


def _is_constant(values: Sequence[np.ndarray]) -> bool:
    return len(values) > 1 and all(np.array_equal(one, values[0]) for one in values)


def show_accuracy(outputs: Sequence[OutputAccuracy]) -> bool:
    """Whether any output has values to compare with; if none has, even equal outputs prove nothing."""
    return not outputs or any(not output.silent for output in outputs)


def equality_text(outputs: Sequence[OutputAccuracy], where: str) -> str:
    """Returns what equal outputs show, as a sentence without its full stop; `where` names the samples."""
    if not show_accuracy(outputs):
        return f"{NO_VALUES[:1].upper()}{NO_VALUES[1:]} {where}, which does not show that the models agree"
    if odd := sum(output.not_finite for output in outputs):
        values = "1 value is" if odd == 1 else f"{odd:,} values are"
        return f"Equal in every finite value {where}; {values} NaN or infinite in both"
    return f"Equal in every value {where}"
