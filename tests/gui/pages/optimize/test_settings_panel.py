"""The settings of a search: by keyboard, remembered, and the same as in the app's dialog."""

import os
from itertools import pairwise
from pathlib import Path

import msgspec
import numpy as np
import onnx
import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtWidgets import QAbstractSpinBox, QWidget

from edgeopt.commands.analyze.analyze import analyze
from edgeopt.data.demo import MODEL
from edgeopt.data.split import split
from edgeopt.errors import DataError
from edgeopt.graph.analysis import TensorFacts
from edgeopt.graph.import_proof import ImportProof, as_metadata
from edgeopt.profiles.targets import TargetVerdict
from edgeopt_gui.pages.optimize.choices import Choices
from edgeopt_gui.pages.optimize.core import problems, vocabulary
from edgeopt_gui.pages.optimize.places import KEPT, fresh_place, give_back, sweep
from edgeopt_gui.pages.optimize.run import Order
from edgeopt_gui.pages.optimize.samples import count_samples, use_of
from edgeopt_gui.pages.optimize.settings_panel import FoldingPanel, SettingsPanel
from edgeopt_gui.pages.optimize.today_field import TodayField
from edgeopt_gui.subject import Subject
from edgeopt_gui.widgets.action_button import ActionButton
from tests.bundle.runtime.decoder import PAIRS, write_decoder

TARGETS = (
    TargetVerdict("cpu-avx2", "x86 CPU with AVX2", True, True, "x86_64 with avx2", used=True),
    TargetVerdict("arm-dotprod", "Arm CPU", False, False, "it is for aarch64, and this device is x86_64"),
)


@pytest.fixture
def panel(qtbot, context):
    made = SettingsPanel(context)
    qtbot.addWidget(made)
    made.show()
    qtbot.waitExposed(made)
    return made


def test_a_floor_is_chosen_by_keyboard_and_explained(qtbot, panel):
    panel.accuracy.budgets["transparent"].setFocus()
    qtbot.keyClick(panel.accuracy.budgets["transparent"], Qt.Key.Key_Down)
    assert panel.choices.budget == "balanced"
    assert "more speed" in panel.accuracy.sentence.text()
    assert not panel.accuracy.own_db.isVisible()


def test_an_own_floor_shows_its_field(qtbot, panel):
    panel.accuracy.budgets["own"].click()
    assert panel.accuracy.own_db.isVisible()
    panel.accuracy.own_db.setValue(55)
    assert panel.choices.floor == "55dB"


def test_a_target_that_does_not_fit_says_why(panel):
    panel.set_targets(TARGETS)
    assert panel.target.itemText(0) == "Automatic (cpu-avx2)"
    panel.target.setCurrentIndex(panel.target.findData("arm-dotprod"))
    assert "this device is x86_64" in panel.reason.text()
    assert panel.choices.target == "arm-dotprod"


def test_a_remembered_target_is_kept_when_the_list_comes(qtbot, context):
    context.settings.keep("optimize.target", "arm-dotprod")
    panel = SettingsPanel(context)
    qtbot.addWidget(panel)
    assert panel.choices.target == "arm-dotprod"
    panel.set_targets(TARGETS)
    assert panel.choices.target == "arm-dotprod"


def test_everything_is_remembered_for_the_next_start(qtbot, context, panel):
    panel.accuracy.budgets["own"].click()
    panel.accuracy.own_db.setValue(62)
    panel.limit.setValue(90)
    again = SettingsPanel(context)
    qtbot.addWidget(again)
    assert again.choices == panel.choices == Choices("own", 62, time_limit_s=90)


def test_the_shortest_limit_is_what_the_command_line_takes(panel):
    assert panel.choices.time_limit_s is None
    panel.limit.stepUp()
    assert panel.choices.time_limit_s == 1


def test_it_follows_the_apps_settings_and_their_reset(panel, context):
    context.settings.keep("optimize.budget", "exact")
    context.settings.keep("optimize.time-limit-s", 45)
    assert panel.choices == Choices("exact", time_limit_s=45)
    context.settings.reset()
    assert panel.choices == Choices()


