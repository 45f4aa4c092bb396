import json

import msgspec
import pytest

from edgeopt.bundle.archive import pack_into
from edgeopt.commands.compare.compare import compare
from edgeopt.commands.compare.request import ModelCompareRequest as CompareRequest
from edgeopt.commands.graph.graph import draw
from edgeopt.commands.graph.request import GraphRequest
from edgeopt.commands.graph.revisions import Revisions
from edgeopt.commands.simplify.request import SimplifyRequest
from edgeopt.commands.simplify.simplify import simplify
from edgeopt.data.demo import MODEL
from edgeopt.errors import InputError, UsageError
from edgeopt.graph import model as model_module


def data_of(path):
    text = path.read_text()
    start = text.index('type="application/json">') + len('type="application/json">')
    return json.loads(text[start : text.index("</script>", start)])


def test_a_model_becomes_one_page(tmp_path):
    found = draw(GraphRequest(MODEL, tmp_path / "graph.html"))
    (model,) = data_of(tmp_path / "graph.html")
    assert found.size_bytes == (tmp_path / "graph.html").stat().st_size
    assert model["name"] == MODEL.name
    assert [each["title"] for each in model["colourings"]] == list(found.colours)


def test_two_models_are_coloured_by_what_changed(tmp_path):
    small = tmp_path / "small.onnx"
    simplify(SimplifyRequest(MODEL, small))
    found = draw(GraphRequest(MODEL, tmp_path / "changes.html", against=small))
    first, second = data_of(tmp_path / "changes.html")
    assert found.changes is not None
    assert found.changes.kept
    assert first["colourings"][0]["title"] == second["colourings"][0]["title"] == "Change"
    words = {word for _, word in first["colourings"][0]["legend"]}
    assert "kept" in words
    assert words & {"removed", "fused", "changed"}


def test_measured_times_come_first(tmp_path):
    found = draw(GraphRequest(MODEL, tmp_path / "graph.html", profile_ops=True, backends=("onnxruntime-cpu",)))
    assert found.colours[0] == "Measured time, onnxruntime-cpu"


def test_an_svg_is_written_too(tmp_path):
    draw(GraphRequest(MODEL, tmp_path / "graph.svg"))
    assert (tmp_path / "graph.svg").read_text().startswith("<svg")


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"out": "graph.pdf"}, "written as .html, .svg or .json"),
        ({"out": "graph.svg", "against": MODEL}, "An SVG shows one graph"),
        ({"out": "graph.html", "backends": ("onnxruntime-cpu",)}, "--backend says where to measure"),
    ],
)
def test_what_does_not_go_together_is_refused(tmp_path, fields, said):
    out = tmp_path / fields.pop("out")
    with pytest.raises(UsageError, match=said):
        draw(GraphRequest(MODEL, out, **fields))
    assert not out.exists()


def test_the_graph_after_each_pass_says_what_the_pass_did(tmp_path):
    found = draw(GraphRequest(MODEL, tmp_path / "passes.html", passes=True))
    models = data_of(tmp_path / "passes.html")
    assert found.graphs == len(models) > 3
    assert models[0]["name"] == MODEL.name
    folded = next(each for each in models if each["name"] == "fold-constants")
    assert folded["what"]
    counts = [sum(box[4] == "node" for box in each["boxes"]) for each in models]
    assert counts == sorted(counts, reverse=True)


def test_json_holds_the_revisions(tmp_path):
    draw(GraphRequest(MODEL, tmp_path / "passes.json", passes=True))
    found = msgspec.json.decode((tmp_path / "passes.json").read_bytes(), type=Revisions)
    assert found.revisions[0].is_first
    assert all(each.changes is not None for each in found.revisions)
    assert len(found.revisions[-1].nodes) < len(found.revisions[0].nodes)


def test_a_folder_that_is_not_there_is_told_before_anything_is_read(tmp_path):
    phases = []
    out = tmp_path / "nowhere" / "graph.html"
    with pytest.raises(UsageError, match="does not exist"):
        draw(GraphRequest(MODEL, out), phases.append)
    with pytest.raises(UsageError, match="does not exist"):
        compare(CompareRequest(MODEL, MODEL, html=out), phases.append)
    assert phases == []


def test_a_broken_model_leaves_no_page(tmp_path):
    broken = tmp_path / "broken.onnx"
    broken.write_bytes(MODEL.read_bytes()[:2000])
    with pytest.raises(InputError, match="cut short"):
        draw(GraphRequest(broken, tmp_path / "graph.html"))
    assert not (tmp_path / "graph.html").exists()


def test_compare_writes_the_same_page(tmp_path):
    small = tmp_path / "small.onnx"
    simplify(SimplifyRequest(MODEL, small))
    compare(CompareRequest(MODEL, small, html=tmp_path / "changes.html"))
    first, second = data_of(tmp_path / "changes.html")
    assert [first["name"], second["name"]] == [MODEL.name, "small.onnx"]
    assert first["colourings"][0]["title"] == "Change"


def test_a_graph_that_cannot_be_compared_is_refused_before_anything_runs(tmp_path):
    openvino = pytest.importorskip("openvino")
    openvino.save_model(openvino.convert_model(MODEL), tmp_path / "model.xml")
    phases = []
    request = CompareRequest(MODEL, tmp_path / "model.xml", html=tmp_path / "changes.html")
    with pytest.raises(InputError, match="Only graphs of ONNX models"):
        compare(request, lambda event: phases.append(event.phase))
    assert phases == ["load"]
    with pytest.raises(InputError, match="holds an OpenVINO IR"):
        draw(GraphRequest(MODEL, tmp_path / "changes.html", against=tmp_path / "model.xml"))
    assert not (tmp_path / "changes.html").exists()


@pytest.mark.parametrize(
    "options", [{"passes": True}, {"against": "other"}, {}], ids=["passes", "against", "alone"]
)
def test_each_model_is_read_once(tmp_path, monkeypatch, options):
    other = tmp_path / "other.onnx"
    other.write_bytes(MODEL.read_bytes())
    read, paths = model_module._load, []

    def counted(path, onnx):
        paths.append(path)
        return read(path, onnx)

    monkeypatch.setattr(model_module, "_load", counted)
    against = other if "against" in options else None
    draw(GraphRequest(MODEL, tmp_path / "graph.json", against=against, passes="passes" in options))
    assert paths == [MODEL, *([other] if against else [])]


def test_the_passes_are_shown_of_a_bundle_that_is_one_file(tmp_path, conv_bundle):
    single = tmp_path / "conv-file.edgeopt"
    pack_into(conv_bundle, single)
    draw(GraphRequest(single, tmp_path / "graph.json", passes=True))
    found = msgspec.json.decode((tmp_path / "graph.json").read_bytes(), type=Revisions)
    assert found.revisions[0].title == "conv-file.edgeopt"
