"""The model of a bundle is found by its content, not by its name alone."""

import hashlib
import shutil

import pytest

from edgeopt.bundle.deployment import Source
from edgeopt_gui.source_model import source_of
from edgeopt_gui.subject import subject_at


@pytest.fixture
def copied(tmp_path, conv_bundle, conv_model, change_deployment):
    bundle = shutil.copytree(conv_bundle, tmp_path / "out" / "conv.edgeopt")
    content = conv_model.read_bytes()
    source = Source(conv_model.name, hashlib.sha256(content).hexdigest(), len(content))
    change_deployment(bundle, source=source)
    return bundle


def test_it_is_found_beside_the_bundle_and_among_recent_files(copied, conv_model, tmp_path):
    elsewhere = tmp_path / "models" / conv_model.name
    elsewhere.parent.mkdir()
    shutil.copyfile(conv_model, elsewhere)
    assert source_of(copied, ()) == (conv_model.name, None)
    assert source_of(copied, (tmp_path / "other.onnx", elsewhere)).path == elsewhere
    beside = copied.parent / conv_model.name
    beside.write_bytes(b"another model of this name")
    assert source_of(copied, (elsewhere,)).path == elsewhere
    shutil.copyfile(conv_model, beside)
    assert source_of(copied, (elsewhere,)).path == beside


def test_the_window_opens_it(qtbot, open_window, context, copied, conv_model):
    window = open_window()
    assert window.why_not_open_source() == "No bundle is open."
    shutil.copyfile(conv_model, copied.parent / conv_model.name)
    context.open(subject_at(copied))
    window.book["app.open-source"].shown.trigger()
    qtbot.waitUntil(lambda: context.subject.kind == "model")
    assert context.subject.path == copied.parent / conv_model.name
