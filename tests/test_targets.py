from pathlib import Path

import msgspec
import pytest

from edgeopt.errors import MissingError
from edgeopt.hw.host import RecordedHost
from edgeopt.hw.probe import probe
from edgeopt.profiles import shipped_profiles
from edgeopt.targets import DoesNotFit, Fits, choose, fit, runtime_space

FAKEROOTS = Path(__file__).parent / "fakeroots"


@pytest.fixture
def device():
    return lambda board: probe(RecordedHost(FAKEROOTS / board))


@pytest.fixture(scope="module")
def shipped():
    return {profile.name: profile for profile in shipped_profiles()}


@pytest.mark.parametrize(
    ("board", "target"),
    [
        ("amd-zen4", "cpu-avx512-vnni"),
        ("intel-avx2", "cpu-avx2"),
        ("raspberry-pi-4", "mobile-cpu"),
        ("raspberry-pi-5", "arm-dotprod"),
        ("container-cgroup2", "cpu-avx512-vnni"),
    ],
)
def test_the_target_of_each_board(device, shipped, board, target):
    choice = choose(device(board), tuple(shipped.values()))
    assert choice.profile.name == target
    assert [v.name for v in choice.verdicts if v.chosen] == [target]
    assert {v.name for v in choice.verdicts} == set(shipped)
    assert all(v.reason for v in choice.verdicts)


def test_reasons(device, shipped):
    pi4 = device("raspberry-pi-4")
    assert fit(pi4, shipped["arm-dotprod"]) == DoesNotFit("the CPU lacks dotprod")
    assert fit(pi4, shipped["cpu-avx2"]) == DoesNotFit("it is for x86_64, and this device is aarch64")
    assert fit(pi4, shipped["generic-cpu"]) == Fits("fits every device")
    assert fit(pi4, shipped["mobile-cpu"]) == Fits("aarch64 with neon")


def test_a_target_that_fits_says_why_another_was_chosen(device, shipped):
    verdicts = {v.name: v for v in choose(device("intel-avx2"), tuple(shipped.values())).verdicts}
    assert verdicts["generic-cpu"].fits
    assert verdicts["generic-cpu"].reason == "fits, but cpu-avx2 is more exact"
    assert verdicts["cpu-avx512"].reason.startswith("the CPU lacks avx512f")


def test_any_order_of_the_profiles_gives_the_same_choice(device, shipped):
    zen4, profiles = device("amd-zen4"), tuple(shipped.values())
    assert choose(zen4, profiles) == choose(zen4, profiles[::-1])


def test_no_target_at_all(device, shipped):
    with pytest.raises(MissingError) as caught:
        choose(device("raspberry-pi-4"), [shipped["cpu-avx2"]])
    assert "cpu-avx2: it is for x86_64" in caught.value.hint


def test_bf16_is_tried_only_where_the_cpu_has_it(device, shipped):
    profile = shipped["cpu-avx512-vnni"]
    assert runtime_space(profile, device("amd-zen4"))["openvino-cpu"]["precision"] == ("f32", "bf16")
    assert runtime_space(profile, device("container-cgroup2"))["openvino-cpu"]["precision"] == ("f32",)


def test_zero_threads_means_all_usable_cores_each_value_once(device, shipped):
    profile = shipped["generic-cpu"]
    assert runtime_space(profile, device("raspberry-pi-4"))["onnxruntime-cpu"]["threads"] == (4, 1)
    assert runtime_space(profile, device("container-cgroup2"))["onnxruntime-cpu"]["threads"] == (1,)


def test_a_value_of_false_is_not_taken_for_no_threads(device, shipped):
    profile = msgspec.structs.replace(
        shipped["generic-cpu"], runtime={"onnxruntime-cpu": {"spinning": (False, True)}}
    )
    space = runtime_space(profile, device("raspberry-pi-4"))
    assert space == {"onnxruntime-cpu": {"spinning": (False, True)}}
