"""Metrics of a result besides the ratio in dB: how many answers stay the same."""

import zlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from zipfile import BadZipFile

import msgspec
import numpy as np
from numpy.typing import NDArray

from edgeopt.data.judging.intervals import paired_changes, paired_drop_interval, share_interval
from edgeopt.data.judging.metric import (
    MAX_COUNTED,
    AccuracyMetric,
    Judged,
    Labels,
    Outputs,
    OutputValue,
    TokenAgreement,
    user_metric,
)
from edgeopt.data.samples import Samples
from edgeopt.data.split import spread
from edgeopt.errors import DataError, OptionReference, UsageError, error_text
from edgeopt.graph.accuracy import (
    RESAMPLES,
    SEED,
    Accuracy,
    Array,
    compare_outputs,
    lower_bound_db,
    snr_lower_bound,
)
from edgeopt.graph.levels import Level, Usual, by_level, tail_of
from edgeopt.nearest import nearest

Values = NDArray[np.float64]

_GROUP = 16
"""The number of resampled sets, as in `graph.accuracy`."""
_CONFIDENCE = 0.95
_BEST = 5
_LOGITS = "logits"
NAMES = ("label", "labels")


def _ratio(got: Outputs, reference: Outputs, _labels: Labels | None) -> Judged:
    return _ratio_of(compare_outputs(reference, got), len(got))


def _ratio_of(accuracy: Accuracy, samples: int) -> Judged:
    outputs = tuple(
        OutputValue(o.name, o.snr_db, snr_lower_bound(tuple(zip(o.noise_power, o.signal_power, strict=True))))
        for o in accuracy.outputs
    )
    return _worst("snr", outputs, samples, accuracy.problem or "")


def _cosine(got: Outputs, reference: Outputs, _labels: Labels | None) -> Judged:
    """Judges each sample and takes the mean, so that a sample of large values does not hide the others."""
    singles = [compare_outputs([expected], [result]) for expected, result in zip(reference, got, strict=True)]
    problem = next((f"{s.problem}" for s in singles if s.problem), "")
    values: dict[str, list[float]] = {}
    for single in singles:
        for output in single.outputs:
            values.setdefault(output.name, []).append(output.cosine)
    outputs = tuple(
        OutputValue(name, float(np.mean(v)), _resampled_mean(np.array(v))) for name, v in values.items()
    )
    return _worst("cosine", outputs, len(got), problem)


def _max_error(got: Outputs, reference: Outputs, _labels: Labels | None) -> Judged:
    """Judges the largest error, without an interval: resampling cannot predict that of other samples."""
    accuracy = compare_outputs(reference, got)
    outputs = tuple(OutputValue(o.name, o.max_abs, o.max_abs) for o in accuracy.outputs)
    return _worst("max-error", outputs, len(got), accuracy.problem or "", smaller_is_better=True)


def _top1(got: Outputs, reference: Outputs, _labels: Labels | None) -> Judged:
    return _agreement("top1", got, reference, 1)


def _top5(got: Outputs, reference: Outputs, _labels: Labels | None) -> Judged:
    return _agreement("top5", got, reference, _BEST)


def _agreement(name: str, got: Outputs, reference: Outputs, best: int) -> Judged:
    """Judges the share of equal best classes in each output with scores of classes in its last dimension."""
    problem = compare_outputs(reference, got).problem
    if problem:
        return _worst(name, (), len(got), problem)
    scores = [n for n, value in reference[0].items() if _is_scores(value, best + 1)]
    if not scores:
        raise UsageError(
            f"No output of the model has scores of at least {best + 1} classes in its last dimension, so "
            f"the metric '{name}' does not apply.",
            "Choose another metric: snr, cosine, max-error, or your own function.",
        )
    outputs = []
    for output in scores:
        pairs = zip(reference, got, strict=True)
        shares = np.array([_overlap(expected[output], result[output], best) for expected, result in pairs])
        outputs.append(OutputValue(output, float(shares.mean()), *share_interval(shares)))
    return _worst(name, tuple(outputs), len(got), "")


