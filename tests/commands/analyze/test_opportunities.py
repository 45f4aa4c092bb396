"""The finders that look at the analysis alone; one test for what each finds, one for what it leaves alone."""

import msgspec
import numpy as np
import pytest

from edgeopt.commands.analyze import dry_run, opportunities
from edgeopt.commands.analyze.messages import Leak, Node, Rewrite, Rewritten
from edgeopt.commands.analyze.opportunities import find_all, find_rewrites
from edgeopt.graph.analysis import CoverageRow, OpenDimension, WeightsSummary
from edgeopt.graph.passes import NAMES


@pytest.fixture
def product(node):
    """A large matrix product with weights."""

    def make(name="m", source="x", **more):
        fields = {"weights_bytes": 4 << 20, "parameters": 1 << 20} | more
        inputs = [f"{source} 4 1024", "w 1024 1024"]
        outputs = [f"{name} 4 1024"]
        costs = {"operations": 800_000_000, "moved": 5_000_000, "macs": 400_000_000}
        return node("MatMul", inputs, outputs, "matrix product", **(costs | fields))

    return make


@pytest.fixture
def light(node):
    def make(operator, source, name, category="element-wise", moved=2_000_000):
        return node(operator, [f"{source} 4 250000"], [f"{name} 4 250000"], category, operations=1, moved=moved)

    return make


def test_a_chain_of_element_wise_nodes(view, light, product):
    rows = (product(), light("Mul", "m", "a"), light("Add", "a", "b"), light("Tanh", "b", "y", "activation"))
    (found,) = opportunities.find_memory_bound(view(*rows))
    assert "1 chain of element-wise nodes (up to 3 long)" in found.reason
    assert found.nodes == ("n_a", "n_b", "n_y")
    # Of six transfers of a megabyte each, four go away.
    assert 0 < found.gain_share < 0.5
    assert found.exact


def test_what_is_read_twice_or_fused_by_a_pass_is_no_chain(view, light):
    rows = (light("Mul", "x", "a"), light("Add", "a", "b"), light("Sub", "a", "y"))
    assert list(opportunities.find_memory_bound(view(*rows))) == []
    rows = (light("Mul", "x", "a"), light("Add", "a", "y"))
    assert len(list(opportunities.find_memory_bound(view(*rows)))) == 1
    gone = Rewrite("gelu", "", "fusion", True, (), (), (Node("n_a", "Mul", ("x",), ("a",)),))
    assert list(opportunities.find_memory_bound(view(*rows, rewritten=Rewritten((gone,))))) == []


def test_large_products_are_to_be_quantized_by_what_the_peaks_allow(view, product, device):
    (found,) = opportunities.find_quantization(view(product(), device=device))
    assert found.gain_share == pytest.approx(0.75, abs=0.01)
    assert not found.exact
    assert "up to 4.0x as fast" in found.reason
    assert found.command.startswith("edgeopt optimize ")


def test_without_peaks_quantization_has_no_estimate(view, product):
    (found,) = opportunities.find_quantization(view(product()))
    assert found.gain_share is None
    assert "probe --deep" in found.basis


def test_that_results_change_is_said_once(view, product):
    """The listing says so of every opportunity that is not exact."""
    (found,) = opportunities.find_quantization(view(product()))
    assert not found.exact
    assert "changes the results" not in found.reason


def test_the_users_data_stand_in_the_command(view, product, tmp_path):
    (found,) = opportunities.find_quantization(view(product(), data=tmp_path / "my data.npz"))
    assert f"--data '{tmp_path}/my data.npz'" in found.command


def test_what_is_quantized_or_has_no_weights_is_left_alone(view, node, product, device):
    scaled = node("DequantizeLinear", ["q 4 1024 int8"], ["d 4 1024"], "quantization", moved=10)
    assert list(opportunities.find_quantization(view(scaled, product(source="d"), device=device))) == []
    assert list(opportunities.find_quantization(view(product(parameters=0), device=device))) == []


def test_float64_is_too_precise(view, node):
    row = node("Mul", ["x 4 float64"], ["y 4 float64"], "element-wise", operations=4, moved=96)
    (found,) = opportunities.find_precision(view(row))
    assert "float64" in found.title
    assert found.gain_share == pytest.approx(0.475)  # no share is said to be all of a run


