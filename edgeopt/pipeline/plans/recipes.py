"""How each variant of a model is made; the target profile's precision ladder names them."""

import importlib.util
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import msgspec

from edgeopt.backends import NAMES
from edgeopt.data.split import Split
from edgeopt.graph.ledger import Ledger
from edgeopt.pipeline.build.cleaning import NONE_LISTED, Lowered, lowered_variants
from edgeopt.pipeline.build.messages import PLANNED, BuildTask, Make, Planning, Plans
from edgeopt.profiles import TargetProfile
from edgeopt.quant.measured.planning.entry import GROUPED
from edgeopt.quant.measured.timing.courses import GROUPS
from edgeopt.quant.records import QuantSettings
from edgeopt.quant.schemes import SCHEMES

# Which of them are tried is said by the profile, and by what is installed.
ORT = tuple(name for name in NAMES if name.startswith("onnxruntime-"))
OPENVINO = tuple(name for name in NAMES if name.startswith("openvino-"))
# They calibrate nothing, and a screen on made-up inputs tells whether a value left their range.
_FLOATS = frozenset({"fp16", "bf16"})


Unsuited = Callable[[Mapping[str, int]], str]
"""Why a recipe gains nothing on a model with these operators; empty where it may."""


def _suits_all(_operators: Mapping[str, int]) -> str:
    return ""


@dataclass(frozen=True, slots=True)
class Recipe:
    """One way to make a variant; `make` writes `task.out` and returns the ledger of what it did.

    One that makes a variant for each backend in one go returns them all.
    """

    name: str
    title: str
    file: str
    backends: tuple[str, ...]
    make: Callable[[BuildTask], Ledger | Plans]
    needs: tuple[str, ...]
    """Import packages that it works with."""
    exact: bool = False
    """It changes the form of the computation, not its precision."""
    by_backend: bool = False
    """It is made for each backend apart, by what the profile lists for that."""
    needs_data: bool = False
    """It calibrates, or its accuracy can only be judged on real data."""
    whole: bool = False
    """A library's own way with the whole model: made soon, as it takes seconds."""
    unsuited: Unsuited = _suits_all
    uniform: bool = False
    """One form for all layers, which a plan looks at too: made only where there is no plan."""
    numeric: str = "precision"
    """The runtime option that changes its numbers: every value of it is a candidate of its own."""


def _source(_: BuildTask) -> Ledger:
    """Nothing to make: the backends read the source file itself."""
    return ()


def _cleaned(task: BuildTask) -> Ledger:
    from edgeopt.pipeline.build.cleaning import clean

    return clean(task)


def _lowered(task: BuildTask) -> Ledger:
    from edgeopt.pipeline.build.cleaning import lower

    return lower(task)


def _planned(task: BuildTask) -> Plans:
    from edgeopt.pipeline.build.planning import plan

    return plan(task)


def _whole(name: str, task: BuildTask) -> Ledger | Plans:
    from edgeopt.pipeline.build import cleaning as library_recipes

    make: Callable[[BuildTask], Ledger | Plans] = getattr(library_recipes, name)
    return make(task)


def _without_attention(operators: Mapping[str, int]) -> str:
    is_attention = "Attention" in operators or ("Softmax" in operators and operators.get("MatMul", 0) > 1)
    return "" if is_attention else "the model has no attention"


def _without_products(operators: Mapping[str, int]) -> str:
    return "" if {"MatMul", "Gemm", "Attention", "LSTM"} & operators.keys() else "the model has no matrix products"


def _with_more_convolutions(operators: Mapping[str, int]) -> str:
    products = operators.get("MatMul", 0) + operators.get("Gemm", 0)
    return "" if products > operators.get("Conv", 0) else "the model has more convolutions than matrix products"


def _by_nncf(name: str, title: str, make: str, unsuited: Unsuited = _suits_all) -> Recipe:
    made, needs = partial(_whole, make), ("nncf", "openvino")
    return Recipe(name, title, "model.xml", OPENVINO, made, needs, needs_data=True, whole=True, unsuited=unsuited)


def _by_onnxruntime(name: str, title: str, make: str, unsuited: Unsuited = _suits_all) -> Recipe:
    made, needs = partial(_whole, make), ("onnxruntime", "onnx")
    return Recipe(name, title, "model.onnx", ORT, made, needs, needs_data=True, whole=True, unsuited=unsuited)


def _in_one_form(form: str, task: BuildTask) -> Plans:
    from edgeopt.pipeline.build.planning import form_all

    return form_all(task, form)


