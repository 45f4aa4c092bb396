"""Where a signal is raised in a command, and where it is not."""

import signal

import pytest

from edgeopt import events
from edgeopt.cli.signals import NUMBERS

# A command of a test's own: `work` is planted before it, and may send its process whatever signal it likes.
COMMAND = """
import signal, sys, threading
import typer
from edgeopt.cli import program
from edgeopt.cli.console import JsonFlag, execute
from edgeopt.events import Log, Progress

def sends(number=signal.SIGTERM):
    signal.raise_signal(number)

{work}

def command(json: JsonFlag = False) -> None:
    {before}
    execute("test", work, lambda log: log.message + "\\n", json)
    {after}

def build():
    application = program.application(lambda: None)
    application.command("command")(command)
    application.command("other")(lambda: None)
    return application

program.leave(lambda arguments: program.run("test", build, arguments))
"""
WORK = "def work(emit): return Log('info', 'done')"
FOR_EVER = "threading.Event().wait(20)"


@pytest.fixture
def command(edgeopt, tmp_path):
    """Runs a command made of these lines of Python: its exit code and its records."""

    def run(work=WORK, before="pass", after="pass", **more):
        (tmp_path / "planted_command.py").write_text(COMMAND.format(work=work, before=before, after=after))
        code, out, err = edgeopt("command", "--json", module="planted_command", **more)
        assert err == ""
        return code, [events.decode(line) for line in out.splitlines()]

    return run


def test_before_the_work_begins_it_is_told_too(command):
    code, told = command(before="sends()")
    assert (code, [each.code for each in told]) == (143, ["terminated"])
    code, told = command(before="sends(signal.SIGINT)")
    assert (code, [each.code for each in told]) == (130, ["cancelled"])


def test_on_the_way_to_the_command_it_is_told_too(command):
    code, told = command(f"{WORK}\nprogram._run = lambda *_: sends()")
    assert (code, [each.code for each in told]) == (143, ["terminated"])


@pytest.mark.parametrize("number", ["SIGTERM", "SIGINT"])
def test_after_the_result_it_changes_nothing(command, number):
    code, told = command(after=f"sends(signal.{number})")
    assert (code, [each.kind for each in told]) == (0, ["test"])


def test_while_the_result_is_written_it_changes_nothing(command):
    work = """
import os
write = os.write

def work(emit):
    def written(descriptor, data):
        sends()
        return write(descriptor, data)
    os.write = written
    return Log("info", "done")
"""
    code, told = command(work)
    assert (code, [each.kind for each in told]) == (0, ["test"])


def test_within_a_record_it_waits_for_its_end(command):
    work = f"""
import os
write = os.write

def work(emit):
    def part(descriptor, data):
        os.write = write
        sends()
        return write(descriptor, data[:7])
    os.write = part
    emit(Progress("half"))
    {FOR_EVER}
"""
    code, told = command(work)
    assert code == 143
    assert [type(each) for each in told] == [events.Progress, events.Error]


def test_an_import_is_not_interrupted(command, tmp_path):
    (tmp_path / "slow_library.py").write_text("import signal; signal.raise_signal(signal.SIGINT); whole = True")
    work = f"""
def work(emit):
    try:
        import slow_library
        {FOR_EVER}
    finally:
        emit(Progress("whole" if hasattr(sys.modules.get("slow_library"), "whole") else "half"))
"""
    code, told = command(work)
    assert (code, told[0].phase, told[1].code) == (130, "whole", "cancelled")


def test_an_import_that_hangs_is(command, tmp_path):
    (tmp_path / "hanging_library.py").write_text("import signal, threading\nsignal.raise_signal(2)\n" + FOR_EVER)
    work = """
from edgeopt.cli import signals
signals._LONGEST_WAIT_S = 0.05
def work(emit):
    import hanging_library
"""
    code, told = command(work)
    assert (code, told[-1].code) == (130, "cancelled")


def test_a_removal_is_not_interrupted(command, tmp_path):
    for name in "abc":
        (tmp_path / "folder" / name).mkdir(parents=True)
    work = f"""
import os, shutil
remove = os.rmdir

def interrupted(*arguments, **more):
    os.rmdir = remove
    sends()
    return remove(*arguments, **more)

def work(emit):
    os.rmdir = interrupted
    shutil.rmtree({str(tmp_path / "folder")!r}, ignore_errors=True)
    {FOR_EVER}
"""
    code, told = command(work)
    assert (code, told[-1].code) == (143, "terminated")
    assert not (tmp_path / "folder").exists()


def test_what_is_temporary_is_made_whole_and_removed(command, tmp_path):
    work = f"""
import os, tempfile
make = os.mkdir

def interrupted(*arguments):
    make(*arguments)
    sends()

def work(emit):
    os.mkdir = interrupted
    with tempfile.TemporaryDirectory(dir={str(tmp_path)!r}, prefix="made-"):
        {FOR_EVER}
"""
    code, told = command(work)
    assert (code, told[-1].code) == (143, "terminated")
    assert list(tmp_path.glob("made-*")) == []


@pytest.mark.parametrize(("number", "code"), [("SIGTERM", 143), ("SIGINT", 130)])
def test_where_python_drops_exceptions_it_comes_again(command, number, code):
    work = f"""
class Goes:
    def __del__(self):
        sends(signal.{number})

def work(emit):
    goes = Goes()
    del goes
    {FOR_EVER}
"""
    left, told = command(work)
    assert (left, [type(each) for each in told]) == (code, [events.Error])


def test_asyncio_does_not_keep_it_to_itself(command):
    work = """
import asyncio

async def long():
    asyncio.get_running_loop().call_soon(sends)
    await asyncio.sleep(20)

def work(emit):
    asyncio.run(long())
"""
    code, told = command(work)
    assert (code, [each.code for each in told]) == (143, ["terminated"])


def test_what_asyncio_took_the_signals_from_ends_by_them_all_the_same(command):
    work = """
import asyncio

async def short():
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, print)

def work(emit):
    asyncio.run(short())
    return Log("info", "done")
"""
    code, told = command(work, after="sends()")
    assert (code, [each.kind for each in told]) == (0, ["test"])


@pytest.mark.parametrize("arguments", [["passes", "--json"], ["passes"], ["--help"]])
def test_a_full_disk_behind_standard_output_is_told_on_the_other(edgeopt, arguments):
    with open("/dev/full", "w") as full:  # noqa: PTH123 - a descriptor for the process
        code, _, err = edgeopt(*arguments, stdout=full)
    assert code == 3
    assert err.splitlines()[0] == "edgeopt: The disk is full: there is no room for '/dev/full'."


def test_the_handlers_of_who_calls_it_come_back(edgeopt_here):
    before = [signal.getsignal(number) for number in NUMBERS]
    assert edgeopt_here("passes", "--json")[0] == 0
    assert [signal.getsignal(number) for number in NUMBERS] == before
