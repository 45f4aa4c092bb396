from pathlib import Path

import msgspec
import pytest

from edgeopt.errors import MissingError, ProfileError, UsageError
from edgeopt.hw.host import RecordedHost
from edgeopt.hw.probe import probe
from edgeopt.profiles import shipped_profiles, shipped_uses
from edgeopt.profiles.targets import (
    DoesNotFit,
    Fits,
    choose,
    find,
    fit,
    planned_names,
    profile_for,
    runtime_space,
    settled_options,
    without_planned,
)

FAKEROOTS = Path(__file__).parents[1] / "fakeroots"


@pytest.fixture(scope="module")
def device():
    known = {}
    return lambda board: known.setdefault(board, probe(RecordedHost(FAKEROOTS / board)))


@pytest.fixture(scope="module")
def shipped():
    return {profile.name: profile for profile in shipped_profiles()}


@pytest.mark.parametrize(
    ("board", "target"),
    [
        ("amd-zen2", "cpu-avx2"),
        ("amd-zen4", "cpu-avx512-vnni"),
        ("intel-avx2", "cpu-avx2"),
        ("intel-hybrid", "cpu-avx-vnni"),
        ("xeon-amx", "cpu-amx"),
        ("raspberry-pi-2", "mobile-cpu"),
        ("raspberry-pi-4", "mobile-cpu"),
        ("raspberry-pi-5", "arm-dotprod"),
        ("arm-sve2", "arm-i8mm"),
        ("riscv-rvv", "riscv-rvv"),
        ("rockchip-rk3588", "arm-dotprod"),
        ("container-cgroup1", "cpu-avx512"),
        ("container-cgroup2", "cpu-avx512-vnni"),
        ("intel-arc-desktop", "gpu-openvino"),
        ("intel-core-ultra", "gpu-openvino"),
        ("jetson-orin", "gpu-tensorrt"),
        ("macos-m2", "gpu-mps"),
        ("windows-11", "gpu-directml"),
        ("qualcomm-qcs6490", "npu-qnn"),
    ],
)
def test_the_target_of_each_board(device, shipped, board, target):
    choice = choose(device(board), tuple(shipped.values()))
    assert choice.profile.name == choice.target.name == target
    assert [v.name for v in choice.verdicts if v.used] == [target]
    assert [v.name for v in choice.verdicts if v.chosen] == [target]
    assert {v.name for v in choice.verdicts} == set(shipped)
    assert all(v.reason for v in choice.verdicts)


def test_a_target_without_a_backend_is_chosen_and_says_what_is_used_instead(device, shipped):
    order = msgspec.structs.replace(shipped["gpu-tensorrt"].backends, order=("onnxruntime-webgpu",))
    planned = msgspec.structs.replace(shipped["gpu-tensorrt"], backends=order)
    choice = choose(device("jetson-orin"), (planned, shipped["arm-dotprod"], shipped["generic-cpu"]))
    verdict = next(v for v in choice.verdicts if v.name == "gpu-tensorrt")
    assert (verdict.fits, verdict.usable, verdict.chosen) == (True, False, True)
    assert verdict.reason.endswith(
        "; its backend is not supported yet (onnxruntime-webgpu), so arm-dotprod is used"
    )
    first, second = choice.verdicts[:2]
    assert (first.name, second.name) == ("gpu-tensorrt", "arm-dotprod")
    assert second.reason.endswith("; used instead of gpu-tensorrt")


def test_by_runtime_it_is_cuda_where_tensorrt_lacks(device, shipped):
    orin = device("jetson-orin")
    kept = tuple(runtime for runtime in orin.runtimes if not runtime.name.startswith("tensorrt"))
    choice = choose(msgspec.structs.replace(orin, runtimes=kept), tuple(shipped.values()))
    assert choice.target.name == "gpu-cuda"


def test_reasons(device, shipped):
    pi4 = device("raspberry-pi-4")
    assert fit(pi4, shipped["arm-dotprod"]) == DoesNotFit("the CPU lacks dotprod")
    assert fit(pi4, shipped["cpu-avx2"]) == DoesNotFit(
        "it is for x86_64, and this device is aarch64", other_system=True
    )
    assert fit(pi4, shipped["generic-cpu"]) == Fits("fits every device")
    assert fit(pi4, shipped["mobile-cpu"]) == Fits("aarch64 with neon")


def test_a_target_that_fits_says_why_another_was_chosen(device, shipped):
    verdicts = {v.name: v for v in choose(device("intel-avx2"), tuple(shipped.values())).verdicts}
    assert verdicts["generic-cpu"].fits
    assert verdicts["generic-cpu"].reason == "fits, but cpu-avx2 is more specific"
    assert verdicts["cpu-avx512"].reason.startswith("the CPU lacks avx512f")


def test_any_order_of_the_profiles_gives_the_same_choice(device, shipped):
    orin, profiles = device("jetson-orin"), tuple(shipped.values())
    assert choose(orin, profiles) == choose(orin, profiles[::-1])


