"""The clock: its range, its governor, and whether turbo is on. Its present value is in `state`."""

import re

from edgeopt.hw import cpu_identity, kernel_text, sysctl, topology, windows_facts
from edgeopt.hw.device import Clock, Facts, Unavailable
from edgeopt.hw.host import Host

_NO_TURBO = f"{topology.CPU_FOLDER}/intel_pstate/no_turbo"
_BOOST = f"{topology.CPU_FOLDER}/cpufreq/boost"
_BASE_IN_NAME = re.compile(r"@ (\d{1,2}(?:\.\d{1,3})?)\s?GHz")
_WORD = re.compile(r"[a-z][a-z0-9_-]{0,39}", re.IGNORECASE)
_OF_MAC = ("hw.cpufrequency", "hw.cpufrequency_max", "hw.cpufrequency_min")
_FOLDER = f"{topology.CPU_FOLDER}/cpu*/cpufreq"


def probe(host: Host) -> Facts | Unavailable:
    cpus = topology.seen(host)
    sources: dict[str, str] = {}
    highest = max((hz for cpu in cpus if (hz := topology.max_hz(host, cpu))), default=None)
    lowest = min((hz for cpu in cpus if (hz := topology.min_hz(host, cpu))), default=None)
    if highest and lowest and lowest > highest:
        lowest = None
    if highest:
        sources["clock.max_hz"] = f"{_FOLDER}/cpuinfo_max_freq"
    if lowest:
        sources["clock.min_hz"] = f"{_FOLDER}/cpuinfo_min_freq"
    # The kernel has one driver for all.
    cpus_of = (("governor", cpus), ("driver", cpus[:1]))
    words = {name: _words(host, of, f"scaling_{name}") for name, of in cpus_of}
    for name, value in words.items():
        if value:
            sources[f"clock.{name}"] = f"{_FOLDER}/scaling_{name}"
    base, turbo = _base_hz(host, cpus), _turbo(host, cpus)
    for name, answer in (("base_hz", base), ("turbo", turbo)):
        if answer:
            sources[f"clock.{name}"] = answer[1]
    if not sources:
        return _elsewhere(host)
    clock = Clock(
        min_hz=lowest,
        max_hz=highest,
        base_hz=base[0] if base else None,
        governor=words["governor"],
        driver=words["driver"],
        turbo=turbo[0] if turbo else None,
    )
    return Facts(clock, sources, {} if highest else {"clock.max_hz": _why_not(host)})


def _words(host: Host, cpus: tuple[int, ...], name: str) -> str | None:
    """Clusters may have different governors; all of them, in the order of the CPUs."""
    texts = ((host.read(f"{topology.cpufreq_folder(cpu)}/{name}") or "").strip() for cpu in cpus)
    return " + ".join(dict.fromkeys(text for text in texts if _WORD.fullmatch(text))) or None


def _base_hz(host: Host, cpus: tuple[int, ...]) -> tuple[int, str] | None:
    found = [answer for cpu in cpus[:1] if (answer := topology.base_hz(host, cpu))]
    if found:
        return found[0]
    names = kernel_text.values(kernel_text.blocks(host.read(cpu_identity.CPUINFO) or ""), "model name")
    match = _BASE_IN_NAME.search(names[0]) if names else None
    return (
        (round(float(match[1]) * 1e9), f"{cpu_identity.CPUINFO}: model name")
        if match and float(match[1])
        else None
    )


def _turbo(host: Host, cpus: tuple[int, ...]) -> tuple[bool, str] | None:
    # cpb is AMD's name of boost with acpi-cpufreq; newer kernels have a boost in the folder of each CPU.
    own = [f"{topology.cpufreq_folder(cpu)}/{name}" for cpu in cpus[:1] for name in ("boost", "cpb")]
    for path, on in ((_NO_TURBO, "0"), (_BOOST, "1"), *((path, "1") for path in own)):
        text = (host.read(path) or "").strip()
        if text in {"0", "1"}:
            return text == on, path
    return None


def _elsewhere(host: Host) -> Facts | Unavailable:
    values = sysctl.read(host)
    base, highest, lowest = (topology.hertz(values.get(key), 1) for key in _OF_MAC)
    if base or highest or lowest:
        clock = Clock(min_hz=lowest, max_hz=highest, base_hz=base)
        frequencies = {"min_hz": lowest, "max_hz": highest, "base_hz": base}
        return Facts(clock, {f"clock.{name}": "sysctl hw.cpufrequency*" for name, hz in frequencies.items() if hz})
    megahertz = windows_facts.read(host).get("~MHz")
    if isinstance(megahertz, int) and (hz := topology.hertz(str(megahertz), 1_000_000)):
        return Facts(Clock(base_hz=hz), {"clock.base_hz": f"{windows_facts.REGISTRY}, ~MHz"})
    return Unavailable(_why_not(host))


def _why_not(host: Host) -> str:
    if host.call("platform", "system") == "Darwin":
        return "macOS does not report the clocks of Apple's own chips"
    return "the kernel has no cpufreq files, as in most virtual machines"
