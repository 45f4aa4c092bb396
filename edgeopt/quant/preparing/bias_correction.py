"""Takes the mean error that rounding adds to each channel of a product off its bias.

Rounded weights give a channel that is a little too large or small on average, and what follows sees that as a
shift in all places alike. The mean is found on samples that calibrate, with the float model's own inputs; where
samples differ much over it, less of it is taken off. The result is right only for the forms that it was made for.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from edgeopt.backends.base import Array
from edgeopt.data.samples import Samples
from edgeopt.errors import UsageError
from edgeopt.events import Emit, Progress, ignore
from edgeopt.graph.ledger import Change, Refusal
from edgeopt.graph.nodes import constant, is_op, quiet
from edgeopt.graph.passes.base import plural
from edgeopt.quant.forms import Form, FormContext, form_named
from edgeopt.quant.layers import PRODUCTS, nodes_by_key
from edgeopt.quant.preparing.base import Prepared
from edgeopt.quant.records import FLOAT, Layer

if TYPE_CHECKING:
    import onnx_ir as ir

    from edgeopt.quant.forms.writer import Writer

PHASE = "correcting biases"
# With the activations of one sample alone, what is taken for the mean is mostly that sample.
FEWEST_SAMPLES = 4
Use = tuple[Layer, Form, str]


def bias_correction(
    model: "ir.Model",
    layers: Sequence[Layer],
    choices: Mapping[str, str],
    context: FormContext,
    samples: Samples,
    emit: Emit = ignore,
) -> Prepared:
    """The float model with the biases that these choices want; for `write` with the same choices and context."""
    uses = list(_uses(layers, choices))
    if len(samples) < FEWEST_SAMPLES:
        why = f"{plural(len(samples), 'sample')} are too few for a mean: it needs {FEWEST_SAMPLES}"
        return Prepared(model.clone(), (), (Refusal(why, tuple(key for _, _, key in uses)),) if uses else ())
    return corrected(model, _means(model, uses, context, samples, emit))


def corrected(model: "ir.Model", means: Mapping[str, Array]) -> Prepared:
    """The float model without these mean errors, by node; UsageError for nodes that it does not have."""
    from edgeopt.quant.forms.writer import Writer

    copy = model.clone()
    nodes, writer = nodes_by_key(copy.graph), Writer(copy.graph)
    done: dict[str, Array] = {}
    refused = []
    for key, mean in means.items():
        if key not in nodes:
            raise UsageError(
                f"There is no node '{key}' in this model.", "It is another model, or another edgeopt."
            )
        reason = _correct(writer, nodes[key], mean)
        if reason:
            refused.append(Refusal(reason, (key,)))
        else:
            done[key] = mean
    with quiet():
        from onnx_ir.passes import common

        common.RemoveUnusedNodesPass()(copy)
    what = f"subtracted the mean rounding error from the biases of {plural(len(done), 'product')}"
    return Prepared(copy, (Change(what, tuple(done)),) if done else (), tuple(refused), done)


def _uses(layers: Sequence[Layer], choices: Mapping[str, str]) -> Iterator[Use]:
    for layer in layers:
        form = choices.get(layer.name, FLOAT)
        if form != FLOAT and layer.weight and layer.operator in PRODUCTS:
            yield from ((layer, form_named(form), key) for key in layer.nodes)


def _means(
    model: "ir.Model", uses: Sequence[Use], context: FormContext, samples: Samples, emit: Emit
) -> dict[str, Array]:
    """By node, the mean error of each channel."""
    from edgeopt.quant.sensitivity.switchboard import session

    if not uses:
        return {}
    running = session(_with_meters(model, uses, context), 0)
    seen: list[list[Array]] = []
    for index in range(len(samples)):
        emit(Progress(PHASE, plural(len(uses), "product"), index, len(samples)))
        got = running.run(None, samples.feeds(index))
        seen.append([total / count for total, count in zip(got[0::2], got[1::2], strict=True)])
    means = {}
    for place, (_, _, key) in enumerate(uses):
        each = np.stack([one[place] for one in seen]).astype(np.float64)
        mean, doubt = each.mean(axis=0), each.var(axis=0, ddof=1) / len(each)
        sure = np.square(mean) / np.maximum(np.square(mean) + doubt, 1e-60)
        means[key] = np.where(np.isfinite(mean), mean * sure, 0.0).astype(np.float32)
    return means


def _with_meters(model: "ir.Model", uses: Sequence[Use], context: FormContext) -> "ir.Model":
    """A copy of the model that gives, for each product, the sum of its errors by channel, and of how many."""
    from onnx_ir.passes import common

    from edgeopt.quant.forms.writer import Writer
    from edgeopt.quant.sensitivity.fakes import Fakes

    copy = model.clone()
    nodes = nodes_by_key(copy.graph)
    fakes, writer = Fakes(model, copy, context), Writer(copy.graph, counted=True)
    outputs: list[ir.Value] = []
    for layer, form, key in uses:
        node = nodes[key]
        made, (faked, *_) = fakes.nodes(key, layer, form, round_outputs=False)
        copy.graph.insert_after(node, made)
        meter = _meter(writer, node, faked, len(layer.weight_shape))
        copy.graph.insert_after(made[-1], meter)
        outputs += [meter[-2].outputs[0], meter[-1].outputs[0]]
    copy.graph.outputs.clear()
    copy.graph.outputs.extend(outputs)
    with quiet():
        common.RemoveUnusedNodesPass()(copy)
    return copy


def _meter(writer: "Writer", node: "ir.Node", faked: "ir.Value", rank: int) -> "list[ir.Node]":
    """Nodes whose last two give the sums of the errors by channel, and how many numbers each is of."""
    import onnx_ir as ir

    name = f"{node.outputs[0].name}_error"
    off = writer.node("Sub", (faked, node.outputs[0]), name)
    if "Conv" in node.op_type:
        axes = [0, *range(2, rank)]
        flat, value = [], off.outputs[0]
    else:
        axes = [0]
        size = writer.constant(f"{name}_rows", np.array([-1, _channels(node)], np.int64))
        flat = [writer.node("Reshape", (off.outputs[0], size), f"{name}_flat")]
        value = flat[0].outputs[0]
    over = writer.constant(f"{name}_axes", np.array(axes, np.int64))
    total = writer.node(
        "ReduceSum", (value, over), f"{name}_sum", kind=ir.DataType.FLOAT, attributes={"keepdims": 0}
    )
    ones = writer.node("Shape", (value,), f"{name}_shape", kind=ir.DataType.INT64)
    sizes = writer.node("Gather", (ones.outputs[0], over), f"{name}_sizes", kind=ir.DataType.INT64)
    count = writer.node(
        "ReduceProd", (sizes.outputs[0],), f"{name}_count", kind=ir.DataType.INT64, attributes={"keepdims": 0}
    )
    return [off, *flat, ones, sizes, total, count]


def _channels(node: "ir.Node") -> int:
    shape = [int(d) for d in node.inputs[1].shape]
    turned = node.op_type == "Gemm" and "transB" in node.attributes and node.attributes["transB"].as_int()
    return shape[0] if turned else shape[-1]


def _correct(writer: "Writer", node: "ir.Node", mean: Array) -> str:
    """Changes the bias; why it cannot be, as the end of a sentence."""
    if is_op(node, "MatMul"):
        return _correct_after(writer, node, mean)
    bias = node.inputs[2] if len(node.inputs) > 2 else None
    if bias is None:
        new = writer.constant(f"{node.name or node.outputs[0].name}_bias", -mean)
        node.resize_inputs(3)
        node.replace_input_with(2, new)
        return ""
    known = constant(bias)
    if known is None:
        return "its bias is computed while the model runs"
    if known.size not in (1, len(mean)):
        return "its bias differs from row to row"
    flat = np.broadcast_to(known.reshape(-1), mean.shape).astype(np.float32)
    node.replace_input_with(2, writer.constant(f"{bias.name}_corrected", flat - mean))
    return ""


def _correct_after(writer: "Writer", node: "ir.Node", mean: Array) -> str:
    """In the constant that is added to a matrix product."""
    uses = list(node.outputs[0].uses())
    if len(uses) != 1 or node.outputs[0].is_graph_output() or not is_op(uses[0].node, "Add"):
        return "no constant is added to its result"
    add = uses[0].node
    place = 1 - uses[0].idx
    known = constant(add.inputs[place])
    if known is None or known.size != len(mean) or known.shape[-1:] != mean.shape:
        return "the value added to its result is not constant per channel"
    new = writer.constant(
        f"{add.inputs[place].name}_corrected", known.astype(np.float32) - mean.reshape(known.shape)
    )
    add.replace_input_with(place, new)
    return ""
