import json

import pytest

from edgeopt.hw.device import Unavailable
from edgeopt.hw.probes.gpu import probe
from edgeopt.hw.probes.gpu.windows import COMMAND

CALLS = {"platform.system()": "Windows", "platform.python_version()": "3.12.4"}
ARC = {
    "Name": "Intel(R) Arc(TM) A770 Graphics",
    "DriverVersion": "31.0.101.5592",
    "PNPDeviceID": "PCI\\VEN_8086&DEV_56A0&SUBSYS_10208086&REV_08\\6&0",
}
GEFORCE = {
    "Name": "NVIDIA A100-SXM4-80GB",
    "DriverVersion": "31.0.15.5222",
    "PNPDeviceID": "PCI\\VEN_10DE&DEV_20B2&SUBSYS_1&REV_A1\\4&0",
}
BASIC = {
    "Name": "Microsoft Basic Display Adapter",
    "DriverVersion": "10.0",
    "PNPDeviceID": "ROOT\\BASICDISPLAY\\0000",
}
ADRENO = {"Name": "Snapdragon(R) X Elite - Adreno GPU", "PNPDeviceID": "ACPI\\VEN_QCOM&DEV_0C36\\0"}
SIZES = [
    {"MatchingDeviceId": "PCI\\VEN_8086&DEV_56A0&SUBSYS_1", "DriverDesc": "x", "Bytes": 17079205888},
    {"MatchingDeviceId": "pci\\ven_10de&dev_20b2", "DriverDesc": "y", "Bytes": 85899345920},
    {
        "MatchingDeviceId": "PCI\\VEN_1002&DEV_73BF",
        "DriverDesc": "a card that was taken out",
        "Bytes": 17163091968,
    },
]


def tables(adapters, sizes=SIZES, **versions):
    answer = json.dumps({"adapters": adapters, "memory": sizes})
    return {"calls": CALLS, "run": {" ".join(COMMAND): answer}, "versions": versions}


def test_an_adapter_with_the_size_that_the_registry_tells(machine):
    facts = probe(machine(**tables([ARC, BASIC], **{"onnxruntime-directml": "1.22.0"})))
    (gpu,) = facts.section
    assert (gpu.name, gpu.vendor, gpu.driver) == ("Intel(R) Arc(TM) A770 Graphics", "Intel", "31.0.101.5592")
    assert (gpu.memory_total_bytes, gpu.memory_shared) == (17079205888, False)
    assert gpu.apis == ("openvino", "directml")
    assert (gpu.runtime, gpu.runtime_installed) == ("onnxruntime-directml", True)


def test_one_adapter_is_not_a_list_to_powershell(machine):
    facts = probe(machine(**tables(ADRENO, None)))
    assert (facts.section[0].vendor, facts.section[0].apis) == ("Qualcomm", ("qnn", "directml"))
    assert facts.unavailable["gpu.0.memory_total_bytes"] == "its driver does not report it"


def test_nvml_tells_more_of_nvidias_on_windows_too(with_pynvml):
    (gpu, *_) = probe(with_pynvml(**tables([ARC, GEFORCE]))).section
    assert (gpu.name, gpu.compute_capability, gpu.driver) == ("NVIDIA A100-SXM4-80GB", "8.0", "550.54.15")
    assert gpu.apis == ("cuda", "tensorrt", "directml")


def test_nvidia_without_nvml(machine):
    facts = probe(machine(**tables([GEFORCE])))
    assert facts.section[0].memory_total_bytes == 85899345920
    assert "nvidia-ml-py" in facts.unavailable["gpu.nvidia"]


@pytest.mark.parametrize("answer", ["", "{", "[]", "null", '{"adapters": [1, null], "memory": 3}', "[" * 99_999])
def test_an_answer_that_is_none(machine, answer):
    host = machine(calls=CALLS, run={" ".join(COMMAND): answer})
    assert isinstance(probe(host), Unavailable)


def test_a_recorded_laptop(board):
    (gpu,) = probe(board("windows-11")).section
    assert (gpu.name, gpu.memory_shared) == ("Intel(R) Iris(R) Xe Graphics", True)
    assert (gpu.runtime, gpu.runtime_installed) == ("onnxruntime-directml", True)
