"""What runs today: looked at when it is chosen, and named as what it is."""

import pytest

from edgeopt_gui.pages.optimize.today_field import TodayField


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
