"""How each variant of a model is made; the target profile's precision ladder names them."""

from collections.abc import Callable
from dataclasses import dataclass

from edgeopt.data import Samples
from edgeopt.graph.ledger import Ledger
from edgeopt.profiles import BACKENDS
from edgeopt.search.kitchen import Kitchen
from edgeopt.search.plans import Plans

# Which of them are tried is said by the profile, and by what is installed.
ORT = tuple(name for name in BACKENDS if name.startswith("onnxruntime-"))
OPENVINO = tuple(name for name in BACKENDS if name.startswith("openvino-"))
PLANNED = "planned"


@dataclass(frozen=True, slots=True)
class Recipe:
    """One way to make a variant; `make` writes `kitchen.out` and returns the ledger of what it did.

    One that makes a variant for each backend in one go returns them all.
    """

    name: str
    title: str
    file: str
    backends: tuple[str, ...]
    make: Callable[[Kitchen], Ledger | Plans]
    needs: tuple[str, ...]
    """Import packages that it works with."""
    exact: bool = False
    """It changes the form of the computation, not its precision."""
    by_backend: bool = False
    """It is made for each backend apart, by what the profile lists for that."""
    needs_data: bool = False
    """It calibrates, or its accuracy can only be judged on real data."""
    uniform: bool = False
    """One precision for all layers, which a plan looks at too: made only where there is no plan."""
    numeric: str = "precision"
    """The runtime option that changes its numbers: every value of it is a candidate of its own."""


def _source(_: Kitchen) -> Ledger:
    """Nothing to make: the backends read the source file itself."""
    return ()


def _cleaned(kitchen: Kitchen) -> Ledger:
    from edgeopt.search.cleaning import clean

    return clean(kitchen)


def _lowered(kitchen: Kitchen) -> Ledger:
    from edgeopt.search.lowering import lower

    return lower(kitchen)


def _planned(kitchen: Kitchen) -> Plans:
    from edgeopt.search.planning import plan

    return plan(kitchen)


def _ort_static(kitchen: Kitchen) -> Ledger:
    from edgeopt.quant.qdq import quantize_static

    quantize_static(kitchen.base, _calibration(kitchen), kitchen.settings, kitchen.out)
    return ()


def _ort_dynamic(kitchen: Kitchen) -> Ledger:
    from edgeopt.quant.dynamic import quantize_dynamic

    quantize_dynamic(kitchen.base, kitchen.settings, kitchen.out)
    return ()


def _nncf_int8(kitchen: Kitchen) -> Ledger:
    from edgeopt.quant.nncf_int8 import quantize

    quantize(kitchen.base, _calibration(kitchen), kitchen.out, kitchen.transformer)
    return ()


def _nncf_weights(kitchen: Kitchen) -> Ledger:
    from edgeopt.quant.weights import compress

    compress(kitchen.base, kitchen.out)
    return ()


def _calibration(kitchen: Kitchen) -> Samples:
    assert kitchen.calibration is not None  # noqa: S101 - recipes that calibrate are only tried with data
    return kitchen.calibration


# In the order in which they are made: what others start from first, what takes long last.
RECIPES = (
    Recipe("source", "the model as it came", "", ORT + OPENVINO, _source, (), exact=True),
    Recipe("cleaned", "exact graph rewrites", "model.onnx", ORT + OPENVINO, _cleaned, ("onnx_ir",), exact=True),
    Recipe(
        "lowered",
        "forms that only one runtime knows",
        "model.onnx",
        ORT + OPENVINO,
        _lowered,
        ("onnx_ir",),
        exact=True,
        by_backend=True,
    ),
    Recipe(
        PLANNED,
        "each layer in the precision that pays",
        "model.onnx",
        ORT + OPENVINO,
        _planned,
        ("onnxruntime", "onnx_ir"),
        needs_data=True,
    ),
    Recipe(
        "ort-static-int8",
        "8-bit weights and activations (ONNX Runtime, QDQ)",
        "model.onnx",
        ORT,
        _ort_static,
        ("onnxruntime", "onnx"),
        needs_data=True,
        uniform=True,
    ),
    Recipe(
        "ort-dynamic-int8",
        "8-bit weights, activations quantized at run time (ONNX Runtime)",
        "model.onnx",
        ORT,
        _ort_dynamic,
        ("onnxruntime", "onnx"),
        needs_data=True,
        uniform=True,
    ),
    Recipe(
        "nncf-w8",
        "8-bit weights (NNCF), activations quantized by groups at run time",
        "model.xml",
        OPENVINO,
        _nncf_weights,
        ("nncf", "openvino"),
        needs_data=True,
        uniform=True,
        numeric="dynamic_quantization_group_size",
    ),
    Recipe(
        "nncf-int8",
        "8-bit weights and activations (NNCF)",
        "model.xml",
        OPENVINO,
        _nncf_int8,
        ("nncf", "openvino"),
        needs_data=True,
        uniform=True,
    ),
)


def place_of(name: str) -> int:
    """The place of a recipe in the list: simple ones come first."""
    return [r.name for r in RECIPES].index(name)


def recipe_named(name: str) -> Recipe:
    return next(r for r in RECIPES if r.name == name)
