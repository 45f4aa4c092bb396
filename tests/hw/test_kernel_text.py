import pytest

from edgeopt.hw.kernel_text import as_list, blocks, counters, cpu_list, cpu_mask, name, size_bytes, values, whole


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0-3\n", (0, 1, 2, 3)),
        ("0,2-3", (0, 2, 3)),
        ("7", (7,)),
        ("", ()),
        (None, ()),
        ("3-1", ()),
        ("0-99999999999", ()),
        ("a-b", ()),
    ],
)
def test_cpu_lists(text, expected):
    assert cpu_list(text) == expected


def test_blocks_are_split_at_empty_lines():
    found = blocks("processor : 0\nmodel name : A: b\n\n\nprocessor : 1\nmodel name : A: b\nnonsense\n")
    assert values(found, "processor") == ("0", "1")
    assert values(found, "model name") == ("A: b",)


def test_counters_turn_kilobytes_into_bytes():
    assert counters("MemTotal: 2 kB\ninactive_file 7\nbroken\nHugePages_Total: x") == {
        "MemTotal": 2048,
        "inactive_file": 7,
    }


def test_whole_numbers():
    assert (whole(" 0xd08\n"), whole("12"), whole("max"), whole(None), whole("")) == (0xD08, 12, None, None, None)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ff\n", tuple(range(8))),
        ("00000001,80000000", (31, 32)),
        ("000000fc,00000000,00fc0000", (*range(18, 24), *range(66, 72))),
        ("0", ()),
        ("", ()),
        (None, ()),
        ("-1", ()),
        ("1ffffffff", ()),
        ("g", ()),
        (",".join(["ffffffff"] * 4000), ()),
    ],
)
def test_cpu_masks(text, expected):
    assert cpu_mask(text) == expected


@pytest.mark.parametrize("text", ["0-3,8", "7", "0,2,4", ""])
def test_lists_are_written_as_the_kernel_writes_them(text):
    assert as_list(cpu_list(text)) == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("48K\n", 49152),
        ("2M", 2 << 20),
        ("64", 64),
        ("0K", None),
        ("-4K", None),
        ("4KK", None),
        ("K", None),
        ("", None),
        (None, None),
    ],
)
def test_sizes(text, expected):
    assert size_bytes(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [(" Cortex\n", "Cortex"), ("Pi 5\0", "Pi 5"), ("", None), (None, None), ("a\x00b", None), ("x" * 999, None)],
)
def test_what_a_torn_file_holds_is_no_name(text, expected):
    assert name(text) == expected
    assert name("CPU \ufffd") is None
