"""The result record of commands on the built-in sample: keys, types, and values that no machine changes."""

import json
from pathlib import Path

import msgspec
import pytest

from edgeopt.cli.main import run
from edgeopt.commands.schema import RESULTS, types_of
from edgeopt.data.demo import DATA, MODEL
from tests.golden.texts import changed, check_record

RECORDED = Path(__file__).parents[1] / "fakeroots" / "raspberry-pi-5"
PROFILE = """
name = "golden"
title = "A search that is over at once"
extends = "generic-cpu"
[precision]
ladder = ["source", "cleaned"]
[backends]
order = ["onnxruntime-cpu"]
[search]
max_candidates = 2
time_limit_s = 2
"""


@pytest.fixture
def record_of(tmp_path, monkeypatch, capfd):
    """Runs a command in this process and returns its last record."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")

    def record(*arguments):
        capfd.readouterr()
        code = run([str(argument) for argument in (*arguments, "--json")])
        out, err = capfd.readouterr()
        assert code in {0, 4}, out + err  # 4: int8 does not reach the floor, so `quantize` measures nothing
        return json.loads(out.splitlines()[-1])

    return record


CASES = {
    "analyze": (
        ("analyze", MODEL, "--data", DATA),
        (
            r"kind|data\.(?!name|path|coverage|warnings|dimensions|opportunities|op_times|(\w+\[\]|work)\.least_)"
            r"(?!nodes\[\]\.(name|least|bound|in|out|attr)|weights\[\]\.(zeros|min|max|hist)|weights_summary).*"
        ),
    ),
    "backends": (("backends",), r"kind|data\.backends\[\]\.(name|title|formats\[\])"),
    "bench": (
        ("bench", MODEL, "--against", "threads=1", "--data", DATA, "--rounds", 6),
        r"kind|data\.(sides\[\]\.(name|kind|backend)|data)",
    ),
    "cache": (("cache", "list"), "kind"),
    "compare": (
        ("compare", MODEL, MODEL, "--data", DATA),
        r"kind|data\.((first|second)\.(?!path).*|within|identical)",
    ),
    "graph": (("graph", MODEL, "-o", "graph.svg"), r"kind|data\.(format|nodes|graphs)"),
    "import": (
        ("import", MODEL, "--samples", 4, "-o", "imported.onnx"),
        r"kind|data\.(output|samples_file|kind|opset|inputs\[\]\..*|proof\.(equal|floor_db|snr_db|samples|outputs\[\]\.name))",
    ),
    "ops": (
        ("ops", "--quick", "--only", "Relu", "--backend", "onnxruntime-cpu"),
        r"kind|data\.\w+\[\]\.(operator|name)",
    ),
    "optimize": (
        ("optimize", MODEL, "--data", DATA, "--profile", "PROFILE", "-o", "digits.edgeopt"),
        r"kind|data\.(target|objective)",
    ),
    "passes": (("passes",), r"kind|data\.passes\[\]\.(?!text).*"),
    "presets": (("presets", MODEL), r"kind|data\.(model|chosen\..*|presets\[\]\.(?!fits|sets).*)"),
    "probe": (("probe", "--root", RECORDED), r"kind|data\.(?!.*version).*"),
    "quantize": (
        ("quantize", MODEL, "--data", DATA, "--method", "int8", "--floor", 60, "-o", "int8.onnx"),
        r"kind|data\.(outcome|method|goal\..*|use\.(?!proved).*|changes\[\]\..*)",
    ),
    "run": (("run", MODEL, "--data", DATA, "-o", "results"), r"kind|data\.(samples|outputs\..*)"),
    "simplify": (
        ("simplify", MODEL, "--data", DATA, "-o", "lean.onnx"),
        r"kind|data\.(output|(nodes|size)_\w+|ledger\[\]\.(?!seconds|snr_db|max_abs).*|samples|runtime|regimes\[\])",
    ),
    "targets": (("targets", "--root", RECORDED), r"kind|data\.(targets|uses)\[\]\.(name|title)"),
}
OF_A_BUNDLE = {
    "cost": (
        ("cost", "BUNDLE", "--price-per-hour", "0.7", "--load", "5000/s"),
        r"kind|data\.costs\[\]\.(?!measured\.(source|device)).*",
    ),
    "export": (("export", "BUNDLE", "--to", "runner", "-o", "runner"), r"kind|data\.format"),
    "report": (("report", "BUNDLE", "-o", "facts.json", "--no-nodes"), r"kind|data\.format"),
    "sign": (("sign", "--new-key", "release-key"), "kind"),
    "verify": (("verify", "BUNDLE"), r"kind|data\.(status|evidence|speed)"),
}


@pytest.mark.parametrize("name", CASES)
def test_record_is_unchanged(record_of, tmp_path, name):
    arguments, pinned = CASES[name]
    profile = tmp_path / "golden.toml"
    profile.write_text(PROFILE)
    found = record_of(*(profile if each == "PROFILE" else each for each in arguments))
    check_record(f"records/{name}.txt", found, pinned)
    check_schema(found)


@pytest.mark.parametrize("name", OF_A_BUNDLE)
def test_record_of_a_bundle_is_unchanged(record_of, conv_bundle, name):
    arguments, pinned = OF_A_BUNDLE[name]
    found = record_of(*(conv_bundle if each == "BUNDLE" else each for each in arguments))
    check_record(f"records/{name}.txt", found, pinned)
    check_schema(found)


def check_schema(found):
    """The types behind `edgeopt schema` take the record, and know each of its keys."""
    (record,) = [each for each in RESULTS if each.name == found["kind"]]
    failures = []
    for kind in types_of(record):
        try:
            taken = msgspec.convert(found["data"], kind)
        except msgspec.ValidationError as error:
            failures.append(error)
        else:
            again = msgspec.json.decode(msgspec.json.encode(taken))
            if keys_of(found["data"]) <= keys_of(again):
                return
            failures.append(keys_of(found["data"]) - keys_of(again))
    raise AssertionError(failures)


def keys_of(value, place=""):
    if isinstance(value, dict):
        return {place}.union(*(keys_of(each, f"{place}.{key}") for key, each in value.items()))
    if isinstance(value, list):
        return {place}.union(*(keys_of(each, f"{place}[]") for each in value))
    return {place}


@pytest.mark.parametrize(
    ("golden", "found", "changes"),
    [
        ({"a": "int"}, {"a": "int"}, []),
        ({"a": "int"}, {"a": "float"}, ["a: int -> float"]),
        ({"a": "int|null"}, {"a": "null"}, []),
        ({"a": "int = 1"}, {"a": "int = 2"}, ["a: int = 1 -> int = 2"]),
        ({"a": "object", "a.b": "int", "a.c": "int"}, {"a": "object", "a.c": "int"}, ["- a.b: int"]),
        ({"a": "object"}, {"a": "object", "a.b": "int"}, []),
        ({"a": "object", "a.b": "int"}, {"a": "object", "a.b": "int", "a.c": "int"}, ["+ a.c: int"]),
        ({"a": "int"}, {"a": "object", "a.b": "int"}, ["a: int -> object"]),
        ({"a": "list", "a[]": "object", "a[].b": "int"}, {"a": "list"}, []),
        ({"a[]": "object", "a[].b": "int", "a[].c": "int"}, {"a[]": "object", "a[].c": "int"}, ["- a[].b: int"]),
        ({"a": "object", "a.b": "int"}, {"a": "null"}, []),
        ({"a": "int"}, {}, ["- a: int"]),
    ],
)
def test_difference_of_records(golden, found, changes):
    assert changed(golden, found) == changes
