import json
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from edgeopt.hw.device import Unavailable
from edgeopt.hw.host import RecordedHost
from edgeopt.measure.instruments.energy import EnergyMeter, Integrator, energy, open_rapl

RAPL = "/sys/class/powercap"
INA = "/sys/class/hwmon/hwmon1"
BAT = "/sys/class/power_supply/BAT0"
GPUS = {"calls": {"edgeopt.hw.nvml.query()": {"gpus": [{"index": 0}, {"index": 1}], "errors": {}}}}


class Machine(RecordedHost):
    """A recorded machine whose files change between two looks."""

    def write(self, files):
        for path, text in files.items():
            file = self.root / path.lstrip("/")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(f"{text}\n")
        return self


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path)


@pytest.fixture
def meter():
    """Opens meters, and closes them at the end."""
    opened = []

    def make(host, gpus=()):
        opened.append(EnergyMeter.open(host, gpus))
        return opened[-1]

    yield make
    for each in opened:
        if isinstance(each, EnergyMeter):
            each.close()


def zone(number, name, microjoules, maximum=262_143_328_850):
    folder = f"{RAPL}/intel-rapl:{number}"
    return {
        f"{folder}/name": name,
        f"{folder}/energy_uj": microjoules,
        f"{folder}/max_energy_range_uj": maximum,
    }


def battery(microwatts, status="Discharging"):
    return {f"{BAT}/type": "Battery", f"{BAT}/status": status, f"{BAT}/power_now": microwatts}


def rail(chip, channel, label, millivolts, milliamperes):
    folder = f"/sys/class/hwmon/hwmon{chip}"
    return {
        f"{folder}/name": "ina3221",
        f"{folder}/in{channel}_label": label,
        f"{folder}/in{channel}_input": millivolts,
        f"{folder}/curr{channel}_input": milliamperes,
    }


@pytest.fixture
def pynvml(monkeypatch):
    """A stand-in for pynvml, whose counters (in mJ) and powers (in mW) a test sets."""
    told = SimpleNamespace(millijoules={0: 5_000, 1: 9_000}, milliwatts={})

    def asked(table):
        def ask(handle):
            if handle not in table:
                raise RuntimeError("Not Supported")
            return table[handle]

        return ask

    module = SimpleNamespace(
        nvmlInit=lambda: None,
        nvmlShutdown=lambda: None,
        nvmlDeviceGetHandleByIndex=lambda index: index,
        nvmlDeviceGetTotalEnergyConsumption=asked(told.millijoules),
        nvmlDeviceGetPowerUsage=asked(told.milliwatts),
    )
    monkeypatch.setitem(sys.modules, "pynvml", module)
    return told


def test_packages_and_their_memory_are_added_and_parts_are_not_counted_twice(machine, meter):
    machine.write(
        zone("0", "package-0", 1_000_000)
        | zone("0:0", "core", 10)
        | zone("0:1", "dram", 500_000)
        | zone("1", "package-1", 7_000_000)
        | zone("2", "psys", 10)
    )
    found = meter(machine)
    assert found.joules() == 0.0
    machine.write(
        zone("0", "package-0", 3_000_000)
        | zone("0:0", "core", 1_500_000)
        | zone("0:1", "dram", 700_000)
        | zone("1", "package-1", 7_500_000)
        | zone("2", "psys", 9_000_000)
    )
    assert found.joules() == pytest.approx(2.7)
    assert found.source == "RAPL (2 CPU packages with memory)"


def test_a_counter_that_starts_again_goes_on(machine, meter):
    machine.write(zone("0", "package-0", 900_000, maximum=1_000_000))
    found = meter(machine)
    machine.write(zone("0", "package-0", 200_000, maximum=1_000_000))
    assert found.joules() == pytest.approx(0.3, abs=1e-5)
    machine.write(zone("0", "package-0", 300_000, maximum=1_000_000))
    assert found.joules() == pytest.approx(0.4, abs=1e-5)


def test_counters_that_only_root_may_read_are_told_with_the_remedy(machine):
    machine.write(zone("0", "package-0", ""))
    found = EnergyMeter.open(machine)
    assert isinstance(found, Unavailable)
    assert "only root" in found.reason
    assert "chmod a+r /sys/class/powercap/intel-rapl:*/energy_uj" in found.reason


def test_a_counter_that_goes_away_gives_no_number(machine, meter):
    machine.write(zone("0", "package-0", 900_000))
    found = meter(machine)
    machine.write(zone("0", "package-0", ""))
    assert found.joules() is None
    machine.write(zone("0", "package-0", 950_000))
    assert found.joules() is None
    assert "could not be read" in energy(found, found.joules(), 10.0, 100.0).reason


def test_the_gpus_that_take_part_are_added(machine, meter, pynvml):
    machine.write(zone("0", "package-0", 0) | {"calls.json": json.dumps(GPUS)})
    found = meter(machine, (1,))
    assert found.source == "RAPL (1 CPU package) + NVML (GPU 1)"
    assert found.resolution_s == 0.1
    pynvml.millijoules[1] += 4_000
    pynvml.millijoules[0] += 70_000
    machine.write(zone("0", "package-0", 1_000_000))
    assert found.joules() == pytest.approx(5.0)


def test_a_gpu_that_takes_no_part_is_not_asked(machine, meter, pynvml):
    machine.write({"calls.json": json.dumps(GPUS)})
    assert isinstance(meter(machine), Unavailable)


