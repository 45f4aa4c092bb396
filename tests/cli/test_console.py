import json
import os
import signal
import tempfile

import numpy as np
import psutil
import pytest

from edgeopt import events
from edgeopt.cli.console import failure_as_page, machine_line, refuse_two_voices
from edgeopt.errors import ModelError, UsageError

# What a Python program says when an error was not turned into a sentence.
NOT_FOR_PEOPLE = ("Traceback", "Exception ignored", "BrokenPipeError", "Error:")

WITHOUT_RUNTIMES = "import sys; sys.modules['onnxruntime'] = sys.modules['openvino'] = None"
ENDS_BY_ITSELF = """
import signal, sys, typer
from edgeopt.cli.console import execute
from edgeopt.events import Log

def interrupt():
    print("asked")
    return True

def work(_emit):
    for _ in range(int(sys.argv[1])):
        signal.raise_signal(signal.SIGINT)
    return Log("info", "done")

try:
    execute("test", work, lambda log: f"{log.message}\\n", interrupt=interrupt)
except typer.Exit as left:
    sys.exit(left.exit_code)
"""
WITH_A_BUG = "import edgeopt.hw.probe as p; p.probe = lambda *_: 1 / 0"


def is_for_people(text):
    return not any(word in text for word in NOT_FOR_PEOPLE)


def pids_below(pid):
    return [child.pid for child in psutil.Process(pid).children(recursive=True)]


def records(out):
    """Every line of standard output as the event that it is."""
    return [events.decode(line) for line in out.splitlines()]


@pytest.fixture
def long_bench(start, null_model, null_data):
    """A command that would take minutes, in the middle of its work, with the processes that it started."""

    def running(*more):
        command = start(
            "bench", null_model(latency_ms=10), "--data", null_data, "--rounds", "1000", "--json", *more
        )
        command.first_line_with('"metric"')
        return command, pids_below(command.process.pid)

    return running


def test_a_command_that_works_leaves_with_0(edgeopt, null_model, null_data):
    code, out, err = edgeopt("bench", null_model(), "--data", null_data, "--rounds", "6")
    assert code == 0
    assert "model.null.json" in out
    assert "p50 ms" in out
    assert is_for_people(err)


def test_a_program_gets_records_and_the_last_one_is_the_result(edgeopt, null_model, null_data):
    model, other = null_model(), null_model("other", latency_ms=2)
    code, out, err = edgeopt("bench", model, "--against", other, "--data", null_data, "--rounds", "6", "--json")
    told = records(out)
    assert (code, err) == (0, "")
    assert isinstance(told[-1], events.Result)
    assert told[-1].kind == "bench"
    # Rounds that others on the machine spoil do not count.
    assert 1 <= told[-1].data["comparisons"][0]["speedup"]["rounds"] <= 6
    assert {type(event) for event in told[:-1]} == {events.Progress, events.Metric, events.Log}


@pytest.mark.processes
@pytest.mark.parametrize(
    ("arguments", "code", "name"),
    [
        (["bench", "none.onnx"], 3, "bad-model"),
        (["bench", "none.edgeopt"], 3, "bad-model"),
        (["verify", "none.edgeopt"], 3, "bad-bundle"),
        (["bench", "broken.null.json", "--data", "data.npz"], 3, "bad-model"),
        (["bench", "model.null.json", "--data", "none.npz"], 3, "bad-data"),
        (["optimize", "model.onnx", "-o", "out.edgeopt", "--floor", "loud"], 2, "usage"),
        (["bench", "fails.null.json", "--data", "data.npz"], 3, "bad-model"),
        (["bench", "crashes.null.json", "--data", "data.npz"], 1, "trial-failed"),
    ],
)
def test_a_failure_has_a_sentence_a_hint_and_its_exit_code(
    edgeopt_here, null_model, null_data, tmp_path, arguments, code, name
):
    null_model()
    null_model("fails", fail="run")
    null_model("crashes", crash="run")
    (tmp_path / "broken.null.json").write_text("{")
    (tmp_path / "model.onnx").write_bytes(b"\x08\x08")
    left, out, err = edgeopt_here(*arguments)
    assert (left, out) == (code, "")
    sentence = next(line for line in err.splitlines() if not line.startswith("["))
    assert sentence.startswith("edgeopt: ")
    assert sentence.endswith(".")
    assert err.splitlines()[-1].startswith("  ")
    assert is_for_people(err)
    left, out, err = edgeopt_here(*arguments, "--json")
    error = records(out)[-1]
    assert (left, err) == (code, "")
    assert isinstance(error, events.Error)
    assert (error.code, f"edgeopt: {error.message}") == (name, sentence)
    assert error.hint


