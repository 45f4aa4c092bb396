from pathlib import Path

import pytest

from edgeopt.search.making.messages import Planned
from edgeopt.search.making.variants import Variants
from edgeopt.search.outcome import Candidate, VariantReport


def test_each_backend_runs_its_own_file_where_there_is_one():
    made = Variants(("fold-constants",))
    made.leave_out(VariantReport("int8", "eight bits", failure="needs data"))
    made.enter(VariantReport("cleaned", "clean", 5), Path("c.onnx"))
    plan = Planned("openvino-cpu", {}, "p.onnx", (), {"w8": ["a"]})
    made.enter(VariantReport("planned", "a plan", 3, backends=("openvino-cpu",)), Path("p.onnx"), plan)

    assert [report.name for report in made.reports] == ["int8", "cleaned", "planned"]
    assert made.has("cleaned")
    assert made.has("cleaned", "openvino-cpu")
    assert made.path("cleaned", "openvino-cpu") == Path("c.onnx")
    assert made.has("planned", "openvino-cpu")
    assert not made.has("planned", "onnxruntime-cpu")
    assert not made.has("int8")
    with pytest.raises(KeyError):
        made.path("planned", "onnxruntime-cpu")
    own, other = Candidate("planned", "openvino-cpu"), Candidate("planned", "onnxruntime-cpu")
    assert (made.size_bytes(own), made.size_bytes(other)) == (3, None)
    assert made.planned(own) is plan
    assert made.planned(Candidate("cleaned", "openvino-cpu")) is None
