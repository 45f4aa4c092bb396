"""The proof of an import, as a sentence and as facts."""

from collections.abc import Iterator

from edgeopt import units
from edgeopt.graph.import_proof import ImportProof


def import_sentence(proof: ImportProof) -> str:
    """`From net.py:Net (torch 2.13.0), agrees to 121.4 dB on 32 samples and at batch=2, batch=3.`"""
    from edgeopt.graph.accuracy import agreement  # with it comes numpy, which the first window does not wait for

    how = agreement(proof.snr_db, "it")
    verdict = how if how.startswith("equal") else f"agrees to {how}"
    return f"From {proof.source} ({proof.framework}), {verdict} {_on(proof)}."


def import_facts(proof: ImportProof) -> Iterator[tuple[str, str]]:
    from edgeopt.graph.accuracy import decibels

    yield "From", f"{proof.source}, {proof.framework}"
    yield "Agreement", f"{decibels(proof.snr_db)}; floor {proof.floor_db:g} dB"
    if len(proof.outputs) > 1:
        for name, snr_db in proof.outputs.items():
            yield f"Output {name}", decibels(snr_db)
    yield "Proved", f"{_on(proof)}, in {proof.runtime}"
    yield "Exporter", proof.exporter
    if proof.pre:
        yield "Preprocessing", f"{proof.pre}, agrees with the original to {decibels(proof.pre_db)}"


def _on(proof: ImportProof) -> str:
    at = f" and at {proof.sizes_text}" if proof.sizes else ""
    return f"on {units.count(proof.samples, 'sample')}{at}"
