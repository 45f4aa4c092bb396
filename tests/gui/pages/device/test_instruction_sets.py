from edgeopt.hw import simd
from edgeopt_gui.pages.device.instruction_sets import LEVEL_WORDS, by_purpose, level_words


def test_every_level_has_words():
    assert set(LEVEL_WORDS) == {name for name, _ in simd.LEVELS} | {simd.BASELINE}
    assert level_words("avx1024") == "avx1024"


def test_every_set_stands_in_one_group():
    grouped = [name for _, names in by_purpose(simd.NAMES) for name in names]
    assert sorted(grouped) == sorted(simd.NAMES)


def test_sets_are_grouped_by_what_they_are_good_for():
    assert by_purpose(("neon", "fp16", "dotprod")) == (
        ("Vectors", ("neon",)),
        ("8-bit integers", ("dotprod",)),
        ("Half precision", ("fp16",)),
    )
    assert by_purpose(()) == ()