def test_a_missing_runtime_leaves_with_5(edgeopt, tmp_path):
    (tmp_path / "model.onnx").write_bytes(b"\x08\x08")
    code, _, err = edgeopt("bench", "model.onnx", planted=WITHOUT_RUNTIMES)
    assert code == 5
    assert "pip install onnxruntime" in err
    assert is_for_people(err)


def test_other_results_than_promised_leave_with_6(edgeopt_here, bundle):
    import numpy as np

    from edgeopt.bundle.manifest import write_manifest

    np.savez(bundle / "golden/reference.npz", y=np.full((3, 1, 10), 7, np.float32))
    write_manifest(bundle)
    code, out, _ = edgeopt_here("verify", bundle, "--json")
    assert code == 6
    assert records(out)[-1].code == "verification-failed"


def test_a_bug_is_one_sentence(edgeopt):
    code, out, err = edgeopt("probe", planted=WITH_A_BUG)
    assert (code, out) == (1, "")
    sentence, hint = err.splitlines()
    assert sentence == ("edgeopt: edgeopt has an internal error: ZeroDivisionError: division by zero")
    assert "EDGEOPT_DEBUG=1" in hint


@pytest.fixture
def failing(monkeypatch, edgeopt_here):
    """Runs `edgeopt probe` with a probe that raises this."""

    def run(error, *more):
        def fail(*_):
            raise error

        monkeypatch.setattr("edgeopt.hw.probe.probe", fail)
        return edgeopt_here("probe", *more)

    return run


def test_a_bug_is_an_error_record_for_programs(failing):
    code, out, err = failing(ZeroDivisionError("division by zero"), "--json")
    assert (code, err) == (1, "")
    assert records(out)[-1].code == "bug"


def test_a_bug_shows_where_it_happened_on_request(edgeopt):
    code, _, err = edgeopt("probe", planted=WITH_A_BUG, EDGEOPT_DEBUG="1")
    assert code == 1
    assert "Traceback" in err
    assert err.rstrip().endswith("ZeroDivisionError: division by zero")


def test_a_full_disk_is_one_sentence(failing):
    code, _, err = failing(OSError(28, "No space left", "source", None, "target"))
    assert code == 3
    assert err.splitlines() == [
        "edgeopt: The disk is full: there is no room for 'target'.",
        "  Free some space there or choose another place, then run the same command again.",
    ]


