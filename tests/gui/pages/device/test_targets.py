from edgeopt.profiles.targets import Verdict
from edgeopt_gui.pages.device.targets import COLUMNS, chosen_sentences, look, of_other_systems, others

VERDICTS = (
    Verdict("cpu-avx2", "x86 CPU with AVX2", True, True, "x86_64 with avx2"),
    Verdict("generic-cpu", "Any CPU", True, False, "fits, but cpu-avx2 is more exact"),
    Verdict("cpu-avx512", "x86 CPU with AVX-512", False, False, "the CPU lacks avx512f"),
    Verdict("mobile-cpu", "Arm CPU", False, False, "it is for aarch64", other_system=True),
)


def test_the_chosen_one_with_its_reason():
    what, why = chosen_sentences(VERDICTS)
    assert what == "cpu-avx2 · x86 CPU with AVX2"
    assert why == "Most specific target that fits: x86_64 with avx2."
    assert chosen_sentences(VERDICTS[1:])[0] == "None"


def test_the_others_with_why_not():
    rows = [[column.text_of(verdict) for column in COLUMNS] for verdict in others(VERDICTS)]
    assert rows == [
        ["generic-cpu", "Any CPU", "yes", "fits, but cpu-avx2 is more exact"],
        ["cpu-avx512", "x86 CPU with AVX-512", "no", "the CPU lacks avx512f"],
    ]
    assert [look(verdict) for verdict in others(VERDICTS)] == ["plain", "quiet"]
    assert [verdict.name for verdict in of_other_systems(VERDICTS)] == ["mobile-cpu"]