def test_a_device_that_computes_halves_faster(view, product, device):
    assert list(opportunities.find_precision(view(product(), device=device))) == []  # as fast as float32 only
    compute = tuple(
        msgspec.structs.replace(peak, operations_per_s=3e11) if peak.precision == "bf16" else peak
        for peak in device.peaks.compute
    )
    quick = msgspec.structs.replace(device, peaks=msgspec.structs.replace(device.peaks, compute=compute))
    (found,) = opportunities.find_precision(view(product(), device=quick))
    assert found.title == "Compute in bfloat16"
    assert found.gain_share == pytest.approx(2 / 3, abs=0.01)


def test_weights_in_half_that_are_cast(view, node):
    row = node("Cast", ["w 4 float16"], ["y 4"], "data movement", operations=4, moved=24, weights_bytes=8)
    (found,) = opportunities.find_precision(view(row))
    assert "1 weights" in found.reason
    assert list(opportunities.find_precision(view(row, inputs=("w 4 float16",)))) == []


def test_transposes_that_no_pass_takes_out(view, node, product):
    row = node("Transpose", ["x 4 8"], ["y 8 4"], "data movement", moved=50_000_000)
    (found,) = opportunities.find_layout(view(row, product()))
    assert found.reason.startswith("Transposes of 47.7 MiB in 1 node compute nothing; ")
    gone = Rewrite("transposes", "", "layout", True, (), (), (Node("n_y", "Transpose", ("x",), ("y",)),))
    assert list(opportunities.find_layout(view(row, product(), rewritten=Rewritten((gone,))))) == []


def test_a_backend_that_wants_the_channels_last(view, node):
    row = node("Conv", ["x 1 3 8 8"], ["y 1 3 8 8"], "convolution", operations=1000, moved=10)
    covered = CoverageRow("onnxruntime-xnnpack", "ONNX Runtime, XNNPACK", "1", 1, 1, boundaries=0)
    (found,) = opportunities.find_layout(view(row, coverage=(covered,)))
    assert found.title == "Put the channels last"
    assert list(opportunities.find_layout(view(row))) == []


def test_open_dimensions_can_be_fixed_with_a_command_that_says_how(view, node):
    rows = (
        node("Shape", ["x batch 8"], ["s 2 int64"], "shape", operations=0, moved=16),
        node("Relu", ["x batch 8"], ["y batch 8"], "activation", operations=8, moved=64),
    )
    sizes = (OpenDimension("batch", 1, ("input 'x', axis 0",)),)
    (found,) = opportunities.find_dynamic_shapes(view(*rows, inputs=("x batch 8", "fixed 2 4"), dimensions=sizes))
    assert found.command.endswith("--shape x=1x8")
    assert found.nodes == ("n_s",)
    assert 0 < found.gain_share < 1
    assert list(opportunities.find_dynamic_shapes(view(*rows))) == []


def test_a_size_that_is_not_known_is_a_letter(view):
    (found,) = opportunities.find_dynamic_shapes(view(inputs=("x batch 8",)))
    assert found.command.endswith("--shape x=Nx8")


def test_products_that_wait_for_their_weights_want_a_batch(view, product):
    row = product(operations=2_000_000, moved=5_000_000)
    (found,) = opportunities.find_batch(view(row, inputs=("x batch 1024",)))
    assert found.gain_share > 0.5
    assert "--sweep batch=1,8" in found.command
    assert list(opportunities.find_batch(view(row, inputs=("x 1 1024",)))) == []
    assert list(opportunities.find_batch(view(product(), inputs=("x batch 1024",)))) == []  # it computes enough


def test_weights_that_are_twins_unused_or_denormal(view):
    summary = WeightsSummary(denormal=("d",), unused=("u",), twins=(("a", "b"),), twins_bytes=4096)
    found = {each.title: each for each in opportunities.find_weights(view(weights_summary=summary))}
    assert found["Flush denormal numbers to zero"].nodes == ("d",)
    assert found["Store equal weights once"].nodes == ("a", "b")
    assert found["Drop unused weights"].nodes == ("u",)
    assert list(opportunities.find_weights(view())) == []


def test_notes_of_the_exporter_that_name_folders(view):
    leak = Leak("the node 'n'", "/home/somebody/model.py")
    (found,) = opportunities.find_metadata(view(rewritten=Rewritten((), (), (leak,), 1, 40)))
    assert "/home/somebody/model.py" in found.reason
    assert "1 text names folders" in found.reason
    assert list(opportunities.find_metadata(view(rewritten=Rewritten((), (), (), 0, 40)))) == []


def test_the_largest_gain_comes_first_and_what_has_no_estimate_last(view, product, device):
    seen = view(
        product(),
        device=device,
        inputs=("x batch 1024",),
        weights_summary=WeightsSummary(unused=("u",)),
    )
    gains = [each.gain_share for each in find_all(seen)]
    known = [each for each in gains if each is not None]
    assert known == sorted(known, reverse=True)
    assert gains[-1] is None
    assert gains[0] is not None


