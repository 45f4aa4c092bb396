"""Opportunities to improve a model on this device, one finder for each kind; `FINDERS` lists them."""

from collections.abc import Iterable

from edgeopt import units
from edgeopt.backends import backend_named
from edgeopt.commands.analyze.inputs import infos
from edgeopt.commands.analyze.opportunity_view import View
from edgeopt.data.read import load_data
from edgeopt.graph.analysis import NodeRow, Opportunity, TensorFacts
from edgeopt.graph.analysis.categories import HEAVY
from edgeopt.graph.masks import is_mask, kept_share
from edgeopt.hw.device import Device
from edgeopt.platform.command_line import quote_word

_MIN_PADDING = 0.1


def _names(rows: Iterable[NodeRow]) -> tuple[str, ...]:
    return tuple(row.name or row.outputs[0].name for row in rows)


def find_padding(view: View) -> Iterable[Opportunity]:
    """Suggests skipping the padding if the sequence length is open and no output has that axis."""
    analysis = view.analysis
    masks = [tensor for tensor in analysis.inputs if is_mask(tensor.name, len(tensor.shape or ()))]
    if len(masks) != 1 or analysis.format != "ONNX":
        return
    length = (masks[0].shape or (None, None))[1]
    if not isinstance(length, str) or any(length in (output.shape or ()) for output in analysis.outputs):
        return
    gain = None
    if view.data is not None:
        samples = load_data(view.data, infos(analysis.inputs, {}), view.pictures)
        gain = 1.0 - kept_share(samples, masks[0].name)
    if gain is not None and gain < _MIN_PADDING:
        return
    share = "Pass --data to see how much" if gain is None else units.percent(gain, 0)
    yield Opportunity(
        "padding",
        f"Skip the padding that '{masks[0].name}' marks at the end of sequences",
        f"{share} of your data is padding. It is computed like other values; optimize proves that it does not "
        "matter and skips it.",
        (),
        gain,
        "the share of padding" if gain is not None else "unknown without data",
        view.optimize,
    )


# They bring a model into common form, or other finders report them.
_NO_GAIN = frozenset({"raise-opset", "strip-metadata", "deduplicate-weights", "dead-nodes", "name-nodes"})
_KINDS = {
    "fold-constants": ("foldable constants", "Fold constant computations"),
    "fold-shapes": ("foldable constants", "Fold shapes that are known"),
    "weights-out-of-inputs": ("weights as inputs", "Remove weights from the inputs"),
    "fusion": ("unfused patterns", ""),
    "layout": ("layout", ""),
    "algebra": ("cheaper forms", ""),
    "cleaning": ("redundant nodes", ""),
}
_REDUNDANT = ("transpose", "reshape", "cast", "identit", "no-op", "slice", "squeeze", "expand", "pad")


def find_rewrites(view: View) -> Iterable[Opportunity]:
    if view.rewritten is None:
        return
    for rewrite in view.rewritten.rewrites:
        if rewrite.pass_name in _NO_GAIN:
            continue
        kind, title = _KINDS.get(rewrite.pass_name) or _KINDS.get(rewrite.kind, ("cheaper forms", ""))
        if kind != "unfused patterns" and any(word in rewrite.pass_name for word in _REDUNDANT):
            kind = "redundant nodes"
        whats, new = rewrite.whats, f", {len(rewrite.new)} new" if rewrite.new else ""
        gain = view.share(view.saved_ms(rewrite.gone, rewrite.new)) if rewrite.gone else None
        less = f"{len(rewrite.gone)} node{'s' if len(rewrite.gone) != 1 else ''} less{new}"
        yield Opportunity(
            kind,
            title or rewrite.title[:1].upper() + rewrite.title[1:],
            f"The pass {rewrite.pass_name} would apply: {'; '.join(whats[:4])}"
            + (f"; and {len(whats) - 4} more." if len(whats) > 4 else "."),
            rewrite.nodes,
            gain,
            f"{less}; an upper bound, because runtimes do some of it themselves; {view.basis}"
            if gain is not None
            else "unknown: the gain differs between runtimes",
            view.simplify,
        )