def test_the_core_gives_objectives_and_metrics_and_keeps_what_was_chosen(qtbot, context):
    context.settings.keep("optimize.objective", "memory")
    context.settings.keep("optimize.metric", "cosine")
    panel = SettingsPanel(context)
    qtbot.addWidget(panel)
    assert panel.choices.objective == "memory"
    panel.set_core(vocabulary(), problems)
    assert (panel.choices.objective, panel.choices.metric) == ("memory", "cosine")
    titles = [panel.objective.itemText(k) for k in range(panel.objective.count())]
    assert titles == [each.title for each in vocabulary().objectives]


def test_a_metric_shows_its_fields_and_says_what_it_lacks(panel):
    panel.set_core(vocabulary(), problems)
    accuracy = panel.accuracy
    accuracy.budgets["metric"].click()
    accuracy.which.setCurrentIndex(accuracy.which.findData("max-error"))
    assert accuracy.value.isVisible()
    assert not accuracy.labels.isVisible()
    assert "needs a floor" in accuracy.problem.text()
    assert panel.problem == accuracy.problem.text()
    accuracy.value.setText("0.01")
    assert not accuracy.problem.isVisible()
    assert panel.problem == ""
    accuracy.which.setCurrentIndex(accuracy.which.findData("top1-labels"))
    assert accuracy.labels.isVisible()
    assert accuracy.drop.isVisible()


def test_a_limit_that_is_none_is_said_below_it_and_in_the_folded_head(panel):
    panel.set_core(vocabulary(), problems)
    panel.limits.fields["max_memory_mib"].setText("64")
    assert panel.fold.summary.text() == "Memory at most 64 MiB"
    panel.limits.fields["max_memory_mib"].setText("0")
    assert "not a possible limit" in panel.fold.summary.text()
    panel.fold.head.click()
    assert panel.limits.limits_problem.isVisible()
    panel.limits.fields["max_memory_mib"].clear()
    assert not panel.limits.limits_problem.isVisible()
    assert panel.problem == ""


def test_what_is_no_address_of_a_device_is_said_below_its_field(panel):
    panel.set_core(vocabulary(), problems)
    panel.fold.set_open(True)
    panel.on.setText("camera")
    assert "'camera' is not the address of a device." in panel.on_problem.text()
    assert panel.problem == panel.on_problem.text()
    panel.on.setText("http://127.0.0.1:8080")
    assert (panel.problem, panel.on_problem.isVisible()) == ("", False)
    assert panel.choices.on == "http://127.0.0.1:8080"


def test_every_field_is_reached_by_tab_from_top_to_bottom(panel, context):
    panel.fold.set_open(True)
    fields = [w for w in panel.fields.findChildren(QWidget) if w.focusPolicy() & Qt.FocusPolicy.TabFocus]
    fields = [w for w in fields if w.isVisible() and not isinstance(w.parentWidget(), QAbstractSpinBox)]
    chain, widget = [], panel
    while (widget := widget.nextInFocusChain()) is not panel:
        chain += [widget] if widget in fields else []
    assert set(chain) == set(fields)
    heights = [widget.mapTo(panel.fields, QPoint()).y() for widget in chain]
    # Buttons beside each other may lie a pixel apart.
    assert all(below >= above - 2 for above, below in pairwise(heights))
    # Buttons of actions are named by the window.
    assert all(isinstance(w, ActionButton) or w.accessibleName() or w.text() for w in fields)


def test_the_samples_are_counted(qtbot, panel, context, tmp_path):
    np.savez(tmp_path / "d.npz", x=np.zeros((32, 3)))
    with qtbot.waitSignal(panel.data.counted):
        context.use_data(tmp_path / "d.npz")
    assert panel.data.name.text() == "d.npz"
    assert "32 samples: 16 calibrate" in panel.data.use.text()
    context.use_data(None)
    assert "Without data" in panel.data.use.text()