def test_an_old_gpu_tells_its_power(machine, meter, pynvml):
    machine.write({"calls.json": json.dumps(GPUS)})
    pynvml.millijoules.clear()
    pynvml.milliwatts[0] = 50_000
    found = meter(machine, (0,))
    begin = time.monotonic()
    before = found.joules()
    while time.monotonic() - begin < 0.1:
        found.joules()
    assert found.joules() - before == pytest.approx(50 * (time.monotonic() - begin), rel=0.3)
    assert found.source == "NVML (GPU 0), from its power"


@pytest.mark.parametrize(
    ("answer", "words"),
    [({"unavailable": "the driver is not loaded"}, "the driver is not loaded"), ({"error": "hung"}, "hung")],
)
def test_a_gpu_that_does_not_answer_has_a_reason(machine, answer, words):
    machine.write({"calls.json": json.dumps({"calls": {"edgeopt.hw.nvml.query()": answer}})})
    found = EnergyMeter.open(machine, (0,))
    assert isinstance(found, Unavailable)
    assert words in found.reason


@pytest.mark.parametrize(
    ("files", "source", "watts"),
    [
        (rail(1, 1, "VDD_IN", 19_000, 420) | rail(1, 2, "VDD_CPU_GPU_CV", 19_000, 100), "hwmon (VDD_IN)", 7.98),
        (
            rail(1, 1, "VDD_SOC", 20_000, 200) | rail(1, 2, "VDD_CPU_CV", 20_000, 100) | rail(2, 1, "NC", 1, 1),
            "hwmon (VDD_SOC, VDD_CPU_CV)",
            6.0,
        ),
        ({f"{INA}/name": "ina226", f"{INA}/power1_input": 3_500_000}, "hwmon (channel 1)", 3.5),
        (battery(7_250_000), "battery (the whole device)", 7.25),
    ],
)
def test_meters_that_tell_power_are_added_up_over_time(machine, meter, files, source, watts):
    found = meter(machine.write(files))
    assert found.source == source
    # A busy machine may stop this process anywhere: what was drawn lies between the shortest and the longest time.
    before_first, first, after_first = time.monotonic(), found.joules(), time.monotonic()
    while time.monotonic() - after_first < 0.05:
        found.joules()
    before_last, last, after_last = time.monotonic(), found.joules(), time.monotonic()
    assert 0.7 * watts * (before_last - after_first) < last - first < 1.3 * watts * (after_last - before_first)


def test_a_power_is_read_while_nobody_asks():
    reads, often = [0], threading.Event()

    def watts():
        reads[0] += 1
        if reads[0] == 20:
            often.set()
        return 2.0

    source = Integrator("board", watts, 0.001, 0.2)
    try:
        assert often.wait(60)
    finally:
        source.close()
    count = reads[0]
    assert count >= 20
    assert not source._thread.is_alive()


def test_a_power_that_was_not_read_often_enough_gives_no_energy():
    free, held = threading.Event(), threading.Event()

    def watts():
        if threading.current_thread().name == "power meter":
            held.set()
            free.wait(20)
        return 2.0

    source = Integrator("board", watts, 0.001, 0.2)
    try:
        assert held.wait(60)
        begin = time.monotonic()
        while time.monotonic() - begin < 0.1:
            pass
        free.set()
        assert source.joules() is None
    finally:
        free.set()
        source.close()


def test_a_battery_that_is_charging_is_no_meter(machine):
    assert isinstance(EnergyMeter.open(machine.write(battery(45_000_000, "Charging"))), Unavailable)


def test_where_nothing_tells_every_meter_is_named(machine):
    found = EnergyMeter.open(machine)
    assert isinstance(found, Unavailable)
    for words in ("no RAPL counters", "no power meter of the board", "no battery that is discharging"):
        assert words in found.reason
    record = energy(found, None, 10.0, 100.0)
    assert record.reason == found.reason
    assert (record.source, record.joules_per_run, record.net_joules_per_run) == (None, None, None)


def test_the_share_of_one_run_and_without_what_the_idle_device_draws(machine, meter):
    found = meter(machine.write(zone("0", "package-0", 0)))
    found.idle_watts = 4.0
    record = energy(found, 100.0, 10.0, 50.0)
    assert (record.joules_per_run, record.net_joules_per_run) == (pytest.approx(0.2), pytest.approx(0.12))
    assert (record.source, record.idle_watts, record.reason) == ("RAPL (1 CPU package)", 4.0, "")
    # Less than the idle device draws is noise, , not a number.
    assert energy(found, 30.0, 10.0, 50.0).net_joules_per_run is None


def test_slices_that_are_too_short_for_the_meter_get_a_reason(machine, meter):
    found = meter(machine.write(battery(7_250_000)))
    record = energy(found, 100.0, 10.0, 50.0, stretch_s=0.4)
    assert record.joules_per_run is None
    assert "needs 30 s of one side without interruption, and the shortest one lasted 0.4 s" in record.reason
    assert "--duty sustained with --minutes 1" in record.reason
    # Which it does.
    assert energy(found, 100.0, 60.0, 50.0).joules_per_run is not None


def test_what_the_idle_device_draws_is_measured(machine, meter):
    found = meter(machine.write(rail(1, 1, "VDD_IN", 10_000, 500)))
    assert found.measure_idle(0.05) == pytest.approx(5.0, rel=0.05)
    assert found.idle_watts == pytest.approx(5.0, rel=0.05)


def test_a_battery_is_too_slow_for_a_pause(machine, meter):
    found = meter(machine.write(battery(7_250_000)))
    assert found.measure_idle() is None


def test_this_machine_counts_or_says_why_not():
    found = open_rapl(RecordedHost(Path("/")))
    assert isinstance(found, Unavailable) or found.joules() >= 0
