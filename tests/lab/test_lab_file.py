"""The file of a lab: what it may hold, and which devices measure side by side."""

import os
import platform
from pathlib import Path

import pytest

from edgeopt.errors import InputError, UsageError
from edgeopt.lab.lab_file import lanes, model_searches, read_lab_file

ROOT = Path(__file__).parents[2]
CORE = min(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 0


@pytest.fixture
def written(tmp_path):
    def write(text):
        path = tmp_path / "lab.toml"
        path.write_text(text)
        return path

    return write


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "missing required field `device`"),
        ('device = []\n[options]\nfloor = "25"', r"no \[\[device\]\]"),
        ('[[device]]\nname = "a"\ncore = [0]', "unknown field `core`.*device"),
        ('[[device]]\nname = "a/b"', "cannot be the name of a file"),
        ('[[device]]\nname = "a"\n[[device]]\nname = "a"', "two devices have the name 'a'"),
        ('[[device]]\nname = "a"\non = "pi"', "'pi' is not the address of a device"),
        ('[[device]]\nname = "a"\non = "ssh://pi"\ncores = [0]', "cores is for this one"),
        ('[[device]]\nname = "a"\nhold_back = "avx3"', "Invalid enum value 'avx3'"),
        ('[[device]]\nname = "a"\ncores = [100000]', "core 100000, which this process cannot use"),
        ('[[device]]\nname = "a"\nshare_host = true', "share_host of 'a' needs cores"),
        ('max_slowdown = "a lot"\n[[device]]\nname = "a"', "max_slowdown must be a percentage"),
        (
            "\n".join(f'[[device]]\nname = "{name}"\ncores = [{CORE}]\nshare_host = true' for name in "ab"),
            f"shares core {CORE} with another device",
        ),
        ('[[device]]\nname = "a"\non "', "lab.toml"),
    ],
)
def test_mistake_is_named(written, text, said):
    with pytest.raises(InputError, match=said):
        read_lab_file(written(text))


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ('[[device]]\nname = "a"\nholdback = "amx"', "Did you mean 'hold_back'?"),
        ('[[device]]\nname = "a"\n[models.a]\nfiles = "a"', "Did you mean 'file'?"),
        ('devices = []\n[[device]]\nname = "a"', "Did you mean 'device'?"),
        ('[[device]]\nname = "a"\nhold_back = "avx512_vnni"', "Did you mean 'avx512-vnni'?"),
        ('[[device]]\nname = "a"\nhold_back = "neon"', "There are: avx2, avx512, avx512-vnni, avx512-bf16, amx."),
        ('[[device]]\nname = "a"\ncores = 1', "Write a list: cores = [0, 1]"),
        ('[[device]]\nname = "a"\n[models.a]\ndata = "a.npz"', "Correct the file: docs/lab.md has an example."),
    ],
)
def test_mistake_has_a_suggestion(written, text, hint):
    with pytest.raises(InputError) as error:
        read_lab_file(written(text))
    assert error.value.hint == hint


def devices(written, *tables):
    text = "\n".join(f'[[device]]\nname = "{name}"\n{more}' for name, more in tables)
    return read_lab_file(written(text)).device


def test_devices_of_one_host_are_one_group(written):
    found = devices(
        written,
        ("one", f"cores = [{CORE}]"),
        ("all", ""),
        ("pi", 'on = "ssh://me@pi"'),
        ("same-pi", 'on = "ssh://other@pi:2222"'),
        ("agent", 'on = "https://nano:8080"'),
    )
    assert lanes(found) == (("one", "all"), ("pi", "same-pi"), ("agent",))


@pytest.mark.parametrize(
    "on",
    [
        *("ssh://localhost", "ssh://me@127.0.0.1:22", f"ssh://{platform.node()}", "http://localhost:8080"),
        *("http://[::1]:8080", "ssh://LOCALHOST"),
    ],
)
def test_address_of_this_machine_never_measures_beside_it(written, on):
    found = devices(written, ("here", ""), ("ssh", f"on = '{on}'"), ("pi", "on = 'ssh://pi@pi.local'"))
    assert lanes(found) == (("here", "ssh"), ("pi",))


@pytest.mark.skipif(len(getattr(os, "sched_getaffinity", lambda _: ())(0)) < 2, reason="needs two cores")
def test_devices_with_cores_of_their_own_share_a_host_only_if_all_of_them_say_so(written):
    first, second = sorted(os.sched_getaffinity(0))[:2]
    shared = [(str(core), f"cores = [{core}]\nshare_host = true") for core in (first, second)]
    assert lanes(devices(written, *shared)) == ((str(first),), (str(second),))
    assert lanes(devices(written, *shared, ("all", ""))) == ((str(first), str(second), "all"),)


def test_instruction_set_is_held_back_from_openvino(written):
    (device,) = devices(written, ("old", 'hold_back = "avx512-vnni"'))
    assert device.environment == {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE"}


def test_options_of_a_model_come_before_those_of_the_lab(written, relu_model):
    path = written(
        f'[[device]]\nname = "a"\n[options]\nfloor = "25dB"\ntime_limit_s = 5\n'
        f"[models.relu]\nfile = '{relu_model}'\nfloor = \"exact\"\noptions.time_limit_s = 9\n"
    )
    lab = read_lab_file(path)
    (found,) = model_searches(lab, path, ())
    words = (str(relu_model), "-o", "out.edgeopt", "--floor", "exact", "--time-limit", "9")
    assert found.arguments(Path("out.edgeopt")) == words
    (same,) = model_searches(lab, path, ("relu",))
    assert same == found
    (other,) = model_searches(lab, path, (str(relu_model),))
    assert other.options == {"floor": "25dB", "time_limit_s": 5}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ('pick = "3"', "'pick' is not an option of the searches of a lab"),
        ("time_limit = 5", "'time_limit' is not an option"),
        ('objective = "speed"', "model 'relu': .*speed"),
        ("time_limit_s = -5", "model 'relu': .*must be"),
    ],
)
def test_option_that_no_search_takes_is_refused(written, relu_model, options, said):
    path = written(f'[[device]]\nname = "a"\n[options]\n{options}\n')
    with pytest.raises(InputError, match=said):
        model_searches(read_lab_file(path), path, (str(relu_model),))


def test_model_that_is_nowhere_is_refused(written, relu_model):
    path = written(f"[[device]]\nname = \"a\"\n[models.relu]\nfile = '{relu_model}'\n")
    with pytest.raises(UsageError, match="neither a file nor one of") as error:
        model_searches(read_lab_file(path), path, ("rely",))
    assert "relu" in error.value.hint
    bare = written('[[device]]\nname = "a"')
    with pytest.raises(UsageError, match="No models"):
        model_searches(read_lab_file(bare), bare, ())


def test_model_that_is_named_twice_is_refused(written, relu_model):
    path = written('[[device]]\nname = "a"')
    with pytest.raises(UsageError, match=r"relu\.onnx' is named more than once"):
        model_searches(read_lab_file(path), path, (str(relu_model), str(relu_model)))


def test_example_is_valid():
    path = ROOT / "examples" / "lab.toml"
    assert len(read_lab_file(path).device) >= 2
