"""`edgeopt verify`: does a bundle still hold on this device?"""

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from edgeopt import events
from edgeopt.bundle.request import VerifyRequest
from edgeopt.cli.console import (
    JsonFlag,
    MarkdownFlag,
    as_commands,
    asks,
    execute,
    fail,
    failure_as_page,
    machine_line,
    refuse_two_voices,
)
from edgeopt.errors import VerificationError
from edgeopt.platform.command_line import quote_word
from edgeopt.views.blocks import Block, Listed, Table, WordsBlock, columns, lines, rows

if TYPE_CHECKING:
    from edgeopt.bundle.runtime.check import BundleCheck
    from edgeopt.events import Emit


@asks(VerifyRequest)
def verify(request: VerifyRequest, markdown: MarkdownFlag = False, json: JsonFlag = False) -> None:
    """Check the digests, signature, golden outputs and device of a bundle.

    \b
    Valid: the files match the manifest, and device, drivers and runtimes are unchanged since the
    bundle was made. Stale: the bundle works, but the device, a driver, a runtime or the source model
    has changed. Broken: files are damaged or not signed by a given key (exit code 3), or outputs
    differ from the golden outputs (exit code 6).

    Valid says nothing about speed; the line "Speed" does. --fail-on-stale also fails for bundles that
    were planned but never measured.

    \b
    Examples:
      edgeopt verify model.edgeopt
      edgeopt verify model.edgeopt --trust release-key.pub
      edgeopt verify model.edgeopt --model model.onnx
      edgeopt verify model.edgeopt --fail-on-stale --require-faster
      edgeopt verify model.edgeopt --json | jq .data.status
    """

    def work(emit: "Emit") -> "BundleCheck":
        from edgeopt.bundle.runtime.check import check
        from edgeopt.bundle.sign import load_public_key

        refuse_two_voices(json, markdown)
        with failure_as_page(f"edgeopt verify: {request.bundle}", markdown):
            keys = [load_public_key(file) for file in request.trust]
            return check(request.bundle, emit, keys, request.model)

    found = execute("verify", work, _markdown if markdown else show, json)
    error = stale(found) if request.fail_on_stale or request.require_faster else None
    if error is None and request.require_faster:
        error = not_faster(found, request.model)
    if error is None:
        return
    if not json:  # programs read `status` in the result, which is the last line
        fail(events.Error(error.code, error.message, error.hint), json)
    raise typer.Exit(error.exit_code)


def stale(result: "BundleCheck") -> VerificationError | None:
    """Returns the error of `--fail-on-stale` for a bundle without a valid proof of its speed here, or None."""
    name = Path(result.bundle).name
    if result.predicted:
        return VerificationError(f"'{name}' was never proved on its device.", result.evidence)
    if not result.changes:
        return None
    changed = "; ".join(f"{each.part}: {each.then} -> {each.now}" for each in result.changes)
    why = f"'{name}' is stale, because this changed since it was proved: {changed.rstrip('.')}."
    return VerificationError(why, result.refresh)


def not_faster(result: "BundleCheck", model: Path | None) -> VerificationError | None:
    """Returns the error of `--require-faster` for a bundle that is not proved faster, or None."""
    if result.speed == "faster":
        return None
    name, source = Path(result.bundle).name, "MODEL" if model is None else quote_word(str(model))
    return VerificationError(
        f"'{name}' is not proved faster than its source. {result.speed_words}",
        f"Measure it here: edgeopt replay {quote_word(result.bundle)} {source} -o NEW --measure",
    )


def show(result: "BundleCheck") -> list[Block]:
    texts = [f"{result.bundle}: all {result.files} files match the manifest.", _signature(result)]
    texts += [
        f"Golden samples: {_golden(result)}.",
        *result.warnings,
        result.processing,
        result.encoder,
        result.evidence,
    ]
    if result.predicted:
        return [*lines(texts)]
    texts.append(f"Speed: {result.speed_words}")
    changes = tuple(f"{each.part}: {each.then}  ->  {each.now}" for each in result.changes)
    refresh = [as_commands(result.refresh)] if changes else []
    return [*lines([*texts, _verdict(result)]), Listed(changes), *refresh]


def _markdown(result: "BundleCheck") -> str:
    """The same as a page: the verdict first."""
    from edgeopt.bundle.deployment import machine_of
    from edgeopt.hw.probe import probe
    from edgeopt.views.markdown import page

    checked = [
        ("files", f"all {result.files} match the manifest"),
        ("signature", _signature(result)),
        ("golden samples", _golden(result)),
        ("pre- and postprocessing", result.processing),
        ("encoder", result.encoder.partition(": ")[2]),
        ("evidence", "" if result.predicted else result.evidence),
        ("speed", result.speed_words),
    ]
    blocks: list[Block] = [WordsBlock(_verdict(result), "strong")]
    blocks.append(Table(columns("checked", "found"), rows(*(each for each in checked if each[1]))))
    if result.changes:
        changed = ((each.part, each.then, each.now) for each in result.changes)
        blocks.append(Table(columns("changed", "when it was proved", "here"), rows(*changed)))
        blocks.append(as_commands(result.refresh))
    blocks += lines([*result.warnings, machine_line(machine_of(probe()))])
    return page(f"edgeopt verify: {Path(result.bundle).name}", blocks, level=2)


def _verdict(result: "BundleCheck") -> str:
    if result.predicted:
        return result.evidence
    if not result.changes:
        return "Valid: the files match the manifest; device and runtimes are unchanged since the bundle was made."
    parts = ", ".join(each.part for each in result.changes)
    return f"Stale: {parts} changed since it was made, so nothing is proved of its speed here."


def _golden(result: "BundleCheck") -> str:
    return f"{result.agreement_words} (at least {result.floor_db:.1f} dB is needed)"


def _signature(result: "BundleCheck") -> str:
    if result.signed_by is None:
        return "Not signed. Nothing checks the manifest itself."
    if result.trusted:
        return f"Signed by the key {result.signed_by[:64]}, which is trusted."
    return f"The signature names the key {result.signed_by[:64]}; it was not checked (--trust PUB checks it)."
