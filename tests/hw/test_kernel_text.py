import pytest

from edgeopt.hw.kernel_text import blocks, counters, cpu_list, values, whole


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
    assert (whole(" 0xd08\n"), whole("12"), whole("max"), whole(None), whole("")) == (
        0xD08,
        12,
        None,
        None,
        None,
    )
