import pytest
from onnx import helper, load, save

from edgeopt.commands.analyze import dry_run as module
from edgeopt.commands.analyze.dry_run import dry_run
from edgeopt.graph.passes.base import Pass


@pytest.fixture
def passes(monkeypatch):
    def use(*names_or_passes):
        known = {one.name: one for one in module.standard_passes()}
        chosen = tuple(known.get(each, each) for each in names_or_passes)
        monkeypatch.setattr(module, "standard_passes", lambda: chosen)

    return use


def test_what_the_passes_would_do_and_which_nodes_go(conv_model):
    before = conv_model.read_bytes()
    found = dry_run(conv_model, 60.0)
    identity = next(each for each in found.rewrites if "Identity_2" in {node.name for node in each.gone})
    assert identity.kind == "cleaning"
    assert identity.whats
    assert not found.not_asked
    assert conv_model.read_bytes() == before


def test_without_time_the_passes_are_named_and_not_asked(conv_model):
    found = dry_run(conv_model, -1.0)
    assert found.rewrites == ()
    assert "identities" in found.not_asked


def test_passes_on_request_are_not_asked(conv_model, passes):
    one = next(each for each in module.standard_passes() if each.name == "identities")
    passes(Pass(one.name, one.title, one.apply, on_request=True))
    assert dry_run(conv_model, 60.0).rewrites == ()


def test_a_pass_that_fails_does_not_take_the_others_along(conv_model, passes):
    def fail(model_ir, context):
        raise RuntimeError(model_ir, context)

    passes(Pass("failing", "fails", fail), "identities")
    assert [each.pass_name for each in dry_run(conv_model, 60.0).rewrites] == ["identities"]


def test_notes_that_name_folders_of_the_exporter(conv_model, tmp_path):
    proto = load(conv_model)
    proto.graph.node[0].doc_string = 'File "/home/somebody/secret/model.py", line 7, in forward'
    proto.graph.node[1].name = "/model/home/Relu"  # a usual name
    helper.set_model_props(proto, {"exported_at": r"C:\Users\somebody\work"})
    path = tmp_path / "leaking.onnx"
    save(proto, path)
    found = dry_run(path, -1.0)
    assert {leak.text for leak in found.leaks} == {"/home/somebody/secret/model.py", r"C:\Users\somebody\work"}
    assert found.leaks_count == 2
    assert found.metadata_bytes > 60
    assert dry_run(conv_model, -1.0).leaks == ()