def test_bad_data_is_said_at_once(qtbot, panel, context, tmp_path):
    (tmp_path / "d.npz").write_text("no archive")
    with qtbot.waitSignal(panel.data.counted):
        context.use_data(tmp_path / "d.npz")
    assert panel.data.problem == "'d.npz' is not a .npz archive."
    assert panel.problem.endswith(panel.data.problem)
    assert "samples along the first axis" in panel.data.use.text()


def test_data_for_another_model_is_said_at_the_field(qtbot, panel, context, tmp_path):
    np.savez(tmp_path / "d.npz", x=np.zeros((32, 3)))
    context.use_inputs((TensorFacts("x", "float32", ("batch", 3)),))
    with qtbot.waitSignal(panel.data.counted):
        context.use_data(tmp_path / "d.npz")
    assert panel.problem == ""
    with qtbot.waitSignal(panel.data.counted):
        context.use_inputs((TensorFacts("image", "float32", (1, 3, 8, 8)),))
    assert "no array for the model's input 'image'" in panel.data.use.text()
    assert "no array for the model's input 'image'" in panel.problem
    assert panel.data.use.property("role") == "problem"
    context.use_data(None)
    assert panel.data.use.property("role") == "muted"


def test_sizes_are_offered_only_where_a_model_leaves_some_open(panel, context):
    panel.fold.set_open(True)
    assert panel.sizes.isVisible(), "not known yet"
    context.use_inputs((TensorFacts("x", "float32", (1, 3)),))
    assert not panel.sizes.isVisible()
    context.use_inputs((TensorFacts("x", "float32", ("batch", 3)),))
    assert panel.sizes.isVisible()


def test_the_settings_fold_away_while_a_search_runs_and_can_be_looked_at(qtbot, context):
    panel = SettingsPanel(context)
    whole = FoldingPanel(panel)
    qtbot.addWidget(whole)
    whole.show()
    whole.race(False)
    assert panel.isVisible()
    whole.race(True)
    assert not panel.isVisible()
    assert whole.sizeHint().width() < panel.width() / 2
    qtbot.keyClick(whole.head, Qt.Key.Key_Space)
    whole.race(True)
    assert panel.isVisible(), "what the user unfolded stays so"
    assert not panel.fields.isEnabled()
    whole.race(False)
    assert panel.fields.isEnabled()


def test_the_settings_are_folded_beside_a_result_only_where_it_is_narrow(qtbot, context):
    panel = SettingsPanel(context)
    whole = FoldingPanel(panel)
    qtbot.addWidget(whole)
    whole.show()
    whole.set_room(900)
    assert panel.isVisible(), "before a search they are what the page is about"
    whole.race(False, found=True)
    assert not panel.isVisible()
    whole.set_room(1800)
    assert panel.isVisible()


def test_another_model_begins_at_the_top_of_the_settings(qtbot, panel):
    panel.fold.set_open(True)
    panel.resize(panel.width(), 200)
    qtbot.waitUntil(lambda: panel.verticalScrollBar().maximum() > 0)
    panel.verticalScrollBar().setValue(panel.verticalScrollBar().maximum())
    panel.forget_model()
    assert panel.verticalScrollBar().value() == 0


@pytest.fixture
def field(qtbot):
    made = TodayField()
    qtbot.addWidget(made)
    return made


def settled(field):
    return field.use.text() != "Looking at it…"


def test_a_bundle_says_what_it_was_made_from(qtbot, field, conv_bundle):
    field.set(conv_bundle)
    qtbot.waitUntil(lambda: settled(field))
    assert field.use.text().startswith("A bundle of conv.onnx.")
    assert field.problem == ""
    field.set(None)
    assert field.path is None
    assert field.name.text() == "Nothing yet"


def test_what_is_no_bundle_is_said_at_once(qtbot, field, tmp_path):
    field.set(tmp_path)
    qtbot.waitUntil(lambda: settled(field))
    assert "bundle" in field.problem
    assert field.use.text().startswith(field.problem)


INPUTS = (TensorFacts("x", "float32", ("batch", 3)), TensorFacts("ids", "int64", ("batch", "length")))
RIGHT = {"x": np.zeros((9, 3)), "ids": np.zeros((9, 5), np.int32), "labels": np.zeros(9)}