def test_a_machine_without_a_folder_for_temporary_files_says_how_to_name_one(failing, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(tempfile, "tempdir", None)
        patched.setattr(tempfile, "_candidate_tempdir_list", lambda: ["/nowhere"])
        with pytest.raises(FileNotFoundError) as caught:
            tempfile.gettempdir()
    code, _, err = failing(caught.value)
    assert code == 1
    assert err.splitlines()[-1].strip() == "Set TMPDIR to a folder that can be written."


@pytest.mark.parametrize(
    ("number", "code", "name"), [(signal.SIGINT, 130, "cancelled"), (signal.SIGTERM, 143, "terminated")]
)
def test_a_stopped_command_leaves_nothing_behind(long_bench, ends, number, code, name):
    command, children = long_bench()
    assert children
    command.process.send_signal(number)
    left, out, err = command.finish()
    assert (left, err) == (code, "")
    assert json.loads(out.splitlines()[-1])["code"] == name
    assert ends(*children)
    assert list(command.temporary.iterdir()) == []


def test_an_impatient_user_changes_nothing(long_bench, ends):
    command, children = long_bench()
    for number in (signal.SIGINT, signal.SIGINT, signal.SIGTERM, signal.SIGINT):
        command.process.send_signal(number)
    left, _, err = command.finish()
    assert left in {130, 143}
    assert err == ""
    assert ends(*children)
    assert list(command.temporary.iterdir()) == []


def test_work_that_ends_by_itself_at_the_first_ctrl_c_is_cancelled_by_the_second(edgeopt, tmp_path):
    (tmp_path / "stubborn.py").write_text(ENDS_BY_ITSELF)
    once, told, _ = edgeopt("1", module="stubborn")
    assert (once, told.splitlines()) == (0, ["asked", "done"])
    twice, told, said = edgeopt("2", module="stubborn")
    assert (twice, told.splitlines()) == (130, ["asked"])
    assert said.strip() == "edgeopt: Cancelled; nothing was changed."


def test_people_are_told_that_they_cancelled(start, null_model, null_data):
    command = start("bench", null_model(latency_ms=10), "--data", null_data, "--rounds", "1000")
    next(line for line in command.process.stderr if "measuring" in line)
    command.process.send_signal(signal.SIGINT)
    left, out, err = command.finish()
    assert (left, out, err.strip()) == (130, "", "edgeopt: Cancelled; nothing was changed.")


def test_trials_of_a_killed_command_end_too(long_bench, ends):
    command, children = long_bench()
    command.process.kill()
    assert ends(*children)


def test_a_reader_who_has_seen_enough_ends_the_command(long_bench, ends):
    command, children = long_bench()
    command.process.stdout.close()
    command.process.wait(60)
    assert is_for_people(command.process.stderr.read())
    assert ends(*children)
    assert list(command.temporary.iterdir()) == []


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["--version"],
        ["probe"],
        ["probe", "--json"],
        ["bench", "none.onnx", "--json"],
    ],
    ids=" ".join,
)
def test_nobody_reading_is_no_reason_to_complain(edgeopt, arguments):
    reader, writer = os.pipe()
    os.close(reader)
    try:
        _, _, err = edgeopt(*arguments, stdout=writer)
    finally:
        os.close(writer)
    assert is_for_people(err)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["sign", "--new-key", "FULL/key"], "FULL/key"),
        (["simplify", "MODEL", "-o", "FULL/out.onnx"], "FULL/out.onnx"),
        (["export", "BUNDLE", "--to", "onnx", "-o", "FULL/out"], "FULL/out"),
        (["export", "BUNDLE", "--to", "openvino-ir", "-o", "FULL/out"], "FULL/out"),
        (["profile", "export", "BUNDLE", "-o", "FULL/profile.toml"], "FULL/profile.toml"),
        (["run", "BUNDLE", "--data", "DATA", "-o", "FULL/out"], "FULL/out/outputs.npz"),
        (["report", "BUNDLE", "-o", "FULL/report.html"], "FULL/report.html"),
        (["targets", "new", "mine", "-o", "FULL/mine.toml"], "FULL/mine.toml"),
        (["probe", "--record", "FULL/recording"], "FULL/recording"),
    ],
    ids=lambda value: " ".join(value[:2]) if isinstance(value, list) else "",
)
def test_what_a_full_disk_has_no_room_for_is_named_and_not_half_written(
    edgeopt_here, full_disk, conv_bundle, conv_model, tmp_path, arguments, named
):
    folder, fill = full_disk
    fill()
    np.savez(tmp_path / "data.npz", x=np.zeros((1, 3, 16, 16), np.float32))
    places = {"MODEL": conv_model, "BUNDLE": conv_bundle, "DATA": tmp_path / "data.npz"}
    full = [str(places.get(each, each.replace("FULL", str(folder)))) for each in arguments]
    code, _, err = edgeopt_here(*full)
    assert code == 3
    assert f"edgeopt: The disk is full: there is no room for '{named.replace('FULL', str(folder))}'." in err
    assert [each.name for each in folder.iterdir()] == ["filler"]


def test_a_full_folder_for_temporary_files_is_named(edgeopt, full_disk, conv_model, tmp_path):
    folder, fill = full_disk
    np.savez(tmp_path / "data.npz", x=np.zeros((64, 3, 16, 16), np.float32))
    fill()
    os.truncate(folder / "filler", (folder / "filler").stat().st_size - (64 << 10))
    code, _, err = edgeopt("bench", conv_model, "--data", tmp_path / "data.npz", TMPDIR=str(folder))
    assert code == 3
    assert f"there is no room for temporary files in '{folder}'" in err
    assert [each.name for each in folder.iterdir()] == ["filler"]


def test_a_machine_is_one_line():
    assert machine_line({"cpu": "Abacus"}, {"edgeopt": "1"}) == "Machine: Abacus, edgeopt 1."
    assert machine_line({}) == ""


def test_records_and_a_page_do_not_go_together():
    refuse_two_voices(json=True, markdown=False)
    refuse_two_voices(json=False, markdown=True)
    with pytest.raises(UsageError, match="exclude each other"):
        refuse_two_voices(json=True, markdown=True)


@pytest.mark.parametrize("markdown", [True, False])
def test_a_page_says_why_there_is_nothing_to_sum_up(capsys, markdown):
    with pytest.raises(ModelError), failure_as_page("edgeopt bench: a_b", markdown):
        raise ModelError("It is [torn].", "Mend it.")
    page = "## edgeopt bench: a\\_b\n\n**Failed: It is \\[torn\\].**\n\nMend it.\n"
    assert capsys.readouterr().out == (page if markdown else "")


def test_wrong_usage_is_no_page(capsys):
    with pytest.raises(UsageError), failure_as_page("edgeopt bench", markdown=True):
        raise UsageError("No.")
    assert capsys.readouterr().out == ""
