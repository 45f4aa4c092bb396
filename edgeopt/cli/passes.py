"""`edgeopt passes`: what there is to be applied."""

from edgeopt.cli.console import JsonFlag, asks, execute
from edgeopt.commands.passes import PLUGIN, STANDARD, PassesRequest, PassLine, PassList
from edgeopt.views.blocks import Block, Row, Table, WordsBlock, columns, filled, lines, section

_FOR_ONE_RUNTIME = "Only in edgeopt optimize, if [lowerings] of the target profile names them"


@asks(PassesRequest)
def passes(request: PassesRequest, json: JsonFlag = False) -> None:
    """List graph rewrites in the order they run, or explain one.

    \b
    Each pass keeps the results, exactly or within the ratio shown. Passes on request run with
    `edgeopt simplify --also PASS`. Lowerings for one runtime run in `edgeopt optimize`, if the
    [lowerings] table of the target profile names them; so do passes of plug-ins, without a profile.

    \b
    Examples:
      edgeopt passes
      edgeopt passes batchnorm-into-conv
      edgeopt passes --json | jq -r '.data.passes[].name'
    """

    from edgeopt.commands.passes import passes

    execute("passes", lambda _emit: passes(request), show, json)


def show(result: PassList) -> list[Block]:
    if len(result.passes) == 1 and result.passes[0].text:
        (line,) = result.passes
        title = WordsBlock(f"{line.name}: {line.title}", "strong")
        return [title, WordsBlock(_facts(line)), section("", *lines(line.text.splitlines()))]
    several = any(line.runtime != STANDARD for line in result.passes)
    rows = []
    for line in result.passes:
        opset = str(line.lowest_opset) if line.lowest_opset else ""
        cells = (line.name, line.title, _results(line), line.kind, opset, line.runtime if several else "")
        rows.append(Row(cells, "faint" if line.on_request or line.runtime != STANDARD else ""))
    table = Table(columns("=pass", "what it does", "!results", "!kind", "opset", "runtime"), tuple(rows))
    requested = [line.name for line in result.passes if line.on_request and line.runtime == STANDARD]
    notes = [f"Only on request (edgeopt simplify --also PASS): {', '.join(requested)}."] if requested else []
    notes += [f"{_FOR_ONE_RUNTIME}: passes with a runtime in their row."] if several else []
    return [filled(table), section("", *lines(notes))]


def _results(line: PassLine) -> str:
    if line.kind == PLUGIN:
        return "compared in each search"
    kept = "exact" if line.tolerance_db is None else f"{line.tolerance_db:g} dB"
    inputs = _inputs(line)
    return f"{kept}, {inputs}" if inputs else kept


def _inputs(line: PassLine) -> str:
    from edgeopt.graph.ledger import promised_inputs

    return promised_inputs(line.finite_only, line.nonempty_only)


def _facts(line: PassLine) -> str:
    if line.kind == PLUGIN:
        return f"kind: {line.kind}; results: {_results(line)}."
    facts = [
        f"kind: {line.kind}",
        "results: bit-identical"
        if line.tolerance_db is None
        else f"results: at least {line.tolerance_db:g} dB of the source's",
        *([f"for {inputs}"] if (inputs := _inputs(line)) else []),
        *([] if line.runtime != STANDARD else ["runs only on request" if line.on_request else "runs by default"]),
        *([f"needs opset {line.lowest_opset}"] if line.lowest_opset else []),
        *([f"only for {line.runtime}, if [lowerings] of the target profile names it"]
          if line.runtime != STANDARD else []),
    ]  # fmt: skip
    return "; ".join(facts) + "."