def test_a_compressed_archive_and_a_folder_are_counted(tmp_path):
    np.savez_compressed(tmp_path / "d.npz", x=np.zeros((7, 3)))
    np.save(tmp_path / "x.npy", np.zeros((9, 3)))
    assert count_samples(tmp_path / "d.npz") == 7
    assert count_samples(tmp_path) == 9
    pictures = tmp_path / "pictures" / "cats"
    pictures.mkdir(parents=True)
    for name in ("a.png", "b.jpg", "notes.txt"):
        (pictures / name).touch()
    assert count_samples(pictures.parent) == 2


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 cut off", b"no archive at all" * 10])
def test_a_broken_file_is_refused_by_name(tmp_path, content):
    file = tmp_path / "broken.npz"
    file.write_bytes(content)
    with pytest.raises(DataError, match=r"broken\.npz"):
        count_samples(file)


def test_an_archive_of_something_else_is_refused(tmp_path):
    from zipfile import ZipFile

    with ZipFile(tmp_path / "d.npz", "w") as archive:
        archive.writestr("readme.txt", "hello")
    with pytest.raises(DataError):
        count_samples(tmp_path / "d.npz")


def test_nothing_there_is_refused(tmp_path):
    with pytest.raises(DataError, match="no data at"):
        count_samples(tmp_path / "gone.npz")
    with pytest.raises(DataError, match="contains no samples"):
        count_samples(tmp_path)


def test_the_use_of_the_samples_is_what_the_search_does():
    parts = split(64, from_user=True)
    said = use_of(64)
    assert "64 samples" in said
    assert f"{parts.calibration_count} calibrate" in said
    assert f"{parts.check_count} check" in said
    assert f"{parts.prove_count} prove" in said


def test_too_few_samples_are_called_so():
    assert use_of(1).startswith("1 sample:")
    assert "too few for 8-bit" in use_of(3)
    assert use_of(11).startswith("11 samples: 5 calibrate, 6 check and prove the winner.")
    assert "12 or more" in use_of(11)
    assert "12 or more" not in use_of(12)


def test_data_for_the_model_is_counted(tmp_path):
    np.savez(tmp_path / "d.npz", **RIGHT)
    assert count_samples(tmp_path / "d.npz", INPUTS) == 9
    np.save(tmp_path / "x.npy", np.zeros((4, 1, 3), np.float32))
    assert count_samples(tmp_path, INPUTS[:1]) == 4


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"x": None, "picture": np.zeros((9, 3))}, r"no array for the model's input 'x'; it has: .*picture"),
        ({"x": np.zeros((9, 4))}, r"'x' in d.npz holds samples of shape \[1, 4\]; the input takes \[batch, 3\]"),
        ({"x": np.zeros((9, 2, 3, 1))}, "'x' in d.npz has 4 dimensions"),
        ({"ids": np.zeros((9, 5))}, "'ids' in d.npz is of type float64; the input takes int64"),
        ({"ids": np.zeros((8, 5), np.int64)}, r"different numbers of samples \(x: 9, ids: 8\)"),
    ],
)
def test_data_for_another_model_is_refused(tmp_path, wrong, said):
    arrays = {name: array for name, array in {**RIGHT, **wrong}.items() if array is not None}
    np.savez(tmp_path / "d.npz", **arrays)
    with pytest.raises(DataError, match=said):
        count_samples(tmp_path / "d.npz", INPUTS)


def test_inputs_that_the_model_does_not_describe_are_not_checked(tmp_path):
    np.savez(tmp_path / "d.npz", other=np.zeros((9, 4)))
    assert count_samples(tmp_path / "d.npz", (TensorFacts("x", "float32"),)) == 9


def test_two_searches_of_one_model_do_not_meet(tmp_path):
    first, second = (fresh_place(tmp_path / "new", tmp_path / "m.onnx") for _ in range(2))
    assert first != second
    assert first.name == second.name == "m.edgeopt"
    assert first.parent.is_dir()


