"""Search of a speech model on the page: its encoder and its decoder have candidates and verdicts of their own."""

import msgspec
import numpy as np

from edgeopt import events
from edgeopt.views.outcome import headline
from edgeopt_gui.pages.optimize.board import Board
from edgeopt_gui.pages.optimize.data_field import DataField
from edgeopt_gui.pages.optimize.verdict import Verdict
from edgeopt_gui.subject import Subject
from tests.bundle.runtime.speech import LOW_HZ, tone, write_speech, write_wav


def test_candidates_of_an_encoder_and_of_its_decoder_have_rows_of_their_own(won):
    board, name = Board(), won.baseline.name
    for part in ("encoder", "decoder"):
        board.apply(events.Standing(name, "racing", latency_ms=2.0, speedup=0.9, subject=part))
        board.apply(events.Standing(won.winner.name, "racing", latency_ms=1.0, speedup=2.0, subject=part))
    assert board.rows[f"encoder: {name}"].speedup == board.rows[f"decoder: {name}"].speedup == 1
    assert [row.part for row in board.rows.values()] == ["encoder", "encoder", "decoder", "decoder"]
    assert board.best.name == f"decoder: {won.winner.name}"
    lost = msgspec.structs.replace(won, verdict="keep what you have", winner=won.baseline, warnings=("cold",))
    board.finish(msgspec.structs.replace(won, encoder=lost))
    assert board.rows[f"decoder: {won.winner.name}"].status == "winner"
    assert board.rows[f"decoder: {won.winner.name}"].candidate == won.winner.name
    assert board.rows[f"encoder: {name}"].status == "kept"
    assert {row.trade for row in board.rows.values() if row.part == "encoder"} == {""}
    assert board.warnings[-1] == "Encoder: cold"


def test_the_verdict_of_a_speech_model_names_both_parts(qtbot, context, won):
    verdict = Verdict()
    qtbot.addWidget(verdict)
    kept = msgspec.structs.replace(won, verdict="keep what you have", winner=won.baseline, warnings=("cold",))
    verdict.set(msgspec.structs.replace(won, encoder=kept))
    assert verdict.headline.text() == f"Decoder: {headline(won)}; encoder: keep what you have"
    for shown in (verdict.explanation.text(), verdict.proof.text()):
        assert [line.split()[0] for line in shown.splitlines()] == ["Decoder:", "Encoder:"]
    assert "⚠ Encoder: cold" in verdict.limits.text()


def test_audio_is_data_of_a_speech_model_only(qtbot, context, tmp_path, relu_model):
    model, voices, other = write_speech(tmp_path / "m.onnx"), tmp_path / "voices", tmp_path / "other.npz"
    voices.mkdir()
    for name in ("a.wav", "b.wav"):
        write_wav(voices / name, tone(LOW_HZ, 1))
    np.savez(other, x=np.zeros((4, 2), np.float32))
    features = tmp_path / "features.npz"
    np.savez(features, input_features=np.zeros((4, 1, 80, 7), np.float32))
    field = DataField(context)
    qtbot.addWidget(field)
    context.open(Subject(model, "model"))

    def use(path, begin):
        context.use_data(path)
        qtbot.waitUntil(lambda: field.use.text().startswith(begin))
        return field.problem

    assert use(voices, "2 WAV files.") == ""
    assert use(features, "Features of 4 windows of audio.") == ""
    assert use(other, "'other.npz' has no WAV files and no array 'input_features' of features.")
    context.open(Subject(relu_model, "model"))
    assert use(voices, "'voices' is audio, which only the search of a speech model takes.")
