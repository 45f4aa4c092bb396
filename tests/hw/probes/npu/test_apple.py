from edgeopt.hw.probes.npu import probe

CALLS = {"platform.system()": "Darwin", "platform.python_version()": "3.12.4"}
SYSCTL = "sysctl hw machdep.cpu"


def test_every_apple_chip_has_a_neural_engine(machine):
    (npu,) = probe(machine(calls=CALLS, run={SYSCTL: "machdep.cpu.brand_string: Apple M2\n"})).section
    assert npu.name == "Apple Neural Engine (Apple M2)"
    assert (npu.apis, npu.runtime, npu.runtime_installed) == (("coreml",), "onnxruntime", False)


def test_a_mac_with_an_intel_cpu_has_none(machine):
    host = machine(
        calls=CALLS, run={SYSCTL: "machdep.cpu.brand_string: Intel(R) Core(TM) i7-9750H CPU @ 2.60GHz\n"}
    )
    assert "only Apple silicon" in probe(host).reason
