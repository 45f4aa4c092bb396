import pytest

from edgeopt.hw import cpu_identity


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
    assert cpu_identity.riscv_extensions(isa) == expected


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
    assert cpu_identity.vector_bits(frozenset(names)) == bits


def test_vendor_and_core():
    assert cpu_identity.riscv_vendor({"mvendorid": "0x710", "uarch": "spacemit,x60"}) == "SpacemiT"
    assert cpu_identity.riscv_vendor({"uarch": "sifive,u74-mc"}) == "SiFive"
    assert cpu_identity.riscv_vendor({"uarch": "newcomer,one"}) == "newcomer"
    assert cpu_identity.riscv_vendor({"mvendorid": "0x0"}) is None
    assert cpu_identity.riscv_core({"uarch": "sifive,u74-mc"}) == "SiFive U74"
    assert cpu_identity.riscv_core({"uarch": "thead,c910"}) == "T-Head C910"
    assert cpu_identity.riscv_core({"uarch": "unknown"}) is None
    assert cpu_identity.riscv_core({}) is None
