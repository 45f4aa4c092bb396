import msgspec
import numpy as np
import pytest

from edgeopt.commands.report.facts import AccuracyFacts
from edgeopt.commands.report.report import gather
from edgeopt.commands.report.sections import candidates, model, verdict
from edgeopt.graph.accuracy import compare_outputs
from edgeopt.graph.analysis import OpTimeRow, OpTimes
from edgeopt.views.blocks import Chart, Figures, Table, WordsBlock


@pytest.fixture(scope="module")
def facts(raced_bundle):
    return gather(raced_bundle, nodes=False)


def measured(facts, least_ms):
    """The section of nodes, of one kernel with this lower bound."""
    row = OpTimeRow("conv", "Conv", 1.0, 1.0, ("n",), operations=10, moved_bytes=10, least_ms=least_ms)
    times = OpTimes("onnxruntime-cpu", "1", 1, 3, 1.0, 1.0, 1.0, (row,))
    blocks = model.nodes_section(msgspec.structs.replace(facts, nodes=times, bounds=())).blocks
    chart = next(each for each in blocks if isinstance(each, Chart))
    table = next(each for each in blocks if isinstance(each, Table))
    return chart.caption, [column.title for column in table.columns]


def test_peaks_are_named_only_where_they_were_measured(facts):
    caption, titles = measured(facts, None)
    assert "peaks" not in caption
    assert not {"of the peak", "bound by"} & set(titles)
    caption, titles = measured(facts, 0.5)
    assert "measured peaks" in caption
    assert {"of the peak", "bound by"} <= set(titles)


def test_equal_outputs_are_a_proper_sentence(facts):
    found = AccuracyFacts(200.0, 30.0, samples=15, set_aside=True, low_db=200.0, lowest_db=200.0)
    said = candidates.accuracy_section(msgspec.structs.replace(facts, accuracy=found)).blocks[0]
    assert isinstance(said, WordsBlock)
    assert said.text == (
        "All outputs are equal to those of the source model; the floor is 30 dB. Proved on 15 samples set aside."
    )


def test_device_section_states_why_the_device_is_unknown(facts):
    why = "The probe failed."
    unknown = msgspec.structs.replace(facts, device=None, unknown={"device": why})
    assert WordsBlock(why, "faint") in verdict.device_section(unknown).blocks
    silent = msgspec.structs.replace(facts, device=None, unknown={})
    assert not any(
        isinstance(each, WordsBlock) and each.mood == "faint" for each in verdict.device_section(silent).blocks
    )


def test_equal_outputs_without_values_are_not_called_accurate(facts):
    nan = [{"y": np.full(3, np.nan)}]
    outputs = tuple(each.without_samples() for each in compare_outputs(nan, nan).outputs)
    found = AccuracyFacts(200.0, 30.0, samples=8, outputs=outputs, outputs_on="the samples of the proof")
    empty = msgspec.structs.replace(facts, accuracy=found)
    said = candidates.accuracy_section(empty).blocks[0].text
    assert said.startswith(
        "The accuracy is not proved: all outputs are NaN, infinite, empty or zero on the samples"
    )
    figures = next(each for each in verdict.verdict_section(empty).blocks if isinstance(each, Figures))
    assert [each.value for each in figures.figures if each.label == "Accuracy"] == ["not proved"]