_LIGHT = frozenset({"element-wise", "activation", "quantization"})
_MIN_CHAINS = 0.005
# Less never leaves the cache of a core.
_MIN_BYTES = 64 << 10


def find_memory_bound(view: View) -> Iterable[Opportunity]:
    chains = list(_chains(view))
    inner = [row.outputs[0] for chain in chains for row in chain[:-1]]
    # Each is written once and read once again.
    moved = sum(2 * (view.size_bytes(tensor) or 0) for tensor in inner)
    gain = view.share(view.bytes_ms(moved)) if moved >= _MIN_BYTES else None
    if gain is None or gain < _MIN_CHAINS:
        return
    longest = max(chains, key=len)
    yield Opportunity(
        "memory-bound chains",
        "Try a runtime that fuses chains of element-wise nodes",
        f"{len(chains)} chain{'s' if len(chains) != 1 else ''} of element-wise nodes (up to {len(longest)} long) "
        f"move{'s' if len(chains) == 1 else ''} {units.size(moved)} through memory between their nodes.",
        _names(row for chain in chains for row in chain),
        gain,
        f"at most, if no intermediate result goes through memory; {view.basis}",
        view.optimize,
    )


def _chains(view: View) -> Iterable[list[NodeRow]]:
    outputs = {tensor.name for tensor in view.analysis.outputs}
    light = {
        row.outputs[0].name: row
        for row in view.rows
        if row.category in _LIGHT and len(row.outputs) == 1 and row.outputs[0].name not in view.removed
    }

    def next_of(row: NodeRow) -> NodeRow | None:
        name = row.outputs[0].name
        readers = view.readers.get(name, [])
        if name in outputs or len(readers) != 1:
            return None
        after = light.get(readers[0].outputs[0].name) if readers[0].outputs else None
        return after if after is not None and not readers[0].inside else None

    followers = {after.position for row in light.values() if (after := next_of(row)) is not None}
    for row in light.values():
        if row.position in followers:
            continue
        chain = [row]
        while (after := next_of(chain[-1])) is not None:
            chain.append(after)
        if len(chain) > 1:
            yield chain


_MIN_QUANTIZED = 0.1
_MIN_PARAMETERS = 64
# Bytes of a float32 for each of an int8.
_SMALLER = 4.0


def find_quantization(view: View) -> Iterable[Opportunity]:
    rows = [row for row in view.rows if _could_be(row, view)]
    share = view.share_of(rows)
    if not rows or share is None or share < _MIN_QUANTIZED:
        return
    ratio = _speed_ratio(view.device, "int8", view.threads)
    what = (
        f"Matrix products and convolutions in float32 with fixed weights: {len(rows)}, with "
        f"{units.percent(share, 0)} of the time"
    )
    if ratio is None:
        gain, basis = None, "unknown: this device's peak in int8 is not measured (edgeopt probe --deep)"
        peak = ""
    elif ratio <= 1:
        return
    else:
        times = [(view.time_ms(row) or 0.0, ratio if view.is_compute_bound(row) else _SMALLER) for row in rows]
        gain = view.share(sum(time * (1 - 1 / by) for time, by in times))
        basis = f"at most, at this device's peaks of int8 and float32; {view.basis}"
        peak = f"; this device computes int8 up to {ratio:.1f}x as fast"
    yield Opportunity(
        "quantization",
        "Quantize the large layers to eight bits",
        f"{what}{peak}. edgeopt optimize tries it and keeps it only within the accuracy floor.",
        _names(rows),
        gain,
        basis,
        view.optimize,
        exact=False,
    )


