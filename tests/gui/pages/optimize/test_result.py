"""What is said of a search's outcome."""

import errno
import shutil
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import numpy as np
import pytest
from PySide6.QtCore import QObject, Slot
from PySide6.QtGui import QDesktopServices
from PySide6.QtWidgets import QLabel

from edgeopt import events
from edgeopt.bundle.manifest import check_manifest
from edgeopt.bundle.read import read_bundle
from edgeopt.data.demo import DATA
from edgeopt.data.judging.metric import Judged, TokenAgreement
from edgeopt.data.levels import alike_inputs
from edgeopt.data.samples import Samples
from edgeopt.errors import BundleError, EdgeoptError, UsageError
from edgeopt.measure.messages import Memory
from edgeopt.measure.stats import UNITY
from edgeopt.views import words
from edgeopt.views.outcome import explanation, headline, proof_lines
from edgeopt_gui.pages.optimize.board import Board
from edgeopt_gui.pages.optimize.handing import Handing
from edgeopt_gui.pages.optimize.result import (
    comparison,
    condition,
    limits,
    read_result,
)
from edgeopt_gui.pages.optimize.run import Run
from edgeopt_gui.pages.optimize.saving import export_deployment, save_bundle
from edgeopt_gui.pages.optimize.standing import Standing
from edgeopt_gui.pages.optimize.trade import trade_of
from edgeopt_gui.pages.optimize.verdict import Verdict
from edgeopt_gui.widgets.action_button import ActionButton


@pytest.fixture
def faster(found):
    """The outcome as if it had been faster: whether it truly was is the machine's business."""
    speedup = {"median": 3.19, "low": 1.9, "high": 6.65, "rounds": 11, "confidence": 0.9958}
    proof = {
        **found["proof"],
        "verdict": "faster",
        "speedup": speedup,
        "baseline_ms": 0.182,
        "latency_ms": 0.0571,
        "accuracy_db": 128.7,
    }
    winner = {**found["winner"], "variant": "cleaned"}
    return {**found, "verdict": "faster", "winner": winner, "proof": proof, "found": "", "undecided": []}


KEPT = {
    "verdict": "keep what you have",
    "found": "nothing within 30 dB is proved faster than source.",
}


def proof_line(result):
    return " ".join(proof_lines(result))


def test_the_verdict_is_the_summary_of_the_search(faster):
    result = read_result(faster)
    assert headline(result) == "3.19x faster"
    assert explanation(result) == result.summary


def test_the_proof_says_interval_confidence_rounds_and_samples(faster):
    line = proof_line(read_result(faster))
    for part in (
        "3.19x [1.90 6.65]",
        "99.6 % interval",
        "11 interleaved rounds",
        "8 samples set aside",
        "target quick",
    ):
        assert part in line


def test_to_keep_the_model_is_explained_and_no_error(found):
    kept = read_result(
        {**found, **KEPT, "winner": found["baseline"], "proof": {**found["proof"], "verdict": "identical"}}
    )
    assert headline(kept) == "Keep what you have"
    assert comparison(kept)[0].change == "unchanged"
    assert "unchanged" in explanation(kept)
    assert "runs your model unchanged" in proof_line(kept)


def test_undecided_says_why_and_what_to_do(found):
    undecided = read_result(
        {
            **found,
            "verdict": "undecided",
            "winner": found["baseline"],
            "found": "the proof is too noisy to tell (1.10x [0.53 2.10]); 2 variants not ready.",
        }
    )
    assert headline(undecided) == "Undecided"
    assert explanation(undecided).startswith("The proof is too noisy to tell (1.10x [0.53 2.10]); 2 variants")
    assert "as fast" not in explanation(undecided)
    latency, memory, _ = comparison(undecided)
    assert (latency.before, latency.change) == ("", "unchanged")
    assert (memory.before, memory.change) == ("", "unchanged")


def test_headline_latencies_and_proof_give_one_ratio(won):
    assert headline(won) == "3.04x faster"
    latency = comparison(won)[0]
    assert (latency.before, latency.after) == ("189 µs", "62.2 µs")


def test_another_objective_is_told_by_its_figures(faster):
    proof = {**faster["proof"], "figure": 45.2 * 2**20, "baseline_figure": 66.5 * 2**20}
    result = read_result({**faster, "verdict": "better", "objective": "memory", "proof": proof})
    assert headline(result) == "45.2 MiB instead of 66.5 MiB"
    assert explanation(result) == faster["summary"]


