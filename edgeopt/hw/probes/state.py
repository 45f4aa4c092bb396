"""Probe of the device's present state, and whether it is worth measuring; each reason is a sentence."""

import math

from edgeopt.hw import kernel_text, power, sensors, thermal
from edgeopt.hw.device import Facts, State, Unavailable
from edgeopt.hw.host import Host

_CPUFREQ = "/sys/devices/system/cpu/cpu0/cpufreq"
_PRESSURE = "/proc/pressure/cpu"
# These drivers call it "powersave" when the hardware itself chooses the clock by the load.
_SELF_CHOOSING = frozenset({"intel_pstate", "amd-pstate-epp", "amd_pstate_epp"})
_MUCH_STEAL, _SOME_STEAL = 5.0, 1.0
_MUCH_PRESSURE = 10.0
_BUSY_SHARE = 0.5
_MUCH_BUSY = 25.0
_FULL_CLOCK = 0.9
_PROCESSES = "edgeopt.hw.processes"


class _Look:
    """Gathers what one look finds; `against` speaks against measuring now, `notes` are good to know."""

    def __init__(self) -> None:
        self.against: list[str] = []
        self.notes: list[str] = []
        self.sources: dict[str, str] = {}
        self.unavailable: dict[str, str] = {}

    def record(self, fact: str, value: object, source: str, otherwise: str) -> None:
        """Names the source of a fact, or why there is none."""
        if value is None:
            self.unavailable[f"state.{fact}"] = otherwise
        else:
            self.sources[f"state.{fact}"] = source


def probe(host: Host) -> Facts | Unavailable:
    look = _Look()
    load = _load(host, look)
    if load is None and not _looked_at_cores(host, look):
        return Unavailable("no source for the load: no /proc/loadavg, no os.getloadavg(), no psutil")
    throttled = _throttling(host, look)
    temperatures = _temperatures(host, look)
    supply, draw = _power(host, look)
    busy = _busy(host, look)
    steal, clock = _steal(host, look), _clock(host, look)
    worth = not look.against
    look.sources["state.worth_measuring"] = "the readings of this section, judged by the rules in docs/device.md"
    if look.against or look.notes:
        look.sources["state.reasons"] = look.sources["state.worth_measuring"]
    return Facts(
        State(
            worth_measuring=worth,
            reasons=(*look.against, *look.notes),
            load_1m=load,
            steal_percent=steal,
            clock_hz=clock,
            temperatures_c=temperatures,
            throttled=throttled,
            power_source=supply.source if supply else None,
            battery_percent=supply.battery_percent if supply else None,
            power_w=draw.power_w if draw else None,
            busy=busy,
        ),
        look.sources,
        look.unavailable,
    )


def _load(host: Host, look: _Look) -> float | None:
    words = (host.read("/proc/loadavg") or "").split()
    load, source, running = _number(words[0] if words else None), "/proc/loadavg", 0
    if load is None:
        answer = host.call("os", "getloadavg")
        first = answer[0] if isinstance(answer, list) and answer else None
        load, source = _number(str(first) if isinstance(first, int | float) else None), "os.getloadavg()"
    elif len(words) > 3:
        # This process runs as well while it reads that.
        running = max(0, (kernel_text.whole(words[3].partition("/")[0]) or 1) - 1)
    look.record("load_1m", load, source, "neither /proc/loadavg nor os.getloadavg() reports it")
    cores = _cores(host)
    waited = _pressure(host)
    if waited is not None and waited >= _MUCH_PRESSURE:
        look.against.append(f"In the last ten seconds processes waited for a core {waited:.0f} % of the time.")
    if load is not None and cores and load >= _BUSY_SHARE * cores:
        words_of_load = f"The load of the last minute is {load:g} on {cores} core{'s' if cores > 1 else ''}"
        if running:
            look.against.append(
                f"{words_of_load}, and {running} more thread{'s run' if running > 1 else ' runs'} now."
            )
        else:
            look.notes.append(f"{words_of_load}, but nothing else runs now.")
    return load


def _looked_at_cores(host: Host, look: _Look) -> bool:
    """The answer for systems without a load average, such as Windows; whether there was one."""
    if host.call("platform", "system") != "Windows":
        return sensors.cpu_ticks(host) is not None
    busy = host.call(_PROCESSES, "cores_busy_percent")
    if not isinstance(busy, int | float):
        return False
    if busy >= _MUCH_BUSY:
        look.against.append(f"The cores are {busy:.0f} % busy now.")
    return True


def _throttling(host: Host, look: _Look) -> tuple[str, ...]:
    found = thermal.throttling(host)
    look.record(
        "throttled",
        found,
        found.source if found else "",
        "no throttling flags: neither of a Raspberry Pi's firmware, nor of x86, nor of a cooling device",
    )
    if found is None:
        return ()
    look.against += [f"Throttled: {words}." for words in found.now]
    look.notes += [f"Throttled since boot: {words}." for words in found.before]
    return found.now


