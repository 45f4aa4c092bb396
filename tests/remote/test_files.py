"""What goes to the device: each file that an option names."""

import json

import pytest

from edgeopt.cli.main import run
from edgeopt.commands.bench.request import Request
from edgeopt.commands.optimize import OptimizeSourceRequest
from edgeopt.remote.files import place


@pytest.fixture
def file(tmp_path):
    def file(name, content=""):
        (tmp_path / name).write_text(content)
        return tmp_path / name

    return file


def refusal(capsys, *words):
    code = run([*map(str, words), "--json"])
    return code, json.loads(capsys.readouterr().out.splitlines()[-1])["message"]


@pytest.mark.parametrize(
    ("option", "name"),
    [("pre", "pre.toml"), ("post", "post.toml"), ("profile", "use.toml"), ("data", "d.npz")],
)
def test_file_of_a_search_goes_to_the_device(tmp_path, file, option, name):
    named = file(name)
    request = OptimizeSourceRequest(tmp_path / "m", tmp_path / "out", **{option: named})
    placed = place(request, "/run", frozenset({"out"}))
    there = placed.arguments[placed.arguments.index(f"--{option}") + 1]
    assert {f"/run/{inside}": path for inside, path in placed.files.items()} == {there: named}


def test_folder_of_the_baseline_goes_to_the_device_with_all_in_it(tmp_path, file):
    (tmp_path / "old.edgeopt" / "model").mkdir(parents=True)
    inner = file("old.edgeopt/model/m.onnx")
    request = OptimizeSourceRequest(tmp_path / "m", tmp_path / "out", baseline=tmp_path / "old.edgeopt")
    placed = place(request, "/run", frozenset({"out"}))
    assert placed.files == {"in/0/old.edgeopt/model/m.onnx": inner}
    assert "/run/in/0/old.edgeopt" in placed.arguments


def test_metric_goes_to_the_device_as_its_file(tmp_path, file):
    metric = file("mine.py")
    request = OptimizeSourceRequest(tmp_path / "m", tmp_path / "out", metric=f"{metric}:score")
    placed = place(request, "/run", frozenset({"out"}))
    assert placed.files == {"in/0/mine.py": metric}
    assert "/run/in/0/mine.py:score" in placed.arguments


def test_library_of_operators_goes_to_the_device(file):
    libraries = file("one.so"), file("two.so")
    placed = place(Request("m.onnx", custom_ops=tuple(map(str, libraries))), "/run", frozenset())
    assert placed.files == {"in/0/one.so": libraries[0], "in/1/two.so": libraries[1]}
    assert {"/run/in/0/one.so", "/run/in/1/two.so"} <= set(placed.arguments)


def test_metric_in_a_module_is_refused(capsys, tmp_path):
    words = "optimize", tmp_path / "m.onnx", "-o", tmp_path / "out", "--metric", "mine:score"
    code, said = refusal(capsys, *words, "--on", "ssh://nowhere.invalid")
    assert (code, said) == (2, "The module of the metric 'mine:score' is not on the device.")


def test_plan_and_search_on_a_device_exclude_each_other(capsys, tmp_path, file):
    words = "optimize", tmp_path / "m.onnx", "-o", tmp_path / "out", "--device", file("device.json", "{}")
    code, said = refusal(capsys, *words, "--on", "ssh://nowhere.invalid")
    assert (code, said) == (2, "--device and --on exclude each other.")
