"""How each variant of a model is made; the target profile's precision ladder names them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from edgeopt.backends import NAMES
from edgeopt.graph.ledger import Ledger
from edgeopt.quant.forms import FORMS
from edgeopt.quant.measured.planning.entry import GROUPED
from edgeopt.quant.measured.timing.courses import GROUPS
from edgeopt.search.making.plans import PLANNED, Plans
from edgeopt.search.making.task import Task

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
    make: Callable[[Task], Ledger | Plans]
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
    to_floor: bool = False
    """It is made to hold the accuracy floor, and made again for another floor."""
    uniform: bool = False
    """One form for all layers, which a plan looks at too: made only where there is no plan."""
    numeric: str = "precision"
    """The runtime option that changes its numbers: every value of it is a candidate of its own."""


def _source(_: Task) -> Ledger:
    """Nothing to make: the backends read the source file itself."""
    return ()


def _cleaned(task: Task) -> Ledger:
    from edgeopt.search.making.cleaning import clean

    return clean(task)


def _lowered(task: Task) -> Ledger:
    from edgeopt.search.making.lowering import lower

    return lower(task)


def _planned(task: Task) -> Plans:
    from edgeopt.search.making.planning import plan

    return plan(task)


def _whole(name: str, task: Task) -> Ledger | Plans:
    from edgeopt.search.making import whole as library_recipes

    make: Callable[[Task], Ledger | Plans] = getattr(library_recipes, name)
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


def _in_one_form(form: str, task: Task) -> Plans:
    from edgeopt.search.making.forming import form_all

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
    Recipe(
        "bf16-mixed",
        "bf16, with float32 where bf16 is too inaccurate",
        "model.xml",
        ("openvino-cpu",),
        partial(_whole, "mixed_floats"),
        ("openvino",),
        needs_data=True,
        whole=True,
        to_floor=True,
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
        for form in FORMS
    ),
)


def place_of(name: str) -> int:
    """The place of a recipe in the list: simple ones come first."""
    return [r.name for r in RECIPES].index(name)


def recipe_named(name: str) -> Recipe:
    return next(r for r in RECIPES if r.name == name)