def test_what_was_picked_is_called_so(faster):
    picked = read_result({**faster, "verdict": "picked"})
    assert headline(picked) == "3.19x the speed, as picked"
    assert not explanation(picked).startswith("Picked")
    assert proof_line(picked).startswith("Proved")


def test_a_metric_stands_where_the_floor_would(faster):
    proof = {**faster["proof"], "judged": "top-1 with labels 98 %"}
    goal = {"floor_db": 0.0, "goal": "top-1 with labels at least 97 %"}
    kept = read_result({**faster, **goal, **KEPT, "proof": proof})
    assert "top-1 with labels at least 97 %" in proof_line(kept)
    assert "top-1 with labels 98 %" in proof_line(kept)
    assert comparison(kept)[2].change == "no floor in dB"


DECODERS = [
    ("tokens-per-second", ("Tokens per second", "5,495", "17,527", "+219.0 %")),
    ("first-token", ("First token", "182 µs", "57.1 µs", "-68.7 %")),
]


@pytest.mark.parametrize(("objective", "told"), DECODERS)
def test_a_decoder_is_told_by_its_tokens(faster, objective, told):
    tokens = TokenAgreement(0.956, 0.94, 0.97, 258, 0.03, 0)
    metric = msgspec.to_builtins(Judged("kl", 0.0123, 0.016, 18, high=0.009, tokens=tokens))
    proof = {**faster["proof"], "metric": metric}
    speed, _, judged = comparison(read_result({**faster, "objective": objective, "proof": proof}))
    assert (speed.what, speed.before, speed.after, speed.change.replace("\N{MINUS SIGN}", "-")) == told
    assert (judged.after, judged.change) == ("KL 0.012, 95.6 %", "intervals [0.009 0.016], [94 97] %")


def test_the_weakest_level_of_input_is_named(faster):
    level = {"output": "y", "snr_db": 31.5, "low_db": 30.2, "samples": 3, "share": 0.01, "levels": 2}
    told = proof_line(read_result({**faster, "proof": {**faster["proof"], "weakest": level}}))
    assert "Of 2 levels of input the weakest decides: 'y' has 31.5 dB on the 3 samples" in told


def test_what_runs_today_is_kept_as_such(faster):
    today = {**faster["winner"], "variant": "current"}
    kept = read_result({**faster, **KEPT, "winner": today})
    assert "what runs today" in explanation(kept)


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ({}, ""),
        ({"from_cache": "2026-05-01T11:48:00+00:00"}, "Measured 12 minutes ago; nothing was measured now."),
        ({"from_cache": "2026-04-29T12:00:00+00:00"}, "Measured 2 days ago; nothing was measured now."),
        ({"from_cache": "long ago"}, "Measured at long ago; nothing was measured now."),
        ({"cut_short": "It was stopped."}, "It was stopped. Search again to continue from the cache."),
    ],
)
def test_what_was_not_measured_now_or_not_to_the_end_says_so(faster, told, said):
    now = datetime(2026, 5, 1, 12, tzinfo=UTC)
    assert condition(read_result({**faster, "from_cache": "", "cut_short": "", **told}), now) == said


def test_an_interval_without_ends_is_said_so(faster):
    speedup = {**faster["proof"]["speedup"], "low": 0.0, "high": None}
    proof = {**faster["proof"], "speedup": speedup}
    assert "no usable interval" in proof_line(read_result({**faster, "proof": proof}))


def test_levels_of_the_built_in_sample_do_not_limit_the_verdict(faster):
    with np.load(DATA) as arrays:
        samples = Samples(dict(arrays), {name: arrays[name].ndim for name in arrays.files})
    (alike,) = alike_inputs(samples)
    result = read_result({**faster, "warnings": [alike.warning, "The device throttled."]})
    assert limits(result) == ("The device throttled.",)


def test_before_and_after_stand_side_by_side(faster):
    latency, memory, accuracy = comparison(read_result(faster))
    assert (latency.before, latency.after) == ("182 µs", "57.1 µs")
    assert latency.change.endswith("68.7 %")
    winner = next(each for each in read_result(faster).candidates if each.status == "winner")
    assert (memory.after, memory.change.partition("\n")[2]) == words.memory_parts(winner.memory)
    assert (accuracy.after, accuracy.change) == ("128.7 dB", "floor 30 dB")


