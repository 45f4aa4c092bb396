"""`onnx`: the model alone, with its external data; what made it fast is said beside it."""

from pathlib import Path

from edgeopt.backends.protobuf import GRAPH, opened, parts, text
from edgeopt.commands.export.base import Format, Made, Order, refuse
from edgeopt.commands.export.checking import check_model
from edgeopt.commands.export.models import copy_model
from edgeopt.commands.export.settings import option_text, options_text

NAME = "onnx"
_NODE, _DOMAIN = 1, 7  # in GraphProto, in NodeProto


def write(order: Order, folder: Path) -> Made:
    if order.bundle.model.suffix != ".onnx":
        raise refuse(
            order,
            NAME,
            f"its model is '{order.bundle.model.name}', which is no ONNX",
            "Use --to openvino-ir, or export the bundle that it was made from.",
        )
    model = copy_model(order, folder, f"{order.file_name}.onnx")
    made = Made(use=[_bench(order, model.name)])
    made.notes.append(
        f"A model file holds no options. This one was proved with {order.backend} and {options_text(order)}; "
        "with others it may be slower or less exact."
    )
    own = sorted(domains(model) - {"", "ai.onnx", "ai.onnx.ml"})
    if own:
        made.notes.append(f"It holds operators of {', '.join(own)}, which other runtimes may not know.")
    check_model(order, made, model, order.backend, order.bundle.deployment.run.options)
    return made


def domains(model: Path) -> set[str]:
    """Whose operators the main graph of a model holds."""
    with opened(model) as data:
        return {
            text(data, domain)
            for graph in parts(data, (0, len(data)), (GRAPH,))
            for node in parts(data, graph, (_NODE,))
            for domain in parts(data, node, (_DOMAIN,))
        }


def _bench(order: Order, file: str) -> str:
    options = order.bundle.deployment.run.options
    # Shapes are a table, which no --option can write.
    words = [
        f"--option {name}={option_text(value)}" for name, value in options.items() if not isinstance(value, dict)
    ]
    return " ".join([f"edgeopt bench {file} --backend {order.backend}", *words])


FORMAT = Format(NAME, "The model alone as ONNX, with its external data", write)
