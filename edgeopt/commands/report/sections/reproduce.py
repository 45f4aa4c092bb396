"""How to see all of this again."""

import shlex

from edgeopt.commands.documents.blocks import Block, Commands, Section, Table, columns, rows
from edgeopt.commands.report import words
from edgeopt.commands.report.facts import Facts


def section(facts: Facts) -> Section:
    deployment = facts.deployment
    bundle = shlex.quote(facts.bundle)
    source = shlex.quote(facts.source_path or deployment.source.name)
    rebuilt = shlex.quote(f"{deployment.name}-again.edgeopt")
    lines = [
        ("Is the bundle intact, correct, and proved for this device?", f"edgeopt verify {bundle}"),
        ("How fast is it here, against the source model?", f"edgeopt bench {bundle} --against {source}"),
        ("Which outputs and nodes differ?", f"edgeopt compare {source} {bundle}"),
        ("Where does the time go, as a graph?", f"edgeopt graph {bundle} -o graph.html --profile-ops"),
    ]
    if deployment.run.model.endswith(".onnx"):  # an IR's nodes have other names
        command = f"edgeopt graph {source} -o changes.html --against {bundle}"
        lines.append(("What changed in the graph?", command))
    if deployment.schema > 1:  # the first did not hold what that takes
        lines.append(("Rebuild it without searching.", f"edgeopt replay {bundle} {source} -o {rebuilt}"))
    again = "quantize" if facts.made_by == "a plan of precision" else "optimize"
    lines.append(("Make it again, with your data.", f"edgeopt {again} {source} --data DATA -o {rebuilt}"))
    blocks: list[Block] = [Commands(tuple(lines)), _identity(facts)]
    return Section("reproduce", "How to reproduce", tuple(blocks))


def _identity(facts: Facts) -> Table:
    deployment = facts.deployment
    run = deployment.run
    known = [
        ("source model", f"{deployment.source.name}, {words.size(deployment.source.size_bytes)}"),
        ("its SHA-256", deployment.source.sha256),
        *((f"input {each.name}", f"{each.dtype} {words.dimensions(each.shape)}") for each in deployment.inputs),
        *((f"output {each.name}", f"{each.dtype} {words.dimensions(each.shape)}") for each in deployment.outputs),
        ("backend", run.backend),
        ("its options", words.options(run.options)),
        ("steps", " → ".join(each.recipe for each in deployment.steps) or "none: the source model itself"),
        ("target", deployment.target),
        ("made", f"{words.moment(deployment.created)} by edgeopt {deployment.edgeopt}{_took(facts)}"),
        ("bundle", f"{words.size(facts.bundle_bytes)} in all, {words.size(facts.model_bytes)} of it the model"),
        ("this report", f"{words.moment(facts.reported_at)} by edgeopt {facts.reported_by}"),
    ]
    return Table(columns("", "what"), rows(*known))


def _took(facts: Facts) -> str:
    return f" in {facts.seconds:.0f} s" if facts.seconds else ""
