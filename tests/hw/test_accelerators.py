import pytest

from edgeopt.hw.accelerators import Finding, Sheet, blocked, gather, json_of, number, rows, scaled
from edgeopt.hw.device import Unavailable


def named(name="GPU"):
    sheet = Sheet("gpu")
    sheet.put("name", name, "a file")
    return sheet


def test_accelerators_are_numbered_with_their_sources_and_reasons():
    second = named("Second")
    second.put("power_w", None, "a file", "it does not report it")
    facts = gather(
        "gpu", (Finding((named("First"),), {"gpu.x": "no x"}, ("a",)), Finding((second,), {}, ("b",))), ""
    )
    assert [(gpu.name, gpu.index) for gpu in facts.section] == [("First", 0), ("Second", 1)]
    assert facts.sources["accelerators.gpu"] == "a, b"
    assert facts.sources["accelerators.gpu.1.name"] == "a file"
    assert facts.unavailable == {"gpu.x": "no x", "gpu.1.power_w": "it does not report it"}


def test_nothing_found_is_every_reason_in_one_sentence():
    answer = gather("npu", (Finding(unavailable={"npu.a": "no a"}), Finding()), "no b")
    assert answer == Unavailable("no a; no b")


def test_the_first_fact_counts_and_a_later_one_fills_a_gap():
    sheet = named("First")
    sheet.put("name", "Second", "elsewhere")
    sheet.put("clock_hz", None, "a", "a does not report it")
    sheet.put("clock_hz", 10**9, "b")
    assert sheet.values["name"] == "First"
    assert (sheet.sources["clock_hz"], sheet.absent) == ("b", {})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("temperature_c", 4000.0),
        ("temperature_c", float("nan")),
        ("utilization_percent", 101),
        ("power_w", 0),
        ("clock_hz", -1),
        ("memory_total_bytes", 10**30),
        ("memory_total_bytes", True),
        ("numa_node", -1),
        ("vendor", "\ud800"),
        ("vendor", "\x07"),
        ("vendor", "\ufffd\ufffd"),
    ],
)
def test_the_absurd_is_absent_with_a_reason(name, value):
    sheet = named()
    sheet.put(name, value, "a file")
    assert getattr(sheet.record(0), name) is None
    assert "impossible" in sheet.absent[name]


def test_a_sheet_without_a_name_is_no_accelerator():
    assert gather("gpu", (Finding((Sheet("gpu"),)),), "nothing") == Unavailable("nothing")


def test_of_several_runtimes_the_installed_one_is_named(machine):
    sheet = named()
    sheet.driven_by(machine(versions={"second": "1.0"}), ("api",), ("first", "second"))
    record = sheet.record(0)
    assert (record.runtime, record.runtime_installed, record.apis) == ("second", True, ("api",))


def test_a_tree_of_files_does_not_say_what_is_installed(machine):
    sheet = named()
    sheet.driven_by(machine(), ("api",), ("first",))
    assert sheet.record(0).runtime_installed is None
    assert "does not list" in sheet.absent["runtime_installed"]


def test_a_recording_without_dev_says_nothing_about_nodes(machine):
    assert blocked(machine(), "/dev/dri/renderD128", "the GPU") == ""


def test_numbers_of_files_and_libraries():
    assert number("42\n") == 42
    assert number("1500", 0.001) == pytest.approx(1.5)
    assert number("900", 1e6) == 900_000_000
    assert (number(None), number(""), number("x"), number("9" * 5000)) == (None, None, None, None)
    assert scaled(1410, 1e6) == 1_410_000_000
    assert (scaled(True, 1), scaled("3", 1), scaled(10**400, 1e6), scaled(float("nan"), 1e6)) == (None,) * 4


def test_json_of_commands():
    assert rows(json_of('{"a": 1}')) == ({"a": 1},)
    assert rows(json_of('[{"a": 1}, 2]')) == ({"a": 1},)
    assert (json_of(None), json_of("{"), json_of("[" * 99_999)) == (None, None, None)