def _speed_ratio(device: Device | None, precision: str, threads: int | None) -> float | None:
    """Returns the peak in this precision relative to float32, each the best of all runtimes; None if unknown."""
    peaks = device.peaks.compute if device is not None and device.peaks is not None else ()
    counts = {peak.threads for peak in peaks}
    chosen = threads if threads in counts else max(counts, default=0)
    plain, quantized = (
        max((p.operations_per_s for p in peaks if p.precision == each and p.threads == chosen), default=None)
        for each in ("fp32", precision)
    )
    return quantized / plain if plain and quantized else None


def _could_be(row: NodeRow, view: View) -> bool:
    if row.category not in {"matrix product", "convolution"} or not row.cost.operations:
        return False
    if row.parameters < _MIN_PARAMETERS or any(t.dtype != "float32" for t in row.inputs if t.name):
        return False
    makers = (view.by_output.get(tensor.name) for tensor in row.inputs)
    return not any(maker is not None and maker.operator == "DequantizeLinear" for maker in makers)


_WORTH = 1.1
_MIN_DOUBLE = 0.01
_HALF = {"bf16": "bfloat16", "fp16": "float16"}


def find_precision(view: View) -> Iterable[Opportunity]:
    yield from _double(view)
    yield from _half(view)
    yield from _casts(view)


def _double(view: View) -> Iterable[Opportunity]:
    rows = [row for row in view.rows if any(tensor.dtype == "float64" for tensor in row.outputs)]
    share = view.share_of(rows)
    if not rows or (share is not None and share < _MIN_DOUBLE):
        return
    yield Opportunity(
        "precision",
        "Compute in float32 instead of float64",
        f"{len(rows)} nodes compute in float64: twice the bytes, and few fast kernels in any runtime.",
        _names(rows),
        None if share is None else share / 2,
        f"half of the time of these nodes; {view.basis}" if share is not None else "unknown",
        "Export the model in float32",
        exact=False,
    )


def _half(view: View) -> Iterable[Opportunity]:
    ratios = [(name, _speed_ratio(view.device, name, view.threads)) for name in _HALF]
    best, ratio = max(((n, r) for n, r in ratios if r is not None), key=lambda pair: pair[1], default=("", 0.0))
    heavy = (row for row in view.rows if row.category in HEAVY)
    rows = [row for row in heavy if all(t.dtype == "float32" for t in row.inputs[:2] if t.name)]
    if ratio < _WORTH or not rows:
        return
    times = [(view.time_ms(row) or 0.0, ratio if view.is_compute_bound(row) else 2.0) for row in rows]
    gain = view.share(sum(time * (1 - 1 / by) for time, by in times))
    yield Opportunity(
        "precision",
        f"Compute in {_HALF[best]}",
        f"This device computes in {_HALF[best]} up to {ratio:.1f}x as fast as in float32, which "
        f"{len(rows)} matrix products and convolutions use.",
        _names(rows),
        gain,
        f"at most, at this device's peaks; {view.basis}" if gain is not None else "unknown",
        view.optimize,
        exact=False,
    )


def _casts(view: View) -> Iterable[Opportunity]:
    """Weights that are kept in half and converted in every run, unless the runtime folds that."""
    made = {name for row in view.analysis.nodes for tensor in row.outputs if (name := tensor.name)}
    ports = {tensor.name for tensor in view.analysis.inputs}
    rows = [
        row
        for row in view.analysis.nodes
        if row.operator == "Cast"
        and row.weights_bytes
        and row.inputs
        and row.inputs[0].dtype in {"float16", "bfloat16"}
        and row.inputs[0].name not in made | ports
    ]
    if not rows:
        return
    size = sum(row.weights_bytes for row in rows)
    yield Opportunity(
        "precision",
        "Keep the weights in the type that the device computes in",
        f"{len(rows)} weights ({units.size(size)}) are stored in half precision and cast to float before use: "
        "half the file, but the casts run at every start or even in every run.",
        _names(rows),
        view.share_of([row for row in rows if not row.inside]),
        f"at most, if the runtime does not fold the casts; {view.basis}",
        view.simplify,
    )


_MIN_TRANSPOSES = 0.005
_MIN_CONVOLUTIONS = 0.3