def test_a_newer_outcome_with_more_in_it_is_read(found):
    assert read_result({**found, "carbon_g": 3}).model == "conv.onnx"


def test_what_is_no_outcome_is_refused():
    with pytest.raises(msgspec.ValidationError):
        read_result({"model": "x"})


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
        "optimize.deploy", "optimize.live",
        "optimize.compare", "",
    ]  # fmt: skip


def test_to_keep_the_model_reads_calmly(qtbot, context, found):
    verdict = Verdict()
    qtbot.addWidget(verdict)
    verdict.set(read_result({**found, **KEPT, "winner": found["baseline"]}))
    assert verdict.headline.text() == "Keep what you have"
    assert "Nothing within 30 dB is proved faster" in verdict.explanation.text()


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


@pytest.fixture
def pair(result):
    """The winner, and one that is slower and smaller."""
    winner = next(each for each in result.candidates if each.candidate == result.winner)
    candidate = msgspec.structs.replace(winner.candidate, variant="other")
    other = msgspec.structs.replace(
        winner,
        candidate=candidate,
        status="lost",
        speedup=msgspec.structs.replace(UNITY, median=1.5),
        accuracy_db=33.1,
        memory=Memory(peak_bytes=60 << 20, added_bytes=20 << 20),
        size_bytes=1 << 20,
    )
    winner = msgspec.structs.replace(
        winner,
        speedup=msgspec.structs.replace(UNITY, median=3.0),
        accuracy_db=128.9,
        memory=Memory(peak_bytes=70 << 20, added_bytes=30 << 20),
        size_bytes=1 << 20,
    )
    return winner, other


def told(result, winner, other):
    return trade_of(other, msgspec.structs.replace(result, candidates=(winner, other)))


def test_speed_accuracy_and_memory_are_held_against_the_winner(result, pair):
    assert told(result, *pair) == (
        "Instead of the winner: 2.0x the latency, accuracy 33.1 dB instead of 128.9 dB, "
        "memory added 20 MiB (process 60 MiB) instead of 30 MiB (process 70 MiB)."
    )


@pytest.mark.parametrize("status", ["below the floor", "over a limit", "failed", "not tried"])
def test_what_may_not_be_delivered_has_no_trade(result, pair, status):
    winner, other = pair
    assert told(result, winner, msgspec.structs.replace(other, status=status)) == ""
    assert told(result, winner, winner) == ""


def test_a_search_that_is_not_cached_delivers_no_other_candidate(found, pair):
    assert told(read_result({**found, "is_cached": False}), *pair) == ""


def test_beside_what_runs_today_it_is_held_against_the_model(found, pair):
    today = {**found["winner"], "variant": "current"}
    result = read_result({**found, "winner": today})
    assert told(result, *pair) == "It had 1.50x the speed of your model."


def test_the_best_so_far_stands_large_with_its_interval(qtbot, context):
    standing, board = Standing(), Board()
    qtbot.addWidget(standing)
    standing.set(board, cancelling=False)
    assert standing.best.text() == "Nothing faster in the race yet"
    board.apply(events.Progress("racing", done=1, total=9, time_left_s=20))
    board.apply(
        events.Standing(
            "cleaned · x", "racing", latency_ms=0.5, speedup=2.5, speedup_low=2.1, speedup_high=2.9, accuracy_db=40
        )
    )
    standing.set(board, cancelling=False)
    assert standing.best.text() == "2.50x in the race, not proved"
    assert standing.detail.text() == "cleaned · x · between 2.10x and 2.90x · 500 µs · accuracy 40.0 dB"
    assert "round 1 of 9" in standing.line.text()


def test_a_search_that_is_being_cancelled_says_so(qtbot, context):
    standing = Standing()
    qtbot.addWidget(standing)
    standing.set(Board(), cancelling=True)
    assert standing.line.text().startswith("Stopping")


def test_the_copy_is_a_sound_bundle_and_the_first_one_stays(bundle, tmp_path):
    target = tmp_path / "saved" / "mine.edgeopt"
    target.parent.mkdir()
    assert save_bundle(bundle, target) == target
    check_manifest(target)
    check_manifest(bundle)
    assert [p.name for p in target.parent.iterdir()] == ["mine.edgeopt"]


def test_it_can_be_saved_as_one_file(bundle, tmp_path):
    target = save_bundle(bundle, tmp_path / "mine.edgeopt", single_file=True)
    assert target.is_file()
    assert read_bundle(target).deployment.source.name == "conv.onnx"


