from edgeopt.cli.passes import list_passes, show
from edgeopt.events import ignore
from edgeopt.graph.passes import PASSES


def test_every_pass_has_its_line():
    from rich.console import Console

    console = Console(record=True, width=200)
    with console.capture() as captured:
        show(list_passes(ignore), console)
    lines = captured.get().splitlines()
    for one in PASSES:
        assert any(line.startswith(one.name) and one.title in line for line in lines)