def _kl(got: Outputs, reference: Outputs, _labels: Labels | None) -> Judged:
    """Judges the divergence of the tokens' probabilities, over all positions; its interval is over texts."""
    name = (
        _LOGITS if _LOGITS in reference[0] else next((n for n, v in reference[0].items() if _is_scores(v, 2)), "")
    )
    if not name:
        raise UsageError(
            "No output has scores of tokens in its last dimension, so the metric 'kl' does not apply.",
            "Choose another metric: snr, cosine or max-error.",
        )
    sides = [[{name: run[name]} for run in side] for side in (reference, got)]
    problem = compare_outputs(*sides).problem
    if problem:
        return _worst("kl", (), len(got), problem, smaller_is_better=True)
    found = np.array([_token_sums(one[name], other[name]) for one, other in zip(*sides, strict=True)])
    draws = np.random.default_rng(SEED).integers(0, len(found), (RESAMPLES, len(found)))
    divergence, same, count = found.T
    kl, top1 = (float(sums.sum() / count.sum()) for sums in (divergence, same))
    several = count[draws].sum(axis=1)
    (least, most), (fewest, all_but) = (
        [float(np.quantile(sums[draws].sum(axis=1) / several, q)) for q in (0.025, 0.975)]
        for sums in (divergence, same)
    )
    means = divergence / count
    worst = int(means.argmax())
    agreement = TokenAgreement(top1, fewest, all_but, int(count.sum()), float(means[worst]), worst)
    output = OutputValue(name, kl, most, least)
    return Judged("kl", kl, most, len(got), True, (output,), high=least, tokens=agreement)


def _token_sums(expected: Array, result: Array) -> tuple[float, float, float]:
    """Returns the sum of the divergences, the number of equal best tokens, and the number of positions."""
    first, second = (_log_shares(side) for side in (expected, result))
    divergence = np.maximum((np.exp(first) * (first - second)).sum(axis=1), 0.0)
    same = first.argmax(axis=1) == second.argmax(axis=1)
    return float(divergence.sum()), float(same.sum()), float(len(first))


def _log_shares(scores: Array) -> Values:
    rows = scores.reshape(-1, scores.shape[-1]).astype(np.float64)
    rows -= rows.max(axis=1, keepdims=True)
    found: Values = rows - np.log(np.exp(rows).sum(axis=1, keepdims=True))
    return found


def _is_scores(value: object, classes: int) -> bool:
    if not isinstance(value, np.ndarray) or value.ndim == 0 or value.dtype.kind != "f":
        return False
    return bool(value.shape[-1] >= classes)


def _overlap(expected: Array, result: Array, best: int) -> float:
    """Returns the share of the source's best classes that are among the result's best."""
    first, second = _best_classes(expected, best), _best_classes(result, best)
    return float((first[:, :, None] == second[:, None, :]).any(axis=2).mean())


def _best_classes(scores: Array, best: int) -> NDArray[np.intp]:
    """Returns the indices of the best classes of each row; of equal scores the first, like argmax."""
    rows = scores.reshape(-1, scores.shape[-1])
    if best == 1:
        return np.asarray(rows.argmax(axis=1)[:, None])
    ordered: NDArray[np.intp] = np.argsort(-rows.astype(np.float64), axis=1, kind="stable")
    return ordered[:, :best]


def _top1_labels(got: Outputs, reference: Outputs, labels: Labels | None) -> Judged:
    problem = compare_outputs(reference, got).problem
    if labels is None:
        raise no_labels("The metric 'top1-labels' needs labels, and the data has none.")
    if problem:
        return _worst("top1-labels", (), len(got), problem)
    output = _scored_by(reference[0], labels)
    before, after = (
        np.array([_right(sample[output], label) for sample, label in zip(side, labels, strict=True)])
        for side in (reference, got)
    )
    value, source, changes = float(after.mean()), float(before.mean()), paired_changes(before, after)
    low, high = share_interval(after)
    drop_low, drop_high = paired_drop_interval(*changes, len(got))
    return Judged(
        *("top1-labels", value, low, len(got)),
        outputs=(OutputValue(output, value, low, high),),
        source=source,
        drop=source - value,
        drop_low=drop_low,
        drop_high=drop_high,
        changes=changes,
        high=high,
    )


