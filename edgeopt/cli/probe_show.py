"""Shows a device record on the terminal: a headline, grouped facts, the verdict, and what is not here."""

from edgeopt.cli.probe_rows import headline, is_detail, rows
from edgeopt.commands.documents.blocks import Block, Listed, Marked, Row, Table, Words, columns, filled, section
from edgeopt.hw.device import Device


def show(device: Device, explain: bool = False) -> list[Block]:
    found = []
    group = ""
    for row in rows(device):
        source = _source(device, row.facts) if explain else ""
        named = "" if row.group == group else row.group
        cells = (named, Marked(row.title, "accent"), row.value, Marked(source, "faint"))
        found.append(Row(cells, apart=bool(named)))
        group = row.group
    titles = columns("=", "=Fact", "Value", "Source") if explain else columns("=", "=", "", "")
    blocks: list[Block] = [Words(headline(device), "strong"), filled(Table(titles, tuple(found)))]
    return blocks + _verdict(device) + _absent(device, explain)


def _verdict(device: Device) -> list[Block]:
    state = device.state
    if state is None:
        return []
    if state.worth_measuring:
        said = Words("This device is ready for measurements.", "good")
    else:
        said = Words("This device is not ready for measurements now:", "warning")
    return [section("", said, Listed(tuple(state.reasons)))]


def _absent(device: Device, explain: bool) -> list[Block]:
    names: dict[str, list[str]] = {}
    for name, reason in device.unavailable.items():
        if explain or not is_detail(name):
            names.setdefault(reason, []).append(name)
    found = tuple(Row((", ".join(same), reason), "faint") for reason, same in names.items())
    return [section("Not here", Table(columns("", ""), found))] if found else []


def _source(device: Device, facts: tuple[str, ...]) -> str:
    found = (
        source
        for name, source in device.sources.items()
        if any(name == fact or name.startswith(f"{fact}.") for fact in facts)
    )
    return "; ".join(dict.fromkeys(found))
