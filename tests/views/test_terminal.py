import io

import pytest
from rich.console import Console

from edgeopt.views.blocks import (
    Column,
    Commands,
    Drawing,
    Listed,
    Marked,
    Row,
    Share,
    Table,
    WordsBlock,
    columns,
    facts,
    filled,
    rows,
    section,
)
from edgeopt.views.terminal import write


def shown(*blocks, width=80, encoding="utf-8"):
    out = io.TextIOWrapper(io.BytesIO(), encoding=encoding, write_through=True)
    write(blocks, Console(file=out, width=width, highlight=False, color_system=None))
    return out.buffer.getvalue().decode(encoding)


def styled(*blocks):
    out = io.StringIO()
    write(blocks, Console(file=out, width=80, highlight=False, force_terminal=True, color_system="standard"))
    return out.getvalue()


FIGURES = Table(
    columns("", ">p50 ms", ">against openvino-cpu", "verdict"),
    rows(("a_model_with_a_name.onnx", "1.23", "1.42x", "faster than the other by far"), ("b", "12.3", "", "-")),
)


def test_columns_stand_below_each_other_and_figures_right():
    assert [line.rstrip() for line in shown(FIGURES, width=100).splitlines()] == [
        "                          p50 ms  against openvino-cpu  verdict",
        "a_model_with_a_name.onnx    1.23                 1.42x  faster than the other by far",
        "b                           12.3                        -",
    ]


@pytest.mark.parametrize("width", [40, 50, 60, 80, 140])
def test_nothing_is_cut_and_no_line_is_wider_than_the_terminal(width):
    text = shown(FIGURES, WordsBlock("A sentence that goes on for some time, " * 5), width=width)
    assert max(map(len, text.splitlines())) <= width
    assert "…" not in text
    for figure in ("1.23", "12.3", "1.42x"):
        assert text.count(figure) == 1


def test_where_columns_do_not_fit_they_stand_in_several_tables_with_the_names_again():
    wide = Table(columns("=", *(f">f{n}" for n in range(6))), rows(("first", *["1234567"] * 6), ("second", "1")))
    lines = shown(wide, width=40).splitlines()
    assert [line.split() for line in lines] == [
        ["f0", "f1", "f2", "f3"],
        ["first", *["1234567"] * 4],
        ["second", "1"],
        [],
        ["f4", "f5"],
        ["first", "1234567", "1234567"],
    ]


def test_titles_take_two_lines_before_texts_fold():
    first, second, *_ = shown(FIGURES, width=70).splitlines()
    assert first.split() == ["p50", "against"]
    assert second.split() == ["ms", "openvino-cpu", "verdict"]


def test_shares_have_bars_where_there_is_room():
    table = Table(columns("what", ">share"), (Row(("half", Share(0.5))), Row(("tenth", Share(0.1)))))
    half, tenth = shown(table, width=120).splitlines()[1:]
    assert half.split() == ["half", "50.0", "%", "█" * 20]
    assert tenth.split() == ["tenth", "10.0", "%", "█" * 4]
    assert "█" not in shown(table, width=80)


def test_brackets_are_shown_as_they_are():
    text = shown(
        WordsBlock("[bold]x[/y]"),
        Table(columns("[/a]"), rows(("[red]b",))),
        section("[c]", WordsBlock("x")),
        Listed(("[d]",)),
    )
    for wanted in ("[bold]x[/y]", "[/a]", "[red]b", "[c]", "[d]"):
        assert wanted in text


def test_what_goes_on_is_set_in():
    assert shown(WordsBlock("one two three four five six seven"), width=24).splitlines() == [
        "one two three four",
        "  five six seven",
    ]
    assert shown(Listed(("one two three four five",), numbered=True), width=24).splitlines() == [
        "  1. one two three four",
        "     five",
    ]


def test_sections_stand_apart_and_commands_are_never_folded():
    line = "edgeopt optimize " + "x" * 90
    text = shown(
        WordsBlock("Before."),
        section("Title", Commands((("", line),)), WordsBlock("Below.")),
        section("", WordsBlock("End.")),
    )
    assert text.splitlines() == ["Before.", "", "Title", f"  {line}", "", "Below.", "", "End."]


def test_moods_are_colours():
    text = styled(
        WordsBlock("bad", "bad"),
        Table(columns("a", "b"), (Row(("x", Marked("y", "good", strong=True)), "faint"),)),
    )
    assert "\x1b[1;31mbad" in text
    assert "\x1b[1;2;32my" in text


def test_drawings_know_the_terminal():
    def draw(width, ascii_only):
        return [f"{width} {ascii_only}"]

    assert shown(Drawing(draw), width=90) == "90 False\n"
    assert shown(Drawing(draw), width=200, encoding="ascii") == "110 True\n"


def test_facts_and_columns_without_anything_are_left_out():
    assert shown(facts((("a", "1"), ("b", "")))) == "a  1\n"
    assert [column.title for column in filled(Table(columns("", "x", "y"), rows(("n", "", "1")))).columns] == [
        "",
        "y",
    ]


def test_columns_of_a_group_stay_together_where_they_can():
    titles = (*columns("="), *(Column(f"{name} {group}", "figure", group) for group in "xy" for name in "ab"))
    lines = shown(Table(titles, rows(("first", *["1234567"] * 4))), width=31).splitlines()
    assert [line.split() for line in lines if "first" not in line] == [
        ["a", "x", "b", "x"],
        [],
        ["a", "y", "b", "y"],
    ]