def _scored_by(outputs: Mapping[str, Array], labels: Labels) -> str:
    """Returns the first output with a score for each class of the labels, and a row for each label of a sample."""
    rows, classes = max(1, labels[0].size), int(labels.max()) + 1
    for name, value in outputs.items():
        if _is_scores(value, max(2, classes)) and value.size // value.shape[-1] == rows:
            return name
    shapes = ", ".join(f"'{n}' {list(np.shape(v))}" for n, v in outputs.items())
    raise DataError(
        f"The labels go up to {classes - 1} with {rows} per sample, but no output has scores for them "
        f"(shapes: {shapes}).",
        "Classes count from 0, with their scores in an output's last dimension; or give your own function.",
    )


def _right(scores: Array, label: Labels) -> float:
    rows = scores.reshape(-1, scores.shape[-1])
    return float((rows.argmax(axis=1) == label.reshape(-1)).mean())


def _resampled_mean(values: Values) -> float:
    drawn = np.random.default_rng(SEED).integers(0, len(values), (RESAMPLES, _GROUP))
    return float(np.quantile(values[drawn].mean(axis=1), 1 - _CONFIDENCE, method="lower"))


def _worst(
    name: str, outputs: tuple[OutputValue, ...], samples: int, problem: str, smaller_is_better: bool = False
) -> Judged:
    if problem or not outputs:
        bad = np.inf if smaller_is_better else -np.inf
        reason = problem or "There are no outputs to compare."
        return Judged(name, bad, bad, samples, smaller_is_better, outputs, problem=reason)
    pick = max if smaller_is_better else min
    value, low = pick(o.value for o in outputs), pick(o.low for o in outputs)
    high = pick((o.high for o in outputs if o.high is not None), default=None)
    mean = float(np.mean([o.value for o in outputs])) if len(outputs) > 1 else None
    return Judged(name, value, low, samples, smaller_is_better, outputs, mean, high=high)


def no_labels(message: str) -> DataError:
    other = OptionReference("labels", "NAME")
    how = (
        "Labels are an array of class numbers in the data, one for each sample, that is not an input of the model"
    )
    return DataError(message, f"{how}: 'label' or 'labels', or any other with {other}.", [other])


# fmt: off
METRICS = (
    AccuracyMetric("snr", "ratio of signal to noise", _ratio, unit="dB", range=(0.0, 150.0)),
    AccuracyMetric("cosine", "cosine", _cosine, range=(-1.0, 1.0)),
    AccuracyMetric("max-error", "largest error", _max_error, smaller_is_better=True, decided_by_low=False,
           range=(0.0, float("inf"))),
    AccuracyMetric("top1", "top-1 agreement with the source", _top1, decided_by_low=False, is_counted=True,
           unit="%", most_samples=MAX_COUNTED),
    AccuracyMetric("top5", "top-5 agreement with the source", _top5, decided_by_low=False, is_counted=True,
           unit="%", most_samples=MAX_COUNTED),
    AccuracyMetric("kl", "Kullback-Leibler divergence from the source", _kl, smaller_is_better=True,
           range=(0.0, 100.0)),
    AccuracyMetric("top1-labels", "top-1 with labels", _top1_labels, needs_labels=True, has_source=True,
           decided_by_low=False, is_counted=True, unit="%", most_samples=MAX_COUNTED),
)
# fmt: on


def metric_named(name: str) -> AccuracyMetric:
    """Returns a metric of METRICS, or the user's own function; raises UsageError if there is none."""
    found = next((metric for metric in METRICS if metric.name == name), None)
    if found is not None:
        return found
    if ":" in name:
        return user_metric(name)
    known = tuple(metric.name for metric in METRICS)
    raise UsageError(
        f"There is no metric '{name}'.",
        f"{nearest(name, known)} Or give your own function: module:function, or file.py:function.",
    )


