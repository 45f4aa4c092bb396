"""Where bundles lie before they are saved."""

import os

import pytest

from edgeopt.errors import EdgeoptError
from edgeopt_gui.pages.optimize.places import KEPT, fresh_place, give_back, sweep


def test_two_searches_of_one_model_do_not_meet(tmp_path):
    first, second = (fresh_place(tmp_path / "new", tmp_path / "m.onnx") for _ in range(2))
    assert first != second
    assert first.name == second.name == "m.edgeopt"
    assert first.parent.is_dir()


def test_no_place_is_said_with_the_reason(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(EdgeoptError, match="no room for the bundle"):
        fresh_place(tmp_path / "file" / "sub", tmp_path / "m.onnx")


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
