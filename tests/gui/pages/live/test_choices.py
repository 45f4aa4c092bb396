"""What is watched when there is a model, a bundle, or both."""

from pathlib import Path

from edgeopt_gui.pages.live.choices import choices, chosen
from edgeopt_gui.subject import Subject

MODEL, BUNDLE = Subject(Path("m.onnx"), "model"), Path("m.edgeopt")


def test_what_is_there_is_watched():
    assert chosen(None, None, "") is None
    assert chosen(MODEL, None, "bundle") == MODEL
    assert chosen(None, BUNDLE, "model") == Subject(BUNDLE, "bundle")


def test_of_both_the_bundle_is_watched_unless_the_model_is_chosen():
    assert chosen(MODEL, BUNDLE, "") == Subject(BUNDLE, "bundle")
    assert chosen(MODEL, BUNDLE, "model") == MODEL


def test_there_is_a_choice_between_two_things_only():
    assert choices(MODEL, None) == choices(None, BUNDLE) == ()
    assert choices(Subject(BUNDLE, "bundle"), BUNDLE) == ()
    assert [title for title, _ in choices(MODEL, BUNDLE)] == ["m.edgeopt (bundle)", "m.onnx (model)"]
