"""Search of a speech model on the page: its encoder and its decoder have candidates and verdicts of their own."""

import msgspec

from edgeopt import events
from edgeopt.views.outcome import headline
from edgeopt_gui.pages.optimize.board import Board
from edgeopt_gui.pages.optimize.verdict import Verdict


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
