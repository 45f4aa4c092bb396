"""A folder of pictures as --data: every command prepares it, or prints the option that lets it."""

import re
import shlex
import shutil
from pathlib import Path

import numpy as np
import pytest
import typer

from edgeopt.cli.main import application, run

pytest.importorskip("onnxruntime", reason="the models run")
Image = pytest.importorskip("PIL.Image", reason="Pillow reads the pictures (the extra 'images')")

TABLE = "[data]\nresize = [16, 16]\nscale = 0.00392156862745098\n"
CPU = "--backend onnxruntime-cpu"


def slow(value):
    return pytest.param(value, marks=pytest.mark.slow)


COMMANDS = [
    "simplify conv.onnx -o out.onnx",
    "bench conv.onnx --rounds 6 --time-limit 1",
    pytest.param("watch conv.onnx --seconds 0.1", marks=pytest.mark.processes),
    "compare conv.onnx conv.onnx",
    f"analyze conv.onnx {CPU}",
    f"graph conv.onnx -o graph.html --profile-ops {CPU}",
    "run conv.onnx -o outputs",
    f"quantize conv.onnx -o out.onnx --method int8 --no-floor --time-limit 5 {CPU}",
    slow(f"compare-calibrations conv.onnx {CPU}"),
    slow("cost conv.onnx --price-per-hour 1 --measure --time-limit 1"),
    slow("optimize conv.onnx -o out.edgeopt --profile quick.toml"),
    "optimize conv.onnx -o out.edgeopt --device device.json",
    "replay profile.toml conv.onnx -o out.edgeopt",
]
WITH_BUNDLE = [
    "run pictured.edgeopt -o outputs",
    "run pictured.edgeopt -o outputs --process",
    "bench conv.onnx --against pictured.edgeopt --rounds 6 --time-limit 1",
    "compare conv.onnx pictured.edgeopt",
    f"analyze pictured.edgeopt {CPU}",
    f"graph pictured.edgeopt -o graph.html --profile-ops {CPU}",
    "replay pictured.edgeopt conv.onnx -o out.edgeopt --measure",
]


@pytest.fixture(scope="module")
def prepared(tmp_path_factory, conv_model, short_profile):
    """A folder with a model, pictures, a bundle that prepares them, and the profile of one that does not."""
    folder = tmp_path_factory.mktemp("pictures")
    shutil.copy(conv_model, folder / "conv.onnx")
    shutil.copy(short_profile, folder / "quick.toml")
    (folder / "photos").mkdir()
    pixels = np.random.default_rng(3).integers(0, 256, (16, 20, 24, 3), np.uint8)
    for number, one in enumerate(pixels):
        Image.fromarray(one).save(folder / "photos" / f"{number}.png")
    (folder / "steps.toml").write_text(TABLE)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        search = "optimize conv.onnx --profile quick.toml --data photos --pre steps.toml -o pictured.edgeopt"
        assert run(shlex.split(search)) == 0
        assert run(shlex.split("profile export pictured.edgeopt -o profile.toml")) == 0
    exported = (folder / "profile.toml").read_text()
    (folder / "profile.toml").write_text(
        re.sub(r"(?ms)^\[\[?processing.*?(?=^\[(?!\[?processing)|\Z)", "", exported)
    )
    return folder


@pytest.fixture
def place(prepared, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(shutil.copytree(prepared, tmp_path / "place"))
    capfd.readouterr()
    assert run(["probe", "--json"]) == 0
    Path("device.json").write_text(capfd.readouterr().out)


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize("command", COMMANDS)
def test_printed_option_lets_the_command_take_pictures(command, capfd):
    command += " --data photos"
    assert run(shlex.split(command)) == 3
    said = capfd.readouterr().err
    assert "The folder 'photos' holds pictures, but nothing says how to prepare them." in said
    option = re.search(r"pass it: (--\S+ (\S+))", said)
    assert option is not None, said
    Path(option[2]).write_text(TABLE)
    assert run(shlex.split(f"{command} {option[1]}")) == 0, capfd.readouterr().err


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize("command", WITH_BUNDLE)
def test_pictures_are_prepared_as_the_bundle_says(command, capfd):
    assert run(shlex.split(f"{command} --data photos")) == 0, capfd.readouterr().err


@pytest.mark.usefixtures("place")
def test_same_table_gives_the_same_outputs_in_model_and_bundle():
    assert run(shlex.split("run conv.onnx -o model --data photos --pre steps.toml")) == 0
    assert run(shlex.split("run pictured.edgeopt -o bundle --data photos")) == 0
    model, bundle = (np.load(Path(name) / "outputs.npz")["y"] for name in ("model", "bundle"))
    assert model.shape == bundle.shape == (16, 1, 10)
    assert np.abs(model - bundle).max() < 0.1 * np.abs(model).max()


@pytest.mark.usefixtures("place")
def test_table_of_the_option_comes_before_that_of_the_bundle():
    Path("darker.toml").write_text(TABLE.replace("0.0039", "0.00039"))
    outputs = []
    for option in ("", "--pre darker.toml"):
        assert run(shlex.split(f"run pictured.edgeopt -o outputs --data photos {option}")) == 0
        outputs.append(np.load("outputs/outputs.npz")["y"])
    assert np.abs(outputs[0] - outputs[1]).max() > 0.01


@pytest.mark.usefixtures("place")
def test_fewer_pictures_where_the_table_limits_them():
    Path("few.toml").write_text(f"{TABLE}most_samples = 4\n")
    assert run(shlex.split("run conv.onnx -o outputs --data photos --pre few.toml")) == 0
    assert len(np.load("outputs/outputs.npz")["y"]) == 4


@pytest.mark.usefixtures("place")
def test_model_as_preparation_is_refused(capfd):
    assert run(shlex.split("run conv.onnx -o outputs --data photos --pre conv.onnx")) == 2
    assert "'conv.onnx' is an ONNX model" in capfd.readouterr().err


def test_every_command_that_takes_data_takes_their_preparation():
    taking = dict(_flags("edgeopt", typer.main.get_command(application())))
    with_data = {name for name, flags in taking.items() if "--data" in flags}
    assert len(with_data) > 12
    # What an import runs is the original, in its own environment; the data of a rollout is read on the devices.
    without = {"edgeopt import", "edgeopt fleet rollout start"}
    assert {name for name in with_data if "--pre" not in taking[name]} == without


def _flags(name, command):
    yield name, {flag for each in command.params for flag in each.opts}
    for below, each in getattr(command, "commands", {}).items():
        yield from _flags(f"{name} {below}", each)
