import msgspec
import pytest

from edgeopt.commands.analyze.analyze import analyze
from edgeopt.graph.analysis import FileRow, NodeRow, ProvedOutput, Tensor
from edgeopt_gui.pages.model import words


@pytest.fixture(scope="module")
def bundle_analysis(conv_bundle):
    return analyze(conv_bundle, coverage=False, opportunities=False)


def facts(groups):
    return {(group.title, fact.name): fact for group in groups for fact in group.facts}


def test_the_headline_is_one_line(analysis, bundle_analysis):
    assert words.headline(analysis) == "ONNX, opset 18 · 57.4 KiB · 11,645 parameters · 95 nodes"
    assert words.headline(bundle_analysis).startswith("Bundle · ONNX, opset 17")


def test_the_summary_says_what_is_there_and_leaves_out_what_is_not(analysis):
    shown = facts(words.summary(analysis))
    assert shown["Model", "Weights"].value == "45.5 KiB in 49 tensors"
    assert shown["Model", "Nodes"].value == "95 of 16 types"
    assert shown["Model", "SHA-256"].copy == analysis.digest
    assert shown["One run", "Operations"].value == "2.77 MFLOP, of them 1.26 MMAC"
    assert shown["One run", "For"].value == "batch = 1 (assumed)"
    assert shown["Inputs", "image"].value == "float32 [batch, 1, 32, 32]"
    assert shown["Outputs", "logits"].value == "float32 [batch, 10]"
    assert ("Model", "Functions") not in shown
    assert not any(title == "Deployment" for title, _ in shown)


def test_a_bundle_says_what_runs_and_what_was_proved(bundle_analysis):
    shown = facts(words.summary(bundle_analysis))
    assert shown["Deployment", "Runs with"].value == "onnxruntime-cpu"
    assert shown["Deployment", "Options"].words == ("threads = 1",)
    assert shown["Deployment", "Proof"].value == (
        "between 1.90x and 2.10x as fast, equal where 30 dB are required"
    )
    assert shown["Deployment", "Made from"].value == "conv.onnx, 2026-01-01"


def test_a_bundle_without_evidence_says_so(bundle_analysis):
    bare = msgspec.structs.replace(bundle_analysis.deployment, speedup=None, speedup_low=None, speedup_high=None)
    shown = facts(words.summary(msgspec.structs.replace(bundle_analysis, deployment=bare)))
    assert "without a measurement" in shown["Deployment", "Proof"].value


def test_many_files_and_ports_are_counted_and_not_all_listed(analysis):
    many = msgspec.structs.replace(
        analysis,
        external_files=tuple(FileRow(f"part{k}.bin", 2**20) for k in range(20)),
        inputs=tuple(Tensor(f"past{k}", "float16", None) for k in range(60)),
    )
    values = [fact.value for group in words.summary(many) for fact in group.facts]
    assert "part0.bin, 1 MiB" in values
    assert "and 8 more files" in values
    assert "and 56 more" in values
    assert "float16 ?" in values


def test_bars_are_the_operators_with_their_counts(analysis):
    bars = words.bars(analysis)
    assert [(bar.key, bar.text) for bar in bars[:2]] == [("Expand", "18"), ("Constant", "16")]
    assert sum(bar.value for bar in bars) == 95
    conv = next(bar for bar in bars if bar.key == "Conv")
    assert conv.tip == "Conv: 9 nodes, 9% of all, 37.2 KiB of weights"


def test_a_node_tells_its_tensors():
    node = NodeRow(
        7,
        "",
        "FusedConv",
        "com.microsoft",
        (Tensor("x", "float32", ("batch", 3, None)), Tensor(""), *(Tensor(f"c{k}") for k in range(20))),
        (Tensor("y", None, ()),),
        864,
        216,
        "loop/body",
    )
    shown = [(fact.name, fact.value) for fact in words.node_facts(node)[0].facts]
    assert shown[:6] == [
        ("Operator", "com.microsoft.FusedConv"),
        ("Name", "none"),
        ("Inside", "loop/body"),
        ("Work", "unknown"),
        ("Input", "x  ·  float32  [batch, 3, ?]"),
        ("Input", "left out  ·  ?  ?"),
    ]
    assert ("Input", "and 10 more") in shown
    assert shown[-2:] == [("Output", "y  ·  ?  []"), ("Weights", "864 bytes, 216 parameters")]


def test_a_bundle_with_several_outputs_says_how_accurate_each_is(bundle_analysis):
    outputs = (ProvedOutput("boxes", 41.26), ProvedOutput("classes", 20.0, 0.975, counted=True), ProvedOutput("s"))
    proved = msgspec.structs.replace(bundle_analysis.deployment, outputs=outputs)
    shown = facts(words.summary(msgspec.structs.replace(bundle_analysis, deployment=proved)))
    values = [shown["Accuracy by output", name].value for name in ("boxes", "classes", "s")]
    assert values == ["41.3 dB", "97.5% equal", "unknown"]


def test_a_bundle_with_one_output_has_no_rows_for_outputs(bundle_analysis):
    proved = msgspec.structs.replace(bundle_analysis.deployment, outputs=(ProvedOutput("logits", 41.26),))
    shown = facts(words.summary(msgspec.structs.replace(bundle_analysis, deployment=proved)))
    assert not any(title == "Accuracy by output" for title, _ in shown)
