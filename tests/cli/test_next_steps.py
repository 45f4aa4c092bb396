"""Every command that a result, a report or an error prints as the next step runs as it is printed."""

import re
import shlex
import shutil
from pathlib import Path

import pytest

from edgeopt.cli.main import run
from tests.printed import PLACEHOLDER, commands_in, refusal

pytest.importorskip("onnxruntime", reason="the models run")

MODEL, DATA, BUNDLE = "'my models/conv net.onnx'", "'my models/data.npz'", "'my models/conv net.edgeopt'"
INSIDE = "'conv net.edgeopt/model/conv net.onnx'"
LONG = "edgeopt probe --deep"
"""Takes seconds and is run in the tests of `edgeopt probe`."""
DONE = {0, 4, 6}
"""Done, or a check that came out against what it checked."""


def slow(*values):
    return pytest.param(*values, marks=pytest.mark.slow)


# What is run; its exit code; the commands that it prints; the placeholders in these, of what nobody named.
RESULTS = [
    (f"analyze {MODEL}", 0, "backends optimize probe simplify", "DATA.npz"),
    slow(f"analyze {MODEL} --data {DATA}", 0, "backends optimize probe simplify", ""),
    (f"analyze {BUNDLE}", 0, "backends probe simplify", ""),
    slow(f"analyze {INSIDE} --data {DATA}", 0, "backends optimize probe simplify", ""),
    ("targets", 0, "optimize targets", "MODEL NAME OUT"),
    ("targets new camera -o camera.toml", 0, "optimize targets", "MODEL OUT"),
    ("backends", 0, "backends", "NAME"),
    (f"simplify {MODEL} -o 'my out.onnx'", 0, "bench", ""),
    (f"simplify {MODEL} -o out.onnx --data {DATA} --bisect", 0, "bench", ""),
    slow(f"verify {BUNDLE} --model relu.onnx", 0, "optimize", ""),
    ("verify 'my models/stale.edgeopt'", 0, "optimize replay", "MODEL NEW"),
    (f"verify 'my models/stale.edgeopt' --model {MODEL} --fail-on-stale", 6, "optimize replay", "NEW"),
    (f"report {BUNDLE} -o report.md --model {MODEL}", 0, "bench compare graph optimize replay verify", "DATA"),
    (f"export {BUNDLE} --to onnx -o 'for others'", 0, "bench", ""),
    (f"export {BUNDLE} --to triton -o 'for others'", 0, "bench", ""),
    (f"replay {BUNDLE} {MODEL} -o again.edgeopt", 0, "bench", ""),
    (f"profile import 'conv net.edgeopt' {MODEL}", 0, "replay", ""),
    (f"cost {BUNDLE} --price-per-hour 0.3", 0, "", ""),
    slow(f"optimize {MODEL} --data {DATA} -o new.edgeopt --profile quick.toml", 0, "bench", ""),
    (f"optimize {MODEL} --data {DATA} -o plan.edgeopt --device device.json", 0, "optimize probe replay", "NEW"),
    slow(f"quantize {MODEL} --data {DATA} -o int8.onnx --method int8", 0, "bench", ""),
    ("ops --backend onnxruntime-cpu --quick --only Relu", 0, "probe", ""),
    ("cache", 0, "cache", ""),
    (f"quantize {MODEL} --check-targets npu-openvino", 0, "", ""),
    (f"run {BUNDLE} --data {DATA} -o outputs", 0, "", ""),
    (f"graph {MODEL} -o graph.html", 0, "", ""),
    (f"compare {MODEL} {MODEL} --backend-a onnxruntime-cuda", 6, "backends", ""),
    (f"compare-calibrations {MODEL} --data {DATA}", 0, "", ""),
    (f"profile diff {BUNDLE} 'my profile.toml'", 0, "", ""),
    ("replay 'my profile.toml' 'my models/conv net.onnx' -o again.edgeopt", 0, "bench", ""),
    ("sign --new-key 'other key'", 0, "trust", ""),
    ("passes", 0, "", ""),
    ("probe --record recorded", 0, "", ""),
    slow("bench relu.onnx --against relu.onnx@openvino-cpu --rounds 6 --min-speedup 1000", 4, "", ""),
]
ERRORS = [
    (f"bench {MODEL} --rounds many", 2, "bench", ""),
    (f"optimize {MODEL}", 2, "optimize", ""),
    ("targets show --nonsense", 2, "targets", ""),
    ("nonsense", 2, "", ""),
    (f"simplify {MODEL} -o out.onnx --skip nonsense", 2, "passes", ""),
    (f"bench {MODEL} --against nonsense", 2, "backends", ""),
    (f"sign {BUNDLE}", 2, "sign", "KEY PATH"),
    (f"export {BUNDLE} --to onnx", 2, "export", "DIR"),
    (f"optimize {MODEL} --data {DATA} -o out.edgeopt --baseline 'my profile.toml'", 2, "replay", ""),
    ("cost gone.json --price-per-hour 0.3", 3, "bench", "FILE MODEL"),
    ("bench 'my models/damaged.edgeopt'", 3, "", ""),
    ("verify relu.onnx", 3, "", ""),
    (f"verify {BUNDLE} --trust 'my key.pub'", 3, "sign", "KEY"),
    (f"replay {BUNDLE} relu.onnx -o again.edgeopt", 3, "optimize", "OUT"),
    (f"analyze {MODEL} --profile-ops --backend onnxruntime-cuda", 5, "backends", ""),
    (f"graph {MODEL}", 2, "graph", ""),
    (f"optimize {MODEL} -o out.edgeopt --device quick.toml", 3, "probe", ""),
    ("targets validate 'my camera.toml'", 3, "targets", ""),
    ("cache clear --older-than x", 2, "cache", ""),
    ("fleet status --url 127.0.0.1:9", 5, "run", ""),
]
# What is refused, a part of its hint, and the command with what the hint says.
REMEDIES = [
    slow(
        f"cost {MODEL} --price-per-hour 1",
        "--measure",
        f"cost {MODEL} --price-per-hour 1 --measure --time-limit 1",
    ),
    (f"cost {BUNDLE}", "--price-per-hour 0.35", f"cost {BUNDLE} --price-per-hour 0.35"),
    (f"export {BUNDLE} --to onxx -o out", "'onnx'", f"export {BUNDLE} --to onnx -o out"),
    (f"simplify {MODEL} -o out.onnx --skip fold", "`edgeopt passes`", "passes"),
    ("probe --again", "--deep --again", "probe --help"),
    (
        f"compare-calibrations {MODEL}",
        "compare-calibrations --help",
        f"compare-calibrations {MODEL} --data {DATA}",
    ),
    slow(
        f"quantize {MODEL} -o out.onnx --method int8",
        "--data",
        f"quantize {MODEL} -o out.onnx --method int8-dynamic",
    ),
    (f"simplify {MODEL} -o {MODEL}", "another name", f"simplify {MODEL} -o another.onnx"),
    ("targets new quick -o quick.toml", "another file", "targets new quick -o another.toml"),
    slow(f"quantize {MODEL} -o out.onnx --floor 200dB", "30dB", f"quantize {MODEL} -o out.onnx --floor 30dB"),
    slow(
        f"quantize {MODEL} --data {DATA} -o out.onnx --keep-float nonsense",
        "--sensitivity lists",
        f"quantize {MODEL} --data {DATA} --sensitivity",
    ),
]


