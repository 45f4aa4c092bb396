import pytest

from edgeopt.hw import riscv


@pytest.mark.parametrize(
    ("isa", "expected"),
    [
        ("rv64imafdc", {"i", "m", "a", "f", "d", "c"}),
        ("rv64imafdcv_zfh_zvfh", {"i", "m", "a", "f", "d", "c", "v", "zfh", "zvfh"}),
        ("RV64GC", {"i", "m", "a", "f", "d", "c"}),
        ("rv32i_zvl128b", {"i", "zvl128b"}),
        ("", set()),
        (None, set()),
        ("x86", set()),
        ("rv64imafdc zfh", set()),
    ],
)
def test_extensions(isa, expected):
    assert riscv.extensions(isa) == expected


@pytest.mark.parametrize(
    ("names", "bits"),
    [
        ({"zvl128b", "zvl256b", "v"}, 256),
        ({"v"}, None),
        ({"zvl0b"}, None),
        ({"zvl100b"}, None),
        ({"zvl99999b"}, None),
    ],
)
def test_vector_length_where_it_is_told(names, bits):
    assert riscv.vector_bits(frozenset(names)) == bits


def test_vendor_and_core():
    assert riscv.vendor({"mvendorid": "0x710", "uarch": "spacemit,x60"}) == "SpacemiT"
    assert riscv.vendor({"uarch": "sifive,u74-mc"}) == "SiFive"
    assert riscv.vendor({"uarch": "newcomer,one"}) == "newcomer"
    assert riscv.vendor({"mvendorid": "0x0"}) is None
    assert riscv.microarchitecture({"uarch": "sifive,u74-mc"}) == "SiFive U74"
    assert riscv.microarchitecture({"uarch": "thead,c910"}) == "T-Head C910"
    assert riscv.microarchitecture({"uarch": "unknown"}) is None
    assert riscv.microarchitecture({}) is None