IDS = "ids b n int64"
MASK = "attention_mask b n int64"
POOLED = "y b 8"


@pytest.fixture
def data(tmp_path):
    def write(*kept):
        masks = np.stack([(np.arange(64) < n).astype(np.int64) for n in kept])[:, None]
        np.savez(tmp_path / "data.npz", ids=masks, attention_mask=masks)
        return tmp_path / "data.npz"

    return write


def test_padded_data_is_told_with_its_share(view, data):
    (found,) = opportunities.find_padding(view(inputs=(IDS, MASK), outputs=(POOLED,), data=data(10, 20)))
    assert found.gain_share == 1 - 48 / 128
    assert "62 % of your data is padding" in found.reason
    assert found.exact


def test_without_data_it_says_what_would_tell(view):
    (found,) = opportunities.find_padding(view(inputs=(IDS, MASK), outputs=(POOLED,)))
    assert found.gain_share is None
    assert "Pass --data" in found.reason


@pytest.mark.parametrize(
    ("inputs", "output"),
    [
        ((IDS, MASK), "y b n 8"),  # a row for each place
        ((IDS, "attention_mask b 64 int64"), POOLED),
        ((IDS, "weights b n int64"), POOLED),
    ],
    ids=["rows", "fixed", "no-mask"],
)
def test_what_cannot_be_skipped_is_left_alone(view, inputs, output):
    assert list(opportunities.find_padding(view(inputs=inputs, outputs=(output,)))) == []


def test_full_data_is_left_alone(view, data):
    assert list(opportunities.find_padding(view(inputs=(IDS, MASK), outputs=(POOLED,), data=data(60, 64)))) == []


@pytest.fixture
def rows(node):
    return (
        node("Conv", ["x 4 8"], ["c 4 8"], "convolution", operations=1_600_000, moved=1000, macs=800_000),
        node("BatchNormalization", ["c 4 8"], ["b 4 8"], "normalization", operations=64, moved=1_000_000),
    )


def rewrite(name, kind, gone=(), new=(), whats=("did something",)):
    return Rewrite(name, "a title", kind, True, whats, tuple(n.name for n in gone), tuple(gone), tuple(new))


def test_a_fusion_is_an_opportunity_with_its_gain_and_the_command(view, rows):
    gone = [Node("n_b", "BatchNormalization", ("c",), ("b",))]
    seen = view(*rows, rewritten=Rewritten((rewrite("batchnorm-into-conv", "fusion", gone),)))
    (found,) = find_rewrites(seen)
    assert found.kind == "unfused patterns"
    assert found.title == "A title"
    assert found.gain_share == pytest.approx(0.5, abs=0.01)
    assert "1 node less" in found.basis
    assert found.nodes == ("n_b",)
    assert found.command.startswith("edgeopt simplify ")
    assert "did something" in found.reason


def test_what_changes_no_nodes_has_no_estimate(view, rows):
    (found,) = find_rewrites(view(*rows, rewritten=Rewritten((rewrite("weights-out-of-inputs", "cleaning"),))))
    assert (found.kind, found.gain_share) == ("weights as inputs", None)
    assert "unknown" in found.basis


def test_only_passes_are_left_out_by_name():
    assert (opportunities._NO_GAIN | dry_run._REPORTED_ELSEWHERE) - set(NAMES) == set()


@pytest.mark.parametrize("name", ["raise-opset", "strip-metadata", "deduplicate-weights"])
def test_passes_that_gain_nothing_by_themselves_are_no_opportunities(view, rows, name):
    assert list(find_rewrites(view(*rows, rewritten=Rewritten((rewrite(name, "cleaning"),))))) == []


@pytest.mark.parametrize(
    ("name", "folder", "kind"),
    [
        ("identities", "cleaning", "redundant nodes"),
        ("transposes", "layout", "redundant nodes"),
        ("channels-last", "layout", "layout"),
        ("constant-chains", "algebra", "cheaper forms"),
        ("fold-constants", "cleaning", "foldable constants"),
    ],
)
def test_the_kind_follows_from_the_pass(view, rows, name, folder, kind):
    (found,) = find_rewrites(view(*rows, rewritten=Rewritten((rewrite(name, folder),))))
    assert found.kind == kind


def test_nothing_is_known_where_the_passes_were_not_asked(view, rows):
    assert list(find_rewrites(view(*rows))) == []
