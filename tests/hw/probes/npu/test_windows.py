from edgeopt.hw.probes.npu import COMMAND, probe

CALLS = {"platform.system()": "Windows", "platform.python_version()": "3.12.4"}
KEY = "HKEY_LOCAL_MACHINE\\SYSTEM\\CurrentControlSet\\Control\\Class\\{f01a9d53-3ff6-48d2-9f97-c8a7004be10c}"


def test_an_npu_by_its_name_in_the_registry(machine):
    answer = (
        f"\r\n{KEY}\\0000\r\n    DriverDesc    REG_SZ    Intel(R) AI Boost\r\n"
        "    DriverVersion    REG_SZ    32.0.100.3104\r\n\r\nEnd of search: 2 match(es) found.\r\n"
    )
    (npu,) = probe(machine(calls=CALLS, run={" ".join(COMMAND): answer})).section
    assert (npu.name, npu.vendor, npu.driver) == ("Intel(R) AI Boost", "Intel", "32.0.100.3104")
    assert (npu.apis, npu.runtime) == (("openvino",), "openvino")


def test_a_maker_that_is_not_known(machine):
    answer = f"{KEY}\\0001\n    DriverDesc    REG_SZ    Some Accelerator\n"
    facts = probe(machine(calls=CALLS, run={" ".join(COMMAND): answer}))
    assert (facts.section[0].vendor, facts.section[0].apis) == (None, ())
    assert facts.unavailable["npu.0.driver"] == "the registry does not report it"