def judged_with_ratio(
    metric: AccuracyMetric,
    got: Outputs,
    reference: Outputs,
    labels: Labels | None,
    levels: Sequence[Level] = (),
    usual: Usual | None = None,
) -> Judged:
    """Returns the metric's value with the ratio in dB of the same outputs.

    With the levels of the samples' inputs, the ratio is that of the level where it is lowest: what holds over all
    samples together holds for the loudest.
    """
    accuracy = compare_outputs(reference, got)
    is_ratio = metric.name == "snr"
    judged = _ratio_of(accuracy, len(got)) if is_ratio else metric.judge(got, reference, labels)
    snr_db, low_db, found = accuracy.snr_db, lower_bound_db(accuracy), by_level(accuracy, levels)
    judged = msgspec.structs.replace(
        judged, snr_db=snr_db, low_db=low_db, pooled_low_db=low_db, tail=tail_of(accuracy, usual)
    )
    if not found:
        return judged
    weakest = min(found, key=lambda one: (one.low_db, one.snr_db))
    snr_db, low_db = min(snr_db, *(one.snr_db for one in found)), min(low_db, weakest.low_db)
    judged = msgspec.structs.replace(judged, snr_db=snr_db, low_db=low_db, weakest=weakest)
    return msgspec.structs.replace(judged, value=snr_db, low=low_db) if is_ratio else judged


def labels_for(
    metric: AccuracyMetric, data: Path | Mapping[str, Array] | None, samples: Samples, name: str = ""
) -> Labels | None:
    """Class numbers, or for a metric of the user's own whatever the data has; None where the metric takes none."""
    if data is None:
        if metric.needs_labels:
            raise DataError(f"The metric '{metric.name}' needs labels.", "Give data that has them, with --data.")
        return None
    if metric.needs_labels:
        found = _found(samples, name)
        return _class_numbers(labels_in(data, samples, found), found)
    if metric.has_source and (name or any(each in samples.ignored for each in NAMES)):
        return labels_in(data, samples, name)
    return None


def spread_samples(data: Path | Mapping[str, Array] | None, samples: Samples, name: str = "") -> NDArray[np.intp]:
    """Returns the order in which samples are split, with the classes of the data's labels in proportion."""
    named = [each for each in ((name,) if name else NAMES) if each in samples.ignored]
    labels = None
    if data is not None and named:
        with suppress(DataError):  # the metric complains of labels that it needs
            labels = labels_in(data, samples, named[0])
    return spread(len(samples), samples.sample_bytes, labels)


def labels_in(data: Path | Mapping[str, Array], samples: Samples, name: str = "") -> Labels:
    """Returns the labels of all samples after checking them; `data` is the source of the samples."""
    found = _found(samples, name)
    values = _read(data, found)
    if values.ndim == 0 or len(values) != len(samples):
        count = "no axis" if values.ndim == 0 else f"{len(values)} labels"
        raise DataError(
            f"The array '{found}' holds {count} for {len(samples)} samples.",
            "Give one label, or one row of labels, for each sample.",
        )
    return values


def _class_numbers(labels: Labels, name: str) -> Labels:
    if labels.dtype.kind == "b":
        labels = labels.astype(np.int64)
    if labels.dtype.kind not in "iuf":
        raise no_labels(f"The labels in '{name}' are of type {labels.dtype}, not numbers.")
    if not np.isfinite(labels).all() or (labels < 0).any() or (labels != np.floor(labels)).any():
        raise no_labels(f"The labels in '{name}' are not all whole numbers from 0.")
    return labels.astype(np.int64)


def _found(samples: Samples, name: str) -> str:
    others = ", ".join(f"'{each}'" for each in samples.ignored)
    beside = f"besides the inputs it has {others}" if others else "it has only the model's inputs"
    if name:
        if name in samples.ignored:
            return name
        if name in samples.arrays:
            raise no_labels(f"'{name}' is an input of the model, not labels.")
        raise no_labels(f"The data has no array '{name}'; {beside}.")
    known = [each for each in NAMES if each in samples.ignored]
    if not known:
        raise no_labels(f"The data has no array 'label' or 'labels'; {beside}.")
    return known[0]


def _read(data: Path | Mapping[str, Array], name: str) -> Array:
    if isinstance(data, Mapping):
        return np.asarray(data[name])
    try:
        if data.is_dir():
            return np.asarray(np.load(data / f"{name}.npy", allow_pickle=False))
        with np.load(data, allow_pickle=False) as archive:
            return np.asarray(archive[name])
    except (OSError, ValueError, EOFError, KeyError, BadZipFile, zlib.error) as error:
        raise no_labels(f"The labels '{name}' cannot be read: {error_text(error)}") from error