def _temperatures(host: Host, look: _Look) -> dict[str, float]:
    found, files = thermal.temperatures(host)
    look.record("temperatures_c", files or None, ", ".join(files[:3]), "no thermal zone and no sensor of the CPU")
    look.against += [
        f"{zone.zone} is at {zone.temperature_c:.0f} °C; the device throttles it from {zone.limit_c:.0f} °C."
        for zone in thermal.hot(host)
    ]
    return found


def _power(host: Host, look: _Look) -> tuple[power.Supply | None, power.Draw | None]:
    supply, draw = power.supply(host), power.draw(host)
    source = supply.source if supply else None
    percent = supply.battery_percent if supply else None
    file = supply.file if supply else ""
    look.record("power_source", source, file, f"no mains adapter or battery is listed ({power.SUPPLIES})")
    look.record("battery_percent", percent, file, "no battery")
    look.record("power_w", draw, draw.source if draw else "", "no readable power meter: battery, board, RAPL")
    if source == "battery":
        left = f" ({percent:.0f} % left)" if percent is not None else ""
        words = f"The device runs on battery{left}, where most devices lower their clocks:"
        look.against.append(f"{words} these figures apply to battery power only.")
    return supply, draw


def _busy(host: Host, look: _Look) -> tuple[str, ...]:
    answer = host.call(_PROCESSES, "busiest")
    known = answer if isinstance(answer, list) else None
    look.record("busy", known, "/proc/*/stat", "/proc lists no other processes")
    busy = tuple(str(words) for words in known or ())
    if busy:
        look.against.append(f"Other processes keep cores busy: {', '.join(busy[:3])}.")
    return busy


def _steal(host: Host, look: _Look) -> float | None:
    ticks = sensors.cpu_ticks(host)
    steal = 100 * ticks.stolen / ticks.total if ticks and ticks.total else None
    look.record("steal_percent", steal, "/proc/stat: steal, since the boot", "no /proc/stat")
    if steal is not None and steal >= _SOME_STEAL:
        words = f"The hypervisor gave {steal:.1f} % of the CPU time since boot to others."
        (look.against if steal >= _MUCH_STEAL else look.notes).append(words)
    return None if steal is None else round(steal, 3)


def _clock(host: Host, look: _Look) -> int | None:
    clock = sensors.mean_clock_hz(host, sensors.clock_files(host))
    look.record(
        "clock_hz", clock, f"{_CPUFREQ[:-12]}*/cpufreq/scaling_cur_freq", "the kernel has no cpufreq files"
    )
    governor, driver = ((host.read(f"{_CPUFREQ}/scaling_{name}") or "").strip() for name in ("governor", "driver"))
    if governor == "powersave" and driver not in _SELF_CHOOSING:
        look.against.append("The governor 'powersave' keeps the clock at its minimum; use 'performance'.")
    maximum, allowed = (_hertz(host, f"{_CPUFREQ}/{name}_max_freq") for name in ("cpuinfo", "scaling"))
    if maximum and allowed and allowed < _FULL_CLOCK * maximum:
        look.against.append(
            f"The clock is limited to {allowed / 1e9:.2f} GHz; the CPU supports {maximum / 1e9:.2f} GHz."
        )
    elif governor == "performance" and clock and maximum and clock < _FULL_CLOCK * maximum:
        look.notes.append(f"The clock is {clock / 1e9:.2f} GHz, below the {maximum / 1e9:.2f} GHz limit.")
    return None if clock is None else round(clock)


def _pressure(host: Host) -> float | None:
    """Kernel documentation, accounting/psi.rst: `some avg10=0.12 avg60=... total=...`."""
    for line in (host.read(_PRESSURE) or "").splitlines():
        kind, _, rest = line.partition(" ")
        if kind == "some" and rest.startswith("avg10="):
            return _number(rest.split()[0][len("avg10=") :])
    return None


def _cores(host: Host) -> int:
    lines = (host.read("/proc/stat") or "").splitlines()
    counted = sum(line.startswith("cpu") and line[3:4].isdigit() for line in lines)
    count = counted or host.call("os", "cpu_count")
    return count if isinstance(count, int) and count > 0 else 0


def _hertz(host: Host, path: str) -> float | None:
    kilohertz = kernel_text.whole(host.read(path))
    return kilohertz * 1e3 if kilohertz and 0 < kilohertz < 10**8 else None


def _number(text: str | None) -> float | None:
    try:
        number = float(text) if text else None
    except ValueError:
        return None
    return number if number is not None and math.isfinite(number) and 0 <= number < 1e6 else None