def test_an_older_bundle_is_replaced(bundle, tmp_path):
    target = shutil.copytree(bundle, tmp_path / "old.edgeopt")
    (target / "deployment.toml").write_text("damaged")
    save_bundle(bundle, target)
    check_manifest(target)


def test_what_is_no_bundle_is_not_replaced(bundle, tmp_path):
    target = tmp_path / "papers"
    target.mkdir()
    (target / "thesis.txt").write_text("precious")
    with pytest.raises(UsageError) as raised:
        save_bundle(bundle, target)
    assert "-o" not in raised.value.hint
    assert (target / "thesis.txt").read_text() == "precious"


def test_a_bundle_is_not_saved_into_the_place_of_its_own_folder(bundle):
    with pytest.raises(UsageError):
        save_bundle(bundle, bundle.parent)
    check_manifest(bundle)
    assert save_bundle(bundle, bundle) == bundle


def test_a_damaged_bundle_is_not_handed_on(bundle, tmp_path):
    (bundle / "model" / "conv.onnx").write_bytes(b"cut off")
    with pytest.raises(BundleError):
        save_bundle(bundle, tmp_path / "new.edgeopt")
    assert not (tmp_path / "new.edgeopt").exists()


def test_a_full_disk_leaves_what_was_there(bundle, tmp_path, monkeypatch):
    target = shutil.copytree(bundle, tmp_path / "old.edgeopt")
    before = (target / "manifest.json").read_bytes()

    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(shutil, "copytree", full)
    with pytest.raises(EdgeoptError) as raised:
        save_bundle(bundle, target)
    assert "The disk is full" in raised.value.message
    assert "Free some space" in raised.value.hint
    assert (target / "manifest.json").read_bytes() == before
    assert {p.name for p in tmp_path.iterdir() if p.name.startswith(".")} == set()


def test_the_profile_alone_is_exported_as_it_is(bundle, tmp_path):
    target = tmp_path / "out.toml"
    target.write_text("older")
    export_deployment(bundle, target)
    assert target.read_bytes() == (bundle / "deployment.toml").read_bytes()
    assert [p.name for p in tmp_path.glob(".*")] == []


def test_an_export_to_nowhere_says_so(bundle, tmp_path):
    with pytest.raises(EdgeoptError, match="was not saved"):
        export_deployment(bundle, tmp_path / "missing" / "out.toml")


PATIENCE_MS = 60_000


class Reader(QObject):
    """In place of the user's browser."""

    def __init__(self):
        super().__init__()
        self.opened = []

    @Slot("QUrl")
    def read(self, url):
        self.opened.append(url.toLocalFile())


@pytest.fixture
def reader(qapp):
    made = Reader()
    QDesktopServices.setUrlHandler("file", made, "read")
    yield made
    QDesktopServices.unsetUrlHandler("file")


@pytest.fixture
def handing(qtbot, context):
    return Handing(context, context)


@pytest.fixture
def run(conv_model, result):
    """The search that was recorded, with the bundle that it wrote."""
    return Run(conv_model, Path(result.bundle), None, None, result=result)


def test_a_report_is_written_and_shown(qtbot, handing, run, reader, tmp_path):
    file = tmp_path / "report.html"
    handing.report(run, file)
    assert handing.busy
    assert run.note == "Reporting on conv.onnx…"
    qtbot.waitUntil(lambda: not handing.busy, timeout=PATIENCE_MS)
    assert run.note == f"The report is {file}."
    assert reader.opened == [str(file)]
    assert "<html" in file.read_text()


def test_an_export_says_where_it_is_and_whether_it_was_checked(qtbot, handing, run, tmp_path):
    handing.export(run, "onnx", tmp_path / "out")
    qtbot.waitUntil(lambda: not handing.busy, timeout=PATIENCE_MS)
    assert (tmp_path / "out" / "conv.onnx").is_file()
    assert run.note.startswith(f"Exported to {tmp_path / 'out'}. Checked on the golden samples: ")


def test_an_export_that_cannot_be_is_a_sentence(qtbot, handing, run, bundle, tmp_path):
    (bundle / "model" / "conv.onnx").write_bytes(b"cut off")
    run.place = bundle
    handing.export(run, "onnx", tmp_path / "out")
    qtbot.waitUntil(lambda: not handing.busy, timeout=PATIENCE_MS)
    assert "conv.onnx" in run.note
    assert not (tmp_path / "out").exists()
