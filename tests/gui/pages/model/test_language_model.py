"""Language models on the page Model: recognized by their cache, with the command that generates text."""

import pytest

from edgeopt.commands.analyze.analyze import analyze
from edgeopt.data.demo import MODEL
from edgeopt_gui.pages.model.content import ModelContent
from edgeopt_gui.pages.model.language_model import language_text, text_command
from tests.bundle.runtime.decoder import write_decoder


@pytest.fixture(scope="module")
def decoder(tmp_path_factory):
    path = tmp_path_factory.mktemp("decoder") / "tiny.onnx"
    write_decoder(path)
    return analyze(path, coverage=False, opportunities=False, run=False)


def test_a_decoder_without_a_tokenizer_says_where_to_put_it(decoder):
    assert "put its tokenizer.json into the folder tiny.text" in language_text(decoder)
    assert text_command(decoder) is None


def test_a_decoder_with_a_tokenizer_has_the_command_that_generates_text(qtbot, decoder, tmp_path):
    path = tmp_path / "tiny.onnx"
    write_decoder(path)
    path.with_suffix(".text").mkdir()
    (path.with_suffix(".text") / "tokenizer.json").touch()
    found = analyze(path, coverage=False, opportunities=False, run=False)
    assert language_text(found) == "generates text"
    view = ModelContent()
    qtbot.addWidget(view)
    view.show_analysis(found)
    assert view.text_command.text().startswith(f"edgeopt run {path} --prompt 'Once upon a time'")
    assert not view.text_command.isHidden()


def test_other_models_have_no_such_command():
    assert language_text(analyze(MODEL, coverage=False, opportunities=False, run=False)) == ""