def test_a_search_without_a_bundle_leaves_nothing(tmp_path):
    empty, full = (fresh_place(tmp_path, tmp_path / "m.onnx") for _ in range(2))
    full.mkdir()
    give_back(empty)
    give_back(full)
    assert not empty.parent.exists()
    assert full.exists()


def test_the_oldest_go_but_none_in_use(tmp_path):
    root = tmp_path / "new"
    places = [fresh_place(root, tmp_path / "m.onnx") for _ in range(KEPT + 3)]
    for age, place in enumerate(places):
        place.mkdir()
        os.utime(place.parent, (1000 + age, 1000 + age))
    sweep(root, [places[0]])
    assert [place.exists() for place in places] == [True, False, False, *[True] * KEPT]
    sweep(root / "not there", [])


def test_the_preprocessing_of_an_import_goes_into_the_bundle(context, panel, tmp_path, conv_model):
    model = tmp_path / "vit.onnx"
    imported = onnx.load(conv_model)
    proof = ImportProof("vit/", "huggingface", "torch 2", "torch.onnx", "ONNX Runtime", 120.0, 90.0, 8)
    written = as_metadata(msgspec.structs.replace(proof, pre="vit.pre.toml", pre_db=52.0))
    onnx.helper.set_model_props(imported, written)
    onnx.save(imported, model)
    read = analyze(model, coverage=False, opportunities=False, run=False)

    context.open(Subject(model, "model"))
    context.use_nodes(read)
    assert panel.with_pre.isHidden()  # its file is not there
    assert panel.pre is None

    pre = model.with_name("vit.pre.toml")
    pre.write_text("")
    context.use_nodes(read)
    assert not panel.with_pre.isHidden()
    assert "52 dB" in panel.with_pre.toolTip()
    assert "With vit.pre.toml" in panel.fold.summary.text()
    order = Order(model, None, None, panel.choices, panel.shape, panel.pre)
    words = order.shown().arguments
    assert words[words.index("--pre") + 1] == str(pre)

    panel.with_pre.setChecked(False)
    assert panel.pre is None
    panel.with_pre.setChecked(True)
    panel.sizes.line.setText("batch=1,4")  # a bundle for several sizes holds no preprocessing
    assert panel.pre is None


@pytest.fixture
def decoder(tmp_path):
    path = tmp_path / "tiny.onnx"
    write_decoder(path)
    np.savez(tmp_path / "tiny.npz", **{name: np.zeros((4, 1, 2, 8, 8)) for name in PAIRS})
    return analyze(path, coverage=False, opportunities=False, run=False)


def open_decoder(context, decoder):
    context.open(Subject(Path(decoder.path), "model"))
    context.use_inputs(decoder.inputs)
    context.use_nodes(decoder)


def test_samples_of_an_imported_language_model_are_said_not_to_be_texts(qtbot, panel, context, decoder, tmp_path):
    open_decoder(context, decoder)
    assert panel.data.use.text().startswith("Without a text, candidates are measured")
    assert panel.data.beside is None
    context.use_data(tmp_path / "tiny.npz")
    qtbot.waitUntil(lambda: "steps of the cache, not texts" in panel.data.use.text())
    assert "a small text of edgeopt" in panel.data.use.text()
    assert panel.problem == ""


def test_a_language_model_takes_a_text_and_other_models_do_not(qtbot, panel, context, decoder, tmp_path):
    text = tmp_path / "mine.txt"
    text.write_text("A text of mine. " * 100)
    context.open(Subject(Path(decoder.path), "model"))
    context.use_data(text)
    assert panel.data.use.text() == "Reading the model…"
    open_decoder(context, decoder)
    qtbot.waitUntil(lambda: panel.data.use.text().startswith("A text of 1,600 characters."))
    assert panel.problem == ""
    text.write_bytes(b"\xff")
    context.use_data(text)
    qtbot.waitUntil(lambda: panel.data.problem == "'mine.txt' is not a text in UTF-8.")
    context.use_nodes(None)
    context.use_nodes(analyze(MODEL, coverage=False, opportunities=False, run=False))
    qtbot.waitUntil(lambda: panel.data.problem == "'mine.txt' is not a .npz archive.")
