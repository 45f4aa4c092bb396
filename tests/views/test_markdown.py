import re

from edgeopt.views.blocks import (
    Commands,
    Drawing,
    Listed,
    Marked,
    Row,
    Table,
    WordsBlock,
    columns,
    section,
)
from edgeopt.views.markdown import page, plain


def test_nothing_becomes_mark_up():
    assert plain("<b> [a](b) `c` *d* | e\nf") == r"\<b\> \[a\](b) \`c\` \*d\* \| e\\nf"


def test_each_kind_of_block():
    table = Table(
        columns("", ">ms"), (Row(("a|b", "1"), "strong"), Row(("c", Marked("2", strong=True))), Row(("d",)))
    )
    blocks = (
        WordsBlock("It holds.", "strong"),
        WordsBlock("Something.", "warning"),
        section("Part", table, section("Deeper", Listed(("one", "two"))), Listed(("x",), numbered=True)),
        section("", Commands((("Why:", "a ``` b"),)), Drawing(lambda _width, _ascii: ["│ █"])),
    )
    assert page("A_b", blocks, level=2).split("\n\n") == [
        "## A\\_b",
        "**It holds.**",
        "> Something.",
        "### Part",
        "|  | ms |\n|---|---:|\n| **a\\|b** | **1** |\n| c | **2** |\n| d |  |",
        "#### Deeper",
        "- one\n- two",
        "1. x",
        "Why:",
        "````\na ``` b\n````",
        "```\n│ █\n```\n",
    ]


def test_a_table_keeps_its_columns():
    text = page("t", [Table(columns("a", "b"), (Row(("|", "\\|")),))])
    assert {len(re.findall(r"(?<!\\)(?:\\\\)*\|", line)) for line in text.splitlines()[2:]} == {3}
