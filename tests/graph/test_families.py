"""Models of every family, analyzed, simplified, run; `benchmarks/families.py` makes its page of the same rows."""

import importlib.util
import re
import sys
from pathlib import Path

import msgspec
import pytest

from edgeopt.backends import backend_named
from tests.families import FAMILIES

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def matrix():
    spec = importlib.util.spec_from_file_location("families_matrix", ROOT / "benchmarks" / "families.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["families_matrix"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["families_matrix"]


# One of each kind of graph; the others are for `make test-slow`.
USUAL = {"MobileNet v2", "YOLO", "BERT", "GPT-2", "GRU stream", "Trees, classifier"}


@pytest.mark.parametrize(
    "family",
    [pytest.param(each, marks=[pytest.mark.slow] * (each.name not in USUAL), id=each.name) for each in FAMILIES],
)
def test_a_family_is_analyzed_simplified_and_runs_as_before(matrix, tmp_path, family):
    backends = [backend_named(name) for name in ("onnxruntime-cpu", "openvino-cpu")]
    row = matrix.look(family, tmp_path, backends)
    assert matrix.faults(row) == []
    assert row.source["onnxruntime-cpu"] is None
    assert row.operations is not None
    assert set(row.unknown) <= {"Loop", "NonMaxSuppression", "Scaler", "TreeEnsembleClassifier"}
    assert row.nodes_after <= row.nodes_before
    trees = family.name.startswith("Trees")
    assert ("No conversion rule" in str(row.source["openvino-cpu"])) == trees
    assert trees or row.source["openvino-cpu"] is None


def test_what_may_not_be_is_told(matrix):
    good = matrix.Row("ResNet", 1, {}, 9, 5, 120.0, {"one": None}, {"one": None})
    assert matrix.faults(good) == []
    for field, value, said in (
        ("snr_db", 79.0, "79.0 dB"),
        ("simplified", {"one": "it broke"}, "it broke"),
        ("rolled_back", ("fuse: it raised",), "it raised"),
    ):
        (line,) = matrix.faults(msgspec.structs.replace(good, **{field: value}))
        assert said in line
    lost_before = msgspec.structs.replace(good, source={"one": "no"}, simplified={"one": "no"})
    assert matrix.faults(lost_before) == []


def test_the_page_lists_all_families_and_no_other():
    page = (ROOT / "docs" / "families.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([^|]+?) \|", page, re.MULTILINE)
    assert rows[1:] == [family.name for family in FAMILIES]


def test_the_page_gives_a_reason_for_each_no(matrix):
    reason = "There is no kernel for Loop."
    row = matrix.Row("SSD", 2500, {"Loop": 2}, 9, 5, 120.0, {"one": None}, {"one": reason})
    page = matrix.page([row])
    assert "| SSD | 2 k, 2 nodes unknown | 9 | 5 | 120.0 dB | works → no (1) |" in page
    assert f"1. {reason}" in page
