"""Writes a program in the percent format as a Jupyter notebook without outputs: make_notebook.py PROGRAM ..."""

import json
import re
import sys
from pathlib import Path

_CELL = re.compile(r"^# %%(?P<markdown> \[markdown\])?\n", re.MULTILINE)


def notebook(program: str) -> str:
    """The notebook's JSON; the same program always gives the same text."""
    _, *parts = _CELL.split(program)
    cells = [
        _cell(number, bool(markdown), source.strip("\n"))
        for number, (markdown, source) in enumerate(zip(parts[::2], parts[1::2], strict=True), start=1)
    ]
    metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    document = {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def _cell(number: int, markdown: bool, source: str) -> dict[str, object]:
    common: dict[str, object] = {"id": f"cell-{number}", "metadata": {}}
    if markdown:
        text = re.sub(r"^# ?", "", source, flags=re.MULTILINE)
        return {"cell_type": "markdown", **common, "source": text.splitlines(keepends=True)}
    lines = source.splitlines(keepends=True)
    return {"cell_type": "code", **common, "execution_count": None, "outputs": [], "source": lines}


def main() -> None:
    for name in sys.argv[1:]:
        program = Path(name)
        program.with_suffix(".ipynb").write_text(notebook(program.read_text()))


if __name__ == "__main__":
    main()