@pytest.fixture(scope="module")
def prepared(tmp_path_factory, conv_model, conv_data, relu_model, short_profile):
    """A folder with a model, its data, and bundles as a search writes them, damaged, and of another device."""
    folder = tmp_path_factory.mktemp("prepared")
    models = folder / "my models"
    models.mkdir()
    shutil.copy(conv_model, models / "conv net.onnx")
    shutil.copy(conv_data, models / "data.npz")
    shutil.copy(relu_model, folder / "relu.onnx")
    shutil.copy(short_profile, folder / "quick.toml")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        asked = f"optimize {MODEL} --data {DATA} -o {BUNDLE} --profile quick.toml"
        assert run(shlex.split(asked)) == 0
        shutil.copytree(models / "conv net.edgeopt", folder / "conv net.edgeopt")
        assert run(["sign", "--new-key", "my key"]) == 0
        assert run(shlex.split(f"profile export {BUNDLE} -o 'my profile.toml'")) == 0
    return folder


@pytest.fixture
def place(prepared, tmp_path, monkeypatch, change_deployment, make_cache, capfd):
    monkeypatch.setenv(
        "EDGEOPT_CACHE", str(make_cache(tmp_path / "cache"))
    )  # without peaks that a test before took
    folder = shutil.copytree(prepared, tmp_path / "place")
    models = folder / "my models"
    shutil.copytree(models / "conv net.edgeopt", models / "stale.edgeopt")
    change_deployment(models / "stale.edgeopt", device={"cpu": "0" * 64})
    shutil.copytree(models / "conv net.edgeopt", models / "damaged.edgeopt")
    (models / "damaged.edgeopt" / "ledger.json").write_text("[1]")
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "80")
    capfd.readouterr()
    assert run(["probe", "--json"]) == 0
    Path("device.json").write_text(capfd.readouterr().out)
    return folder


