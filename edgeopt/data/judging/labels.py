"""Labels: an array in the user's data that is not an input of the model."""

import zlib
from collections.abc import Mapping
from pathlib import Path
from zipfile import BadZipFile

import numpy as np

from edgeopt.data.judging.metric import Labels, Metric
from edgeopt.data.judging.metrics import no_labels
from edgeopt.data.samples import Samples
from edgeopt.errors import DataError, said_by
from edgeopt.graph.accuracy import Array

NAMES = ("label", "labels")


def labels_for(
    metric: Metric, data: Path | Mapping[str, Array] | None, samples: Samples, name: str = ""
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


def labels_in(data: Path | Mapping[str, Array], samples: Samples, name: str = "") -> Labels:
    """Those of all samples, checked; `data` is what the samples were read from."""
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
        raise no_labels(f"The labels '{name}' cannot be read: {said_by(error)}") from error
