"""The head of a finished search, with the buttons for what comes next."""

from PySide6.QtWidgets import QLabel

from edgeopt_gui.pages.optimize.result import comparison, read_result
from edgeopt_gui.pages.optimize.verdict import Verdict
from edgeopt_gui.widgets.action_button import ActionButton


def test_before_and_after_can_be_read(qtbot, context, won):
    result = won
    verdict = Verdict()
    qtbot.addWidget(verdict)
    verdict.set(result)
    texts = {label.text() for label in verdict.findChildren(QLabel)}
    for compared in comparison(result):
        assert {compared.what, compared.after} <= texts
    assert any(f"was {comparison(result)[0].before}" in text for text in texts)
    keys = [button.key for button in verdict.findChildren(ActionButton)]
    assert keys == [
        "optimize.fresh", "optimize.longer", "optimize.save", "optimize.report", "optimize.export-as",
        "optimize.live",
        "optimize.compare",
    ]  # fmt: skip


def test_to_keep_the_model_reads_calmly(qtbot, context, found):
    verdict = Verdict()
    qtbot.addWidget(verdict)
    verdict.set(read_result({**found, "verdict": "keep what you have", "winner": found["baseline"]}))
    assert verdict.headline.text() == "Keep what you have"
    assert "Nothing was proved faster" in verdict.explanation.text()


def test_what_comes_from_the_cache_offers_to_measure_again(qtbot, context, found):
    verdict = Verdict()
    qtbot.addWidget(verdict)
    verdict.show()
    decided = {**found, "verdict": "keep what you have", "cut_short": ""}
    verdict.set(read_result({**decided, "from_cache": ""}))
    assert not verdict.condition.isVisible()
    verdict.set(read_result({**found, "from_cache": "2026-05-01T11:48:00+00:00"}))
    assert verdict.condition.isVisible()
    (fresh,) = [button for button in verdict.findChildren(ActionButton) if button.key == "optimize.fresh"]
    assert fresh.isVisible()


def test_undecided_offers_to_search_longer_and_to_measure_again(qtbot, context, found):
    verdict = Verdict()
    qtbot.addWidget(verdict)
    verdict.show()
    undecided = {**found, "verdict": "undecided", "undecided": ["too noisy to tell"], "from_cache": ""}
    verdict.set(read_result(undecided))
    offered = {button.key for button in verdict.findChildren(ActionButton) if button.isVisible()}
    assert {"optimize.longer", "optimize.fresh"} <= offered
    verdict.set(read_result({**undecided, "verdict": "keep what you have"}))
    offered = {button.key for button in verdict.findChildren(ActionButton) if button.isVisible()}
    assert "optimize.longer" not in offered


def test_warnings_stand_above_save(qtbot, context, found):
    verdict = Verdict()
    qtbot.addWidget(verdict)
    verdict.resize(700, 500)
    verdict.show()
    verdict.set(read_result({**found, "warnings": ["The time limit is over.", "b", "c", "d"]}))
    assert "The time limit is over." in verdict.limits.text()
    assert "1 more warning in the tab Warnings." in verdict.limits.text()
    assert verdict.headline.y() < verdict.limits.y() < verdict.buttons["optimize.save"].y()
    verdict.set(read_result({**found, "warnings": []}))
    assert not verdict.limits.isVisible()


def test_a_note_is_only_there_when_there_is_something_to_say(qtbot, context):
    verdict = Verdict()
    qtbot.addWidget(verdict)
    verdict.show()
    assert not verdict.note.isVisible()
    verdict.say("Saved as /x.")
    assert verdict.note.isVisible()
