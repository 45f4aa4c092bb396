from edgeopt.hw import windows_facts

ANSWER = {
    "ProcessorNameString": "AMD Ryzen 7 7840U w/ Radeon 780M Graphics     ",
    "VendorIdentifier": "AuthenticAMD",
    "Identifier": "AMD64 Family 25 Model 116 Stepping 1",
    "flags": ["sse4_2", "avx", "avx2", "avx512f"],
}
CPUID = {"flags": ["avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512vnni", "fma"]}


def test_only_windows_is_asked(machine):
    calls = {"edgeopt.hw.windows_facts.cpu()": ANSWER}
    assert windows_facts.read(machine(calls=calls | {"platform.system()": "Linux"})) == {}
    assert windows_facts.read(machine(calls=calls | {"platform.system()": "Windows"})) == ANSWER


def test_names_from_the_registry_and_the_finer_sets_from_cpuid(machine):
    found = windows_facts.identity(machine(calls={"cpuinfo.get_cpu_info()": CPUID}), ANSWER)
    assert (found.vendor, found.model) == ("AuthenticAMD", "AMD Ryzen 7 7840U w/ Radeon 780M Graphics")
    assert found.microarchitecture == "Zen 4"
    assert {"avx512vnni", "fma", "avx2"} <= found.flags
    assert "py-cpuinfo" in found.sources["cpu.simd"]
    assert found.sources["cpu.model"].startswith("registry")


def test_the_slow_answer_is_kept(machine, tmp_path):
    kept = tmp_path / "cache"
    windows_facts.identity(machine(cache_folder=kept, calls={"cpuinfo.get_cpu_info()": CPUID}), ANSWER)
    again = windows_facts.identity(machine(cache_folder=kept), ANSWER)
    assert "avx512vnni" in again.flags


def test_a_model_that_always_has_avx_vnni(machine):
    answer = {
        "VendorIdentifier": "GenuineIntel",
        "Identifier": "Intel64 Family 6 Model 186 Stepping 2",
        "flags": ["avx2"],
    }
    found = windows_facts.identity(machine(), answer)
    assert "avx_vnni" in found.flags
    assert "by the model" in found.sources["cpu.simd"]
    assert "avx_vnni" not in windows_facts.identity(machine(), answer | {"flags": ["avx"]}).flags


def test_answers_of_the_wrong_kind(machine):
    found = windows_facts.identity(machine(), {"ProcessorNameString": 7, "Identifier": [], "flags": "avx2"})
    assert (found.vendor, found.model, found.microarchitecture, found.flags) == (None, None, None, frozenset())
    assert found.sources == {}


def test_other_systems_have_no_registry():
    assert windows_facts.cpu() == {} or "flags" in windows_facts.cpu()


def test_the_affinity_is_that_of_this_process():
    import os

    assert set(windows_facts.affinity()) == os.sched_getaffinity(0)
