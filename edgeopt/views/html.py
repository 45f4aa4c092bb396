"""Blocks as one HTML file that needs nothing else: no script, no font, no picture, no network."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from importlib.resources import files
from itertools import count

from edgeopt.errors import legible
from edgeopt.views import blocks
from edgeopt.views.markup import Markup, joined, tag, text, trusted

_DESK, _HAND = 952, 358
"""The widths that charts are drawn for, in pixels."""
_LETTERS = 100
# Whatever should get into the page after all may load nothing and run nothing.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
_SHORT, _LONG, _LONGER = 18, 24, 60
"""Cells up to the first number of letters stay on one line; those up to the second get room for several."""

_UNFOLDED = 2
# A notebook shows several fragments on one page, where their tables need different ids.
_FRAGMENTS = count(1)


@dataclass(frozen=True, slots=True)
class Page:
    title: str
    heading: str
    verdict: blocks.Section
    """The top of the page; its first block is the leading sentence."""
    mood: blocks.Mood
    sections: tuple[blocks.Section, ...]
    last: str


def page(shown: Page) -> str:
    numbers = count(1)
    (verdict,) = blocks.legible_blocks((shown.verdict,))
    shown = replace(shown, verdict=verdict, sections=tuple(blocks.legible_blocks(shown.sections)))
    style = files("edgeopt.views").joinpath("style.css").read_text(encoding="utf-8")
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("link", rel="icon", href="data:,"),
        tag("title", text(legible(shown.title))),
        tag("style", trusted(style)),
    )
    body = tag(
        "body",
        _header(shown, numbers),
        tag("main", *(_section(each, numbers) for each in shown.sections)),
        tag("footer", tag("p", text(legible(shown.last)))),
    )
    return f"<!doctype html>\n{tag('html', head, body, lang='en')}\n"


def fragment(shown: Iterable[blocks.Block]) -> str:
    """Blocks for the page of another program, such as a notebook: in its colours, with most of the titled sections
    folded."""
    style = files("edgeopt.views").joinpath("notebook.css").read_text(encoding="utf-8")
    parts = (_block(_folded(each, place), _FRAGMENTS) for place, each in enumerate(blocks.legible_blocks(shown)))
    return tag("div", tag("style", trusted(style)), *parts, class_="edgeopt-record")


def _folded(block: blocks.Block, place: int) -> blocks.Block:
    if isinstance(block, blocks.Section) and block.title and place >= _UNFOLDED:
        return blocks.Folded(block.title, block.blocks)
    return block


def _header(shown: Page, numbers: Iterator[int]) -> Markup:
    lead, *others = shown.verdict.blocks
    lead_text = lead.text if isinstance(lead, blocks.WordsBlock) else ""
    links = (tag("li", tag("a", text(each.title), href=f"#{each.key}")) for each in shown.sections)
    return tag(
        "header",
        tag("h1", text(legible(shown.heading))),
        tag("p", text(shown.verdict.title), class_=f"verdict {shown.mood}".strip()),
        tag("p", text(lead_text), class_="lead"),
        *(_block(each, numbers) for each in others),
        tag("nav", tag("ul", *links), aria_label="Contents"),
    )


def _section(section: blocks.Section, numbers: Iterator[int]) -> Markup:
    title = tag("h2", text(section.title), id=f"{section.key}-title")
    parts = (_block(each, numbers) for each in section.blocks)
    return tag("section", title, *parts, id=section.key, aria_labelledby=f"{section.key}-title")


def _block(block: blocks.Block, numbers: Iterator[int]) -> Markup:
    match block:
        case blocks.WordsBlock():
            return tag("p", text(block.text), class_=block.mood or None)
        case blocks.Listed():
            return tag("ol" if block.numbered else "ul", *(tag("li", text(item)) for item in block.items))
        case blocks.Table():
            return _table(block, next(numbers))
        case blocks.Figures():
            return _figures(block)
        case blocks.Chart():
            return _chart(block, next(numbers))
        case blocks.Drawing():
            return tag("pre", text("\n".join(block.draw(_LETTERS, False))))
        case blocks.Commands():
            pairs = (
                tag("div", tag("dt", text(why)), tag("dd", tag("pre", tag("code", text(line)), tabindex=0)))
                for why, line in block.lines
            )
            return tag("dl", *pairs, class_="commands")
        case blocks.Folded():
            inside = (_block(each, numbers) for each in block.blocks)
            return tag("details", tag("summary", text(block.summary)), *inside)
        case blocks.Section():
            inside = (_block(each, numbers) for each in block.blocks)
            return joined(tag("h3", text(block.title)) if block.title else joined(), *inside)


def _table(table: blocks.Table, number: int) -> Markup:
    titles = (_title(column) for column in table.columns)
    rows = (tag("tr", *_cells(row, table.columns), class_=row.mood or None) for row in table.rows)
    key = f"table-{number}-says" if table.caption else None
    inside = tag("table", tag("thead", tag("tr", *titles)), tag("tbody", *rows), aria_describedby=key)
    # What can be scrolled must be reached by keyboard, and then it needs a name.
    named = "Table: " + ", ".join(column.title for column in table.columns if column.title)
    scrolled = tag("div", inside, class_="scroll", tabindex=0, role="region", aria_label=named)
    # Beside what scrolls, so that it is not cut off with it.
    return joined(scrolled, tag("p", text(table.caption), class_="caption", id=key)) if table.caption else scrolled


def _title(column: blocks.Column) -> Markup:
    class_ = "right" if column.right else None
    if not column.title:
        return tag("td", class_=class_)
    return tag("th", text(column.title), scope="col", class_=class_)


def _cells(row: blocks.Row, columns: tuple[blocks.Column, ...]) -> Iterator[Markup]:
    for place, column in enumerate(columns):
        content = blocks.text_of(row, place)
        letters = len(content)
        length = (
            "longer" if letters > _LONGER else "long" if letters > _LONG else "short" if letters <= _SHORT else ""
        )
        classes = f"{'right' if column.right else length} {blocks.mood_of(row, place)}".strip()
        yield tag("td", text(content), class_=classes or None)


def _figures(block: blocks.Figures) -> Markup:
    return tag(
        "dl",
        *(
            tag(
                "div",
                tag("dt", text(each.label)),
                tag("dd", text(each.value), class_=f"value {each.mood}".strip()),
                tag("dd", text(each.note), class_="beside"),
            )
            for each in block.figures
        ),
        class_="figures",
    )


def _chart(chart: blocks.Chart, number: int) -> Markup:
    pictures = []
    for kind, width in (("desk", _DESK), ("hand", _HAND)):
        drawn = chart.draw(width)
        key = f"chart-{number}-{kind}"
        pictures.append(
            tag(
                "svg",
                tag("title", text(chart.title), id=f"{key}-title"),
                tag("desc", text(chart.says), id=f"{key}-says"),
                tag("g", drawn.inside, aria_hidden="true"),
                viewBox=f"0 0 {drawn.width} {drawn.height:.0f}",
                class_=kind,
                role="img",
                aria_labelledby=f"{key}-title {key}-says",
            )
        )
    caption = (tag("figcaption", text(chart.caption)),) if chart.caption else ()
    return joined(tag("h3", text(chart.title)), tag("figure", *pictures, *caption))