# In the order in which they are made: what others start from first, what takes long last.
RECIPES = (
    Recipe("source", "the source model", "", ORT + OPENVINO, _source, (), exact=True),
    Recipe("cleaned", "exact graph rewrites", "model.onnx", ORT + OPENVINO, _cleaned, ("onnx_ir",), exact=True),
    Recipe(
        "lowered",
        "operators specific to one runtime",
        "model.onnx",
        ORT + OPENVINO,
        _lowered,
        ("onnx_ir",),
        exact=True,
        by_backend=True,
    ),
    _by_nncf("nncf-int8", "all layers in int8, by NNCF", "by_nncf"),
    _by_nncf(
        "nncf-transformer",
        "all layers in int8, by NNCF with transformer settings",
        "by_nncf_for_transformers",
        _without_attention,
    ),
    _by_onnxruntime(
        "ort-dynamic",
        "matrix products and recurrent layers in int8, by ONNX Runtime",
        "dynamic_by_onnxruntime",
        _without_products,
    ),
    _by_nncf("nncf-weights", "all weights in int8, by NNCF", "weights_by_nncf", _with_more_convolutions),
    _by_onnxruntime("ort-int8", "all layers in int8, by ONNX Runtime", "by_onnxruntime"),
    Recipe(
        PLANNED,
        "the fastest accurate precision for each layer",
        "model.onnx",
        ORT + OPENVINO,
        _planned,
        ("onnxruntime", "onnx_ir"),
        needs_data=True,
    ),
    *(
        Recipe(
            form.name,
            form.title,
            "model.onnx",
            form.backends,
            partial(_in_one_form, form.name),
            ("onnxruntime", "onnx_ir"),
            needs_data=form.name not in _FLOATS,
            uniform=True,
            numeric=GROUPS if form.name == GROUPED else "precision",
        )
        for form in SCHEMES
    ),
)


def place_of(name: str) -> int:
    """The place of a recipe in the list: simple ones come first."""
    return [r.name for r in RECIPES].index(name)


def recipe_named(name: str) -> Recipe:
    return next(r for r in RECIPES if r.name == name)


@dataclass(frozen=True, slots=True)
class BuildInputs:
    """What all variants of one search are made of."""

    model: Path
    size_bytes: int
    samples_path: Path
    """Of one size, while those of the trials may be of several."""
    split: Split
    of_user: bool
    """The samples are the user's, not generated."""
    profile: TargetProfile
    kept: float
    """Of the places in the data, the share that is no padding."""
    passes: tuple[str, ...]
    operators: Mapping[str, int]
    """How many of each the model has."""
    folder: Path
    """Where they are made, each in a folder of its own."""


def why_not(recipe: Recipe, material: BuildInputs) -> str:
    """Why this one cannot be made here; empty where it can."""
    if recipe.needs_data and not material.of_user:
        return "needs data to calibrate or to check it"
    if recipe.needs_data and not material.split.calibration_count:
        return "too few samples to calibrate and check on different ones"
    if unsuited := recipe.unsuited(material.operators):
        return unsuited
    if material.split.is_shared and recipe.name == PLANNED and material.of_user:
        return "too few samples to plan and prove on different ones; give 12 or more"
    if recipe.by_backend and not lowered_variants(material.profile):
        return NONE_LISTED
    if not backends_of(recipe, material.profile):
        return "no backend of the profile computes it faster than float"
    missing = [package for package in recipe.needs if importlib.util.find_spec(package) is None]
    return f"the Python package '{missing[0]}' is not installed" if missing else ""


def backends_of(recipe: Recipe, profile: TargetProfile) -> tuple[str, ...]:
    """Those that the recipe is for and the profile knows."""
    return tuple(name for name in profile.backends.order if name in recipe.backends)


def jobs(material: BuildInputs, name: str, base_of: Callable[[str], Path]) -> list[Make]:
    """One, but where a recipe is made for each backend apart; `base_of`: what each backend's starts from."""
    recipe = recipe_named(name)
    if recipe.by_backend:
        return [job(material, name, base_of(one.backends[0]), one) for one in lowered_variants(material.profile)]
    groups = by_base(backends_of(recipe, material.profile), base_of)
    if len(groups) == 1:
        return [job(material, name, base) for base in groups]
    return [job(material, name, base, backends=backends) for base, backends in groups.items()]


def by_base(backends: Iterable[str], base_of: Callable[[str], Path]) -> dict[Path, tuple[str, ...]]:
    """The backends that start from the same file; most often all of them."""
    groups: dict[Path, tuple[str, ...]] = {}
    for backend in dict.fromkeys(backends):
        groups[base_of(backend)] = (*groups.get(base_of(backend), ()), backend)
    return groups


def job(
    material: BuildInputs,
    name: str,
    base: Path,
    lowered: Lowered | None = None,
    planning: Planning | None = None,
    backends: tuple[str, ...] = (),
) -> Make:
    """`backends`: those that it is made for, where others have one of the same name."""
    folder = material.folder / (f"{name}-{backends[0]}" if backends else name)
    split, recipe = material.split, recipe_named(name)
    out = (folder / lowered.backends[0] if lowered else folder) / recipe.file
    out.parent.mkdir(parents=True)
    quantization = msgspec.convert(msgspec.to_builtins(material.profile.quantization), QuantSettings)
    uniform = backends_of(recipe, material.profile) if recipe.uniform else ()
    return Make(
        recipe=name,
        source_path=str(material.model.absolute()),
        base_path=str(base.absolute()),
        out_path=str(out),
        samples_path=str(material.samples_path),
        check_first=split.check_first,
        check_count=split.check_count,
        calibration_count=split.calibration_count,
        settings=quantization,
        passes=material.passes if name == "cleaned" else None,
        backends=lowered.backends if lowered else backends or uniform,
        lowerings=lowered.lowerings if lowered else (),
        planning=planning,
    )


def title_of(job: Make) -> str:
    return Lowered(job.backends, job.lowerings).title if job.lowerings else recipe_named(job.recipe).title