def test_no_target_at_all(device, shipped):
    with pytest.raises(MissingError) as caught:
        choose(device("raspberry-pi-4"), [shipped["cpu-avx2"]])
    assert "cpu-avx2: it is for x86_64" in caught.value.hint


def test_a_use_takes_whatever_target_fits(device):
    names = {use.name for use in shipped_uses()}
    assert names == {"batch-server", "battery", "low-memory", "realtime"}
    for board, target in (("raspberry-pi-5", "arm-dotprod"), ("xeon-amx", "cpu-amx")):
        for name in names:
            resolved = find(name, device(board))
            assert resolved.names[:2] == (name, target)
            assert resolved.profile.name == name
    pi, xeon = (profile_for(device(board), named="realtime") for board in ("raspberry-pi-5", "xeon-amx"))
    assert pi.quantization.activation_type == "int8"
    assert xeon.quantization.activation_type == "uint8"
    for profile in (pi, xeon):
        assert profile.runtime["onnxruntime-cpu"]["flush_denormals"] == (True,)


def test_a_use_on_a_target_that_is_named(device):
    profile = profile_for(device("xeon-amx"), target="cpu-avx2", named="battery")
    assert (profile.name, profile.match.rank) == ("battery", 20)


def test_a_profile_is_found_by_file_before_by_name(device, tmp_path, monkeypatch):
    (tmp_path / "mine.toml").write_text('name = "mine"\ntitle = "M"\nextends = "realtime"\n')
    found = find(tmp_path / "mine.toml", device("raspberry-pi-5"))
    assert found.names == ("mine", "realtime", "arm-dotprod", "mobile-cpu", "generic-cpu")
    assert found.automatic
    monkeypatch.chdir(tmp_path)
    (tmp_path / "realtime").write_text('name = "other"\ntitle = "O"\nextends = "cpu-avx2"\n')
    assert find("realtime").profile.name == "other"


@pytest.mark.parametrize(
    ("named", "says", "hint"),
    [
        ("realtim", "There is no profile 'realtim'", "Did you mean 'realtime'?"),
        ("nowhere.toml", "There is no profile at 'nowhere.toml'", "edgeopt targets new nowhere"),
    ],
)
def test_a_profile_that_is_not_there(device, named, says, hint):
    with pytest.raises(ProfileError, match=says) as caught:
        profile_for(device("amd-zen4"), named=named)
    assert hint in caught.value.hint


@pytest.mark.parametrize(
    ("asked", "error", "says", "hint"),
    [
        ({"target": "cpu-avx3"}, UsageError, "no target 'cpu-avx3'", "'cpu-avx'"),
        ({"target": "realtime"}, UsageError, "a profile for a use case, not a target", "--profile realtime"),
        (
            {"target": "mobile-gpu"},
            MissingError,
            "needs the backend onnxruntime-webgpu, which is not supported yet",
            "cpu-avx512-vnni",
        ),
        (
            {"named": "mobile-gpu"},
            MissingError,
            "needs the backend onnxruntime-webgpu, which is not supported yet",
            "cpu-avx512-vnni",
        ),
        ({"named": "cpu-avx2", "target": "cpu-avx"}, UsageError, "names its own target", "auto"),
    ],
)
def test_what_cannot_be_followed_is_said(device, asked, error, says, hint):
    with pytest.raises(error, match=says) as caught:
        profile_for(device("amd-zen4"), **asked)
    assert hint in caught.value.hint


def test_what_is_only_planned_is_left_out(device, tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(
        'name = "mine"\ntitle = "M"\nextends = "generic-cpu"\n[precision]\nladder = ["source"]\n'
        '[backends]\norder = ["onnxruntime-cpu", "onnxruntime-webgpu"]\n'
    )
    profile = profile_for(device("amd-zen4"), named=path)
    assert planned_names(profile) == ("onnxruntime-webgpu",)
    left = without_planned(profile)
    assert left.backends.order == ("onnxruntime-cpu",)
    assert planned_names(left) == ()


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


def test_a_single_value_is_settled_but_for_all_cores(device, shipped):
    options = {"arena": (False,), "threads": (0,), "spinning": (True, False)}
    profile = msgspec.structs.replace(shipped["generic-cpu"], runtime={"onnxruntime-cpu": options})
    assert settled_options(profile, device("raspberry-pi-4")) == {"onnxruntime-cpu": {"arena": False}}
    fixed = msgspec.structs.replace(profile, runtime={"onnxruntime-cpu": {"threads": (3,)}})
    assert settled_options(fixed, device("raspberry-pi-4")) == {"onnxruntime-cpu": {"threads": 3}}


def test_what_the_cpu_lacks_is_not_settled(device, shipped):
    profile = msgspec.structs.replace(
        shipped["generic-cpu"],
        runtime={"openvino-cpu": {"precision": ("bf16",)}},
        needs={"bf16": ("avx512-bf16",)},
    )
    assert settled_options(profile, device("raspberry-pi-4")) == {"openvino-cpu": {}}
    assert settled_options(profile, device("amd-zen4")) == {"openvino-cpu": {"precision": "bf16"}}
