"""The head of a finished search, with the buttons for what comes next."""

from PySide6.QtWidgets import QLabel

from edgeopt_gui.pages.optimize.result import comparison, read_result
from edgeopt_gui.pages.optimize.verdict import Verdict
from edgeopt_gui.widgets.action_button import ActionButton


def test_before_and_after_can_be_read(qtbot, context, result):
    verdict = Verdict()
    qtbot.addWidget(verdict)
    verdict.set(result)
    texts = {label.text() for label in verdict.findChildren(QLabel)}
    for compared in comparison(result):
        assert {compared.what, compared.after} <= texts
    assert any(f"was {comparison(result)[0].before}" in text for text in texts)
    keys = [button.key for button in verdict.findChildren(ActionButton)]
    assert keys == [
        "optimize.fresh", "optimize.save", "optimize.report", "optimize.export-as", "optimize.live"
    ]  # fmt: skip


def test_to_keep_the_model_reads_calmly(qtbot, context, found):
    verdict = Verdict()
    qtbot.addWidget(verdict)
    verdict.set(read_result({**found, "verdict": "keep what you have", "winner": found["baseline"]}))
    assert verdict.headline.text() == "Keep what you have"
    assert "already as fast" in verdict.explanation.text()


def test_what_comes_from_the_cache_offers_to_measure_again(qtbot, context, found):
    verdict = Verdict()
    qtbot.addWidget(verdict)
    verdict.show()
    verdict.set(read_result({**found, "from_cache": ""}))
    assert not verdict.condition.isVisible()
    verdict.set(read_result({**found, "from_cache": "2026-05-01T11:48:00+00:00"}))
    assert verdict.condition.isVisible()
    (fresh,) = [button for button in verdict.findChildren(ActionButton) if button.key == "optimize.fresh"]
    assert fresh.isVisible()


def test_a_note_is_only_there_when_there_is_something_to_say(qtbot, context):
    verdict = Verdict()
    qtbot.addWidget(verdict)
    verdict.show()
    assert not verdict.note.isVisible()
    verdict.say("Saved as /x.")
    assert verdict.note.isVisible()
