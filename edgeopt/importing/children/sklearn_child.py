"""Exporter of estimators and pipelines of scikit-learn, with skl2onnx."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from edgeopt.importing.children.child import Feeds, Input, Job

NEEDS = (("sklearn", "scikit-learn"), ("joblib", "joblib"), ("skl2onnx", "skl2onnx"))
OPSET = 17
ML = {"ai.onnx.ml": 3}
"""Operator set of tree ensembles: newer versions are not converted from all models."""
DRAWS, TIE = 20, 1e-5
MADE_BY = {
    "label": ("predict",),
    "output_label": ("predict",),
    "probabilities": ("predict_proba", "decision_function"),
    "output_probability": ("predict_proba", "decision_function"),
    "scores": ("decision_function", "score_samples", "transform"),
    "variable": ("predict", "transform"),
}
"""Methods of an estimator that give what skl2onnx gives these names; the first one that exists is used."""


def version() -> str:
    import sklearn

    return f"scikit-learn {sklearn.__version__}"


def load(job: Job) -> Any:
    import joblib

    try:
        found = joblib.load(job.place)
    except ModuleNotFoundError:
        raise
    except Exception as error:
        job.refuse(
            "bad-model",
            f"The pickle cannot be opened: {job.reason(error)}.",
            "Copy it again, and use the version of scikit-learn that saved it.",
        )
    if not hasattr(found, "fit") or not any(hasattr(found, name) for name in ("predict", "transform")):
        job.refuse(
            "bad-model",
            f"The pickle holds an object of type {type(found).__name__}, not an estimator.",
            "Save the fitted estimator or pipeline itself with joblib.dump.",
        )
    if not hasattr(found, "n_features_in_"):
        job.refuse("bad-model", f"The {type(found).__name__} is not fitted.", "Fit it before saving it.")
    return found


def inputs(original: Any, job: Job) -> list[Input]:
    count = int(original.n_features_in_)
    job.dims = {"X": {0: "batch"}}
    middle, spread = _distribution(original, count)
    shape = job.shapes.get("X", [1, count])

    def draw(random: Any) -> Any:
        for _ in range(DRAWS):
            drawn = (random.standard_normal(shape) * spread + middle).astype(np.float32)
            if not _is_tied(original, drawn.astype(np.float64)):
                break
        return drawn

    return [job.Input("X", "float32", shape, draw=draw)]


def _is_tied(original: Any, drawn: Any) -> bool:
    """Whether two classes are equally likely, so that rounding decides the label."""
    if not hasattr(original, "predict_proba"):
        return False
    first, second = np.sort(np.asarray(original.predict_proba(drawn)), axis=-1)[..., -1:-3:-1].T
    return bool((np.abs(first - second) < TIE).any())


def _distribution(original: Any, count: int) -> tuple[Any, Any]:
    """Returns the middle and spread of each feature, from the model's scaler or the thresholds of its trees."""
    steps = [step for _, step in getattr(original, "steps", [])] or [original]
    first = steps[0]
    middle, spread = np.zeros(count), np.ones(count)
    if getattr(first, "scale_", None) is not None and getattr(first, "mean_", None) is not None:
        return first.mean_, first.scale_
    trees: list[Any] = [
        one.tree_ for one in np.ravel(getattr(first, "estimators_", [first])) if hasattr(one, "tree_")
    ]
    for feature in range(count):
        found = np.concatenate([tree.threshold[tree.feature == feature] for tree in trees] or [np.zeros(0)])
        if found.size:
            middle[feature], spread[feature] = found.mean(), found.std() or 1.0
    return middle, spread


def run(original: Any, feeds: Feeds, job: Job) -> Feeds:
    """Returns the estimator's answers by method; after the export, by output of the ONNX model."""
    methods = list(dict.fromkeys(job.renamed.values())) or _methods(original)
    answers = {method: np.asarray(getattr(original, method)(feeds["X"].astype(np.float64))) for method in methods}
    found = {name: answers[method] for name, method in job.renamed.items()} or answers
    return {name: _plain(array, job.ranks.get(name, array.ndim)) for name, array in found.items()}


def caller(original: Any, feeds: Feeds, job: Job) -> Any:
    """Returns a call of the method that gives most: labels follow from probabilities, without a second pass."""
    method, features = getattr(original, mode(original, job)), feeds["X"].astype(np.float64)
    return lambda: method(features)


def mode(original: Any, job: Job) -> str:  # noqa: ARG001
    order = ("predict_proba", "decision_function", "predict", "transform")
    return next(name for name in order if hasattr(original, name))


def _plain(array: Any, rank: int) -> Any:
    """Returns the answer as the ONNX model gives it: texts as such, and one number a sample as a column."""
    array = array.astype(str) if array.dtype.kind == "O" else array
    return array.reshape(-1, 1) if (array.ndim, rank) == (1, 2) else array


def _methods(original: Any) -> list[str]:
    known = dict.fromkeys(method for methods in MADE_BY.values() for method in methods)
    return [method for method in known if hasattr(original, method)]


def unsteady(original: Any, feeds: Feeds, job: Job) -> tuple[str, str]:  # noqa: ARG001
    return "it draws random numbers", "Fix its random state before saving it."


def export(original: Any, example: Feeds, outputs: list[str], job: Job) -> str:  # noqa: ARG001
    import skl2onnx

    options = {id(original): {"zipmap": False}} if hasattr(original, "classes_") else None
    try:
        model = skl2onnx.to_onnx(
            original, example["X"], options=options, target_opset={"": job.opset or OPSET, **ML}
        )
    except Exception as error:
        job.refuse(
            "bad-model",
            f"skl2onnx cannot convert the {type(original).__name__}: {job.reason(error)}.",
            "Try its newest version; or convert the model with another tool and import its .onnx file.",
        )
    ranks = [(value.name, len(value.type.tensor_type.shape.dim)) for value in model.graph.output]
    name_outputs(original, ranks, job)
    for name, _ in ranks:
        if name not in job.renamed:
            job.refuse("bad-model", f"The output '{name}' belongs to no method of {type(original).__name__}.")
    (job.folder / "exported.onnx").write_bytes(model.SerializeToString())
    return f"skl2onnx {skl2onnx.__version__}"


def name_outputs(original: Any, outputs: list[tuple[str, int]], job: Job) -> None:
    """Records the method that makes each output of an ONNX model, by its name and rank."""
    known = _methods(original)
    for name, rank in outputs:
        for method in MADE_BY.get(name.rstrip("0123456789"), ()):
            if method in known:
                job.renamed[name], job.ranks[name] = method, rank
                break


def layers(original: Any, feeds: Feeds, job: Job) -> dict[str, tuple[str, Any]]:  # noqa: ARG001
    """Returns no layers: skl2onnx does not keep the names of a pipeline's steps."""
    return {}