def find_layout(view: View) -> Iterable[Opportunity]:
    yield from _transposes(view)
    yield from _channels_last(view)


def _transposes(view: View) -> Iterable[Opportunity]:
    rows = [row for row in view.rows if row.operator == "Transpose" and row.outputs[0].name not in view.removed]
    share = view.share_of(rows)
    if not rows or share is None or share < _MIN_TRANSPOSES:
        return
    moved = sum((row.cost.read_bytes or 0) + (row.cost.written_bytes or 0) for row in rows)
    yield Opportunity(
        "layout",
        "Avoid transposes",
        f"Transposes of {units.size(moved)} in {units.count(len(rows), 'node')} compute "
        "nothing; no pass can remove them, but exporting with another layout may.",
        _names(rows),
        share,
        f"at most, if all of them go; {view.basis}",
        view.optimize,
    )


def _channels_last(view: View) -> Iterable[Opportunity]:
    """Backends that want the channels last transpose around every group of nodes that they take."""
    here = [row for row in view.analysis.coverage if row.supported and backend_named(row.backend).channels_last]
    convolutions = [row for row in view.rows if row.category == "convolution"]
    share = view.share_of(convolutions)
    if not here or share is None or share < _MIN_CONVOLUTIONS:
        return
    yield Opportunity(
        "layout",
        "Put the channels last",
        f"{here[0].title} computes convolutions with the channels last, and converts around each of its "
        f"{(here[0].boundaries or 0) + 1} groups of nodes.",
        _names(convolutions),
        None,
        "unknown: it depends on how the backend groups the nodes",
        view.optimize,
    )


def find_dynamic_shapes(view: View) -> Iterable[Opportunity]:
    analysis = view.analysis
    open_ones = [t for t in analysis.inputs if t.shape and any(not isinstance(d, int) for d in t.shape)]
    if not open_ones or analysis.format != "ONNX":
        return
    shapes = [row for row in view.rows if row.category == "shape"]
    gain = view.share_of(shapes) if shapes else None
    names = [f"{t.name} [{', '.join('?' if d is None else str(d) for d in t.shape or ())}]" for t in open_ones]
    more = f" and {len(names) - 4} more" if len(names) > 4 else ""
    work = f" {len(shapes)} nodes that only compute with shapes could be folded then." if shapes else ""
    shapes_fixed = " ".join(f"--shape {quote_word(f'{t.name}={_example(t, view)}')}" for t in open_ones)
    yield Opportunity(
        "dynamic shapes",
        "Fix the shapes of the inputs, if every run has the same",
        f"Open: {', '.join(names[:4])}{more}. Runtimes plan once for shapes that are fixed.{work}",
        _names(shapes),
        gain,
        f"the nodes that compute with shapes; {view.basis}" if gain is not None else "unknown",
        f"edgeopt simplify {view.file()} -o {view.output('.fixed.onnx')} {shapes_fixed}",
    )


def _example(tensor: TensorFacts, view: View) -> str:
    """Returns the sizes behind the figures; a letter for an unknown one."""
    sizes = {each.name: each.size for each in view.analysis.dimensions}
    found = (
        d if isinstance(d, int) else sizes.get(d or f"{tensor.name}[{axis}]")
        for axis, d in enumerate(tensor.shape or ())
    )
    return "x".join("N" if size is None else str(size) for size in found)


_BATCH = 8
_MIN_BATCH_GAIN = 0.05


def find_batch(view: View) -> Iterable[Opportunity]:
    """Suggests a larger batch for throughput; the latency of a single answer does not improve."""
    inputs = view.analysis.inputs
    if not inputs or not all(tensor.shape and not isinstance(tensor.shape[0], int) for tensor in inputs):
        return
    rows = [
        row for row in view.rows if row.weights_bytes and row.category in HEAVY and not view.is_compute_bound(row)
    ]
    weights = sum(row.weights_bytes for row in rows)
    gain = view.share(view.bytes_ms(weights) * (1 - 1 / _BATCH)) if weights else None
    if gain is None or gain < _MIN_BATCH_GAIN:
        return
    # The one input that tells the batch stands for all of them.
    yield Opportunity(
        "batch",
        f"For throughput, run several samples at once, for example {_BATCH}",
        f"At a batch of 1, reading weights ({units.size(weights)}) limits {units.count(len(rows), 'node')}.",
        _names(rows),
        gain,
        f"of the time per sample at a batch of {_BATCH}, at most; {view.basis}",
        f"edgeopt bench {view.file()} --sweep batch=1,{_BATCH}",
    )


