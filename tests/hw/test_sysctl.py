from edgeopt.hw import sysctl
from edgeopt.hw.device import Cache, Cluster

INTEL_MAC = {
    "hw.packages": "1",
    "hw.physicalcpu": "4",
    "hw.logicalcpu": "8",
    "hw.l1icachesize": "32768",
    "hw.l1dcachesize": "32768",
    "hw.l2cachesize": "262144",
    "hw.l3cachesize": "8388608",
    "machdep.cpu.features": "FPU SSE4.2 AVX1.0 FMA F16C",
    "machdep.cpu.leaf7_features": "AVX2 BMI2",
}


def test_only_a_mac_is_asked(machine):
    told = {"sysctl hw machdep.cpu": "hw.ncpu: 8\nhw.empty:\nnonsense\n"}
    assert sysctl.read(machine(run=told, calls={"platform.system()": "Darwin"})) == {"hw.ncpu": "8"}
    assert sysctl.read(machine(run=told, calls={"platform.system()": "Linux"})) == {}


def test_apple_silicon(board):
    values = sysctl.read(board("macos-m2"))
    assert sysctl.clusters(values) == (Cluster("performance", "4-7", 4, 4), Cluster("efficiency", "0-3", 4, 4))
    assert Cache(2, "unified", 16 << 20, 1, 4) in sysctl.caches(values)
    assert Cache(1, "data", 128 << 10, 4, 1) in sysctl.caches(values)
    assert sysctl.apple_cores(values) == "Avalanche + Blizzard"
    assert {"FEAT_I8MM", "AdvSIMD"} <= sysctl.flags(values)
    assert "FEAT_SME" not in sysctl.flags(values)


def test_an_intel_mac():
    assert sysctl.clusters(INTEL_MAC) == (Cluster("all", "0-7", 4, 8),)
    assert sysctl.caches(INTEL_MAC) == (
        Cache(1, "data", 32768, 4, 2),
        Cache(1, "instruction", 32768, 4, 2),
        Cache(2, "unified", 262144, 4, 2),
        Cache(3, "unified", 8388608, 1, 8),
    )
    assert {"avx2", "fma", "sse4.2", "avx1.0"} <= sysctl.flags(INTEL_MAC)


def test_absurd_values_are_left_out():
    assert sysctl.clusters({"hw.logicalcpu": "-1"}) == ()
    assert sysctl.caches(INTEL_MAC | {"hw.logicalcpu": "0"}) == ()
    assert sysctl.caches({"hw.logicalcpu": "4", "hw.l2cachesize": "-1"}) == ()
    assert sysctl.levels({"hw.nperflevels": "2", "hw.perflevel0.logicalcpu": "4"}) == ()
    assert sysctl.apple_cores({"hw.cpufamily": "x"}) is None
