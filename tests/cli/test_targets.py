import io
import json
from pathlib import Path

import msgspec
import pytest
from rich.console import Console

from edgeopt.cli.main import run
from edgeopt.cli.targets import show_list, show_target, show_validated
from edgeopt.commands.targets import ListRequest, ShowRequest, ValidateRequest, check, list_targets, look_up
from edgeopt.hw import probe as probe_module
from edgeopt.hw.host import RecordedHost
from edgeopt.views.terminal import write

FAKEROOTS = Path(__file__).parents[1] / "fakeroots"
ORIN = FAKEROOTS / "jetson-orin"


@pytest.fixture(autouse=True)
def raspberry_pi_4(monkeypatch):
    monkeypatch.setattr(probe_module, "LocalHost", lambda: RecordedHost(FAKEROOTS / "raspberry-pi-4"))


@pytest.fixture
def seen():
    def look(show, result):
        console = Console(file=io.StringIO(), width=200)
        write(show(result), console)
        return console.file.getvalue()

    return look


@pytest.fixture
def told(capsys):
    """What a command line answers with --json: the exit code and the last event."""

    def ask(*arguments):
        code = run([*arguments, "--json"])
        return code, json.loads(capsys.readouterr().out.splitlines()[-1])

    return ask


def test_people_see_every_target_the_chosen_one_first(seen):
    text = seen(show_list, list_targets(ListRequest()))
    lines = text.splitlines()
    assert lines[1].split()[:2] == ["mobile-cpu", "chosen"]
    assert lines[2].split()[:2] == ["generic-cpu", "fits"]
    assert any("arm-dotprod" in line and "the CPU lacks dotprod" in line for line in lines)
    assert "realtime" in text
    assert "Steady latency" in text


def test_programs_get_one_record(told):
    code, event = told("targets")
    assert (code, event["kind"]) == (0, "targets")
    assert event["data"]["chosen"] == "mobile-cpu"
    assert event["data"]["used"] == event["data"]["chosen"]
    assert len(event["data"]["targets"]) == 20
    assert [use["name"] for use in event["data"]["uses"]] == ["batch-server", "battery", "low-memory", "realtime"]


def test_for_a_machine_that_is_not_here(told, capsys, tmp_path):
    code, event = told("targets", "--root", str(ORIN))
    assert (code, event["data"]["used"], event["data"]["chosen"]) == (0, "gpu-tensorrt", "gpu-tensorrt")
    assert run(["probe", "--root", str(ORIN), "--json"]) == 0
    (tmp_path / "orin.json").write_text(capsys.readouterr().out)
    stored = told("targets", "--device", str(tmp_path / "orin.json"))[1]["data"]
    assert stored == event["data"]


def test_a_device_is_named_once(told):
    code, event = told("targets", "--root", str(ORIN), "--device", "d.json")
    assert (code, event["code"]) == (2, "usage")
    assert "exclude each other" in event["message"]


def test_one_target_in_full(seen, told):
    shown = look_up(ShowRequest("arm-dotprod"))
    assert (shown.fits, shown.extends) == (False, ("mobile-cpu", "generic-cpu"))
    text = seen(show_target, shown)
    assert "does not fit this device: the CPU lacks dotprod" in text
    line = next(line for line in text.splitlines() if line.startswith("activation_type"))
    assert line.split()[1:3] == ['"int8"', "mobile-cpu"]
    assert "NEON multiplies like signs" in line
    assert "[match]" in text
    code, event = told("targets", "show", "arm-dotprod")
    assert (code, event["kind"]) == (0, "targets-show")
    rows = {(row["table"], row["key"]): row for row in event["data"]["values"]}
    assert rows["search", "time_limit_s"]["origin"] == "arm-dotprod"


def test_a_use_in_full_has_the_target_of_the_device(seen):
    shown = look_up(ShowRequest("realtime", root=ORIN))
    assert shown.extends[0] == "gpu-tensorrt"
    assert "auto" in seen(show_target, shown)
    assert look_up(ShowRequest("realtime")).extends[0] == "mobile-cpu"


def test_a_target_that_this_version_cannot_use(seen):
    shown = look_up(ShowRequest("mobile-gpu"))
    assert shown.lacking_backend == "onnxruntime-webgpu"
    assert "its backend onnxruntime-webgpu is not supported yet" in seen(
        show_target, msgspec.structs.replace(shown, fits=True)
    )


def test_a_name_that_there_is_not(told):
    code, event = told("targets", "show", "arm-dotprot")
    assert (code, event["code"], event["hint"]) == (3, "bad-profile", "Did you mean 'arm-dotprod'?")


def test_a_profile_of_ones_own_from_beginning_to_end(told, seen, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, event = told("targets", "new", "my-camera", "--from", "realtime")
    assert (code, event["data"]) == (0, {"path": "my-camera.toml", "name": "my-camera", "extends": "realtime"})
    code, event = told("targets", "validate", "my-camera.toml")
    assert (code, event["data"]["fits"]) == (0, True)
    assert event["data"]["extends"] == ["realtime", "mobile-cpu", "generic-cpu"]
    assert "my-camera.toml is a valid profile" in seen(
        show_validated, check(ValidateRequest(Path("my-camera.toml")))
    )
    code, event = told("targets", "new", "my-camera")
    assert (code, event["code"]) == (2, "usage")
    assert "already exists" in event["message"]


def test_a_new_profile_extends_what_fits_or_auto(told, tmp_path):
    for base, extends in (((), "mobile-cpu"), (("--from", "auto"), "auto")):
        out = tmp_path / f"{extends}.toml"
        code, event = told("targets", "new", "mine", *base, "-o", str(out))
        assert (code, event["data"]["extends"]) == (0, extends)
        assert f'extends = "{extends}"' in out.read_text()


def test_a_profile_with_a_mistake(told, tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text('name = "mine"\ntitle = "M"\nextends = "auto"\n[search]\ntime_limt_s = 3\n')
    code, event = told("targets", "validate", str(path))
    assert (code, event["code"]) == (3, "bad-profile")
    assert event["message"] == f"{path}: the table [search] has no key 'time_limt_s'."
    assert event["hint"] == "Did you mean 'time_limit_s'?"


def test_a_file_that_is_not_there_is_not_taken_for_a_name(told, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert told("targets", "validate", "realtime")[0] == 3


def test_what_a_valid_profile_leaves_out(seen, tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(
        'name = "mine"\ntitle = "M"\nextends = "mobile-cpu"\n'
        '[backends]\norder = ["onnxruntime-cpu", "onnxruntime-webgpu"]\n'
    )
    assert "leaves out what it does not have yet: onnxruntime-webgpu" in seen(
        show_validated, check(ValidateRequest(path))
    )


def test_options_before_the_command_are_not_lost_in_silence(capsys):
    assert run(["targets", "--json", "show", "cpu-avx2"]) == 2
    assert "edgeopt targets show ... --json" in capsys.readouterr().out


def test_each_command_has_help_with_examples(capsys):
    for command in ("show", "validate", "new"):
        assert run(["targets", command, "--help"]) == 0
        text = capsys.readouterr().out
        assert f"edgeopt targets {command} " in text.split("Examples:")[1]
        assert max(map(len, text.splitlines())) <= 100