_MIN_TWIN_BYTES = 1024


def find_weights(view: View) -> Iterable[Opportunity]:
    summary = view.analysis.weights_summary
    if summary.denormal:
        count = len(summary.denormal)
        yield Opportunity(
            "weights",
            "Flush denormal numbers to zero",
            f"{count} weight{('s' if count != 1 else '')} hold denormal numbers, which some processors "
            "compute a hundred times slower.",
            summary.denormal,
            None,
            "unknown: it depends on the processor and on how many of them are used",
            view.optimize,
            exact=False,
        )
    if summary.twins_bytes >= _MIN_TWIN_BYTES:
        yield Opportunity(
            "weights",
            "Store equal weights once",
            f"{summary.twins_bytes:,} bytes of weights are duplicates.",
            tuple(name for group in summary.twins for name in group),
            None,
            "no gain in speed: a smaller file, and less memory",
            view.simplify,
        )
    if summary.unused:
        yield Opportunity(
            "weights",
            "Drop unused weights",
            f"{len(summary.unused)} weight{'s are' if len(summary.unused) != 1 else ' is'} never read.",
            summary.unused,
            None,
            "no gain in speed: a smaller file",
            view.simplify,
        )


_MUCH_BYTES = 16 << 10


def find_metadata(view: View) -> Iterable[Opportunity]:
    found = view.rewritten
    if found is None or (not found.leaks and found.metadata_bytes < _MUCH_BYTES):
        return
    if found.leaks:
        places = "; ".join(f"{leak.where}: {leak.text[:80]}" for leak in found.leaks[:3])
        reason = (
            f"{found.leaks_count} text{'s' if found.leaks_count != 1 else ''} name"
            f"{'s' if found.leaks_count == 1 else ''} folders of the machine that exported the model ({places})."
        )
    else:
        reason = f"{found.metadata_bytes:,} bytes of the file are notes of the exporter that no runtime reads."
    yield Opportunity(
        "metadata",
        "Strip the exporter's notes",
        reason,
        (),
        None,
        "no gain in speed; protects private information",
        view.simplify,
    )


FINDERS = (
    find_padding,
    find_rewrites,
    find_memory_bound,
    find_quantization,
    find_precision,
    find_layout,
    find_dynamic_shapes,
    find_batch,
    find_weights,
    find_metadata,
)

_TRIED_BY_PLANS = frozenset({"precision", "quantization"})
_TRIED_BY_SEARCHES = _TRIED_BY_PLANS | {
    *("cheaper forms", "foldable constants", "redundant nodes", "unfused patterns", "weights as inputs"),
    *("layout", "memory-bound chains", "padding"),
}


def tried_for(evidence: object) -> frozenset[str]:
    """Kinds whose outcome a bundle has already, by what made it: naming them again would send people back."""
    from edgeopt.pipeline.outcome import Outcome
    from edgeopt.quant.measured.records import Quantized

    if isinstance(evidence, Outcome):
        return _TRIED_BY_SEARCHES
    return _TRIED_BY_PLANS if isinstance(evidence, Quantized) else frozenset()


def find_all(view: View) -> tuple[Opportunity, ...]:
    """Returns all opportunities, by falling estimated gain; those without an estimate follow in their order."""
    found = [opportunity for find in FINDERS for opportunity in find(view)]
    return tuple(sorted(found, key=lambda each: 1.0 if each.gain_share is None else -each.gain_share))
