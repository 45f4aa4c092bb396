"""How close the outputs are to those of the source model."""

from edgeopt.commands.documents.blocks import Block, Row, Section, Table, Words, columns
from edgeopt.commands.report import words
from edgeopt.commands.report.facts import Accuracy, Facts
from edgeopt.graph.accuracy import EQUAL_DB, OutputAccuracy


def section(facts: Facts) -> Section | None:
    found = facts.accuracy
    if found is None:
        return Section("accuracy", "Accuracy", (Words("The bundle has no record of its accuracy."),))
    blocks: list[Block] = [Words(_sentence(found))]
    if found.weakest is not None:
        blocks.append(Words(found.weakest.sentence))
    if found.outputs:
        caption = (
            f"Against the source model, on {found.outputs_on}. The ratio is that of the signal to the "
            "noise over all samples together; the tolerance is the smallest at which NumPy's allclose "
            "passes."
        )
        titles = (
            "output",
            ">signal to noise",
            ">largest error",
            ">mean error",
            ">cosine",
            ">equal values",
            ">tolerance",
        )
        blocks.append(Table(columns(*titles), tuple(_row(each) for each in found.outputs), caption))
    blocks += [Words(f"{each.name}: {each.problem}", "warning") for each in found.outputs if each.problem]
    return Section("accuracy", "Accuracy", tuple(blocks))


def _sentence(found: Accuracy) -> str:
    if found.snr_db is None:
        return "The accuracy was not proved; these figures are from the golden samples."
    is_equal = found.snr_db >= EQUAL_DB
    said = (
        "All outputs are equal to those of the source model"
        if is_equal
        else f"The worst output reaches {words.decibels(found.snr_db)}"
    )
    if found.lowest_db is not None and not is_equal:
        said += f", the lowest sample {words.decibels(found.lowest_db)}"
    if found.low_db is not None and not is_equal:
        said += f", and on other samples perhaps {words.decibels(found.low_db)}"
    floor = found.goal or ("" if found.floor_db is None else f"{found.floor_db:g} dB")
    said += f"; the floor is {floor}." if floor else "."
    if found.samples:
        said += f" Proved on {words.several(found.samples, 'sample')}"
        said += ", which nothing else had seen." if found.set_aside else "."
    return said


def _row(each: OutputAccuracy) -> Row:
    tolerance = each.tolerance
    return Row(
        (
            each.name,
            words.decibels(each.snr_db),
            f"{each.max_abs:.3g}",
            f"{each.mean_abs:.3g}",
            f"{each.cosine:.6f}",
            words.share(each.agreement),
            f"rtol {tolerance.rtol:g}, atol {tolerance.atol:.2g}" if tolerance else words.UNKNOWN,
        )
    )