@pytest.mark.parametrize(("line", "code", "prints", "placeholders"), RESULTS + ERRORS)
def test_printed_commands_run_as_printed(place, capfd, monkeypatch, line, code, prints, placeholders):
    arguments = shlex.split(line)
    assert run(arguments) == code, capfd.readouterr().err
    text = "\n".join(capfd.readouterr())
    if arguments[0] == "report":
        text += Path("report.md").read_text()
    commands = list(dict.fromkeys(commands_in(text)))
    assert sorted({shlex.split(each)[1] for each in commands} - {"--help"}) == sorted(set(prints.split()) - {""})
    assert {word for each in commands for word in PLACEHOLDER.findall(each)} == set(placeholders.split())
    if moved := re.search(r"^ +cd (.+)$", text, re.MULTILINE):
        monkeypatch.chdir(shlex.split(moved[1])[0])
    for each in commands:
        if "http://127.0.0.1:8000" in each:  # of a server that is not here
            assert Path(shlex.split(each)[2]).is_dir()
            assert refusal(each) == ""
        elif PLACEHOLDER.search(each) or each.startswith("edgeopt-agent") or each == LONG:
            assert refusal(each) == ""
        else:
            code = run(_short(shlex.split(each)[1:], place / "quick.toml"))
            assert code in DONE, f"{each}\n{capfd.readouterr().err}"


@pytest.mark.parametrize(("line", "hint", "remedy"), REMEDIES)
def test_hint_of_an_error_leads_further(place, capfd, line, hint, remedy):
    assert run(shlex.split(line)) in {2, 3}
    assert hint in capfd.readouterr().err.splitlines()[-1]
    assert run(shlex.split(remedy)) in DONE, capfd.readouterr().err


def _short(arguments, profile):
    """With limits that leave what is done as it is; a search for no device in particular has this profile."""
    if arguments[0] == "bench" and arguments[1] != "--help":
        return [*arguments, *([] if arguments[1] == "compare" else ["--rounds", "6", "--time-limit", "1"])]
    if arguments[0] != "optimize" or "--help" in arguments:
        return arguments
    for_any = {"--profile", "--target", "--device"}.isdisjoint(arguments)
    return [*arguments, "--time-limit", "2", *(["--profile", str(profile)] if for_any else [])]


@pytest.mark.slow
def test_every_row_of_the_table_is_delivered_by_its_number_or_refused_with_the_reason(place, capfd, monkeypatch):
    monkeypatch.delenv("EDGEOPT_CACHE_LIMIT")
    searched = f"optimize {MODEL} --data {DATA} --profile quick.toml --time-limit 20"
    assert run(shlex.split(f"{searched} -o new.edgeopt")) == 0
    text = capfd.readouterr().out
    numbers = re.findall(r"^ *(\d+)[* ] ", text, re.MULTILINE)
    told = re.search(r"as small: ([\d, ]+); deliver another with --pick N\.", " ".join(text.split()))
    front = told[1].split(", ") if told else ["1"]
    codes = {}
    for number in numbers:
        codes[number] = run(shlex.split(f"{searched} -o picked.edgeopt --pick {number}"))
        said = capfd.readouterr()
        assert codes[number] == 0 or number not in front, said.err
        assert codes[number] in {0, 2, 6}, said.err
    assert len(codes) > 1
