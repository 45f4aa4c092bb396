"""Evidence that a test can foresee: as a search writes it, and as a plan of precision does."""

import msgspec
import numpy as np

from edgeopt.backends.base import TensorInfo
from edgeopt.bundle.deployment import FILE, read_deployment, to_toml
from edgeopt.bundle.manifest import write_manifest
from edgeopt.commands.predict.latency import Latency
from edgeopt.commands.predict.records import PredictedCandidate, PredictedOutcome
from edgeopt.data.judging.goals import Goal
from edgeopt.graph.ledger import Change, LedgerEntry, Refusal
from edgeopt.hw.device import device_for_evidence
from edgeopt.measure.messages import Memory
from edgeopt.measure.scoreboard import TrialLog
from edgeopt.measure.stats import Interval, paired_ratios, sign_interval
from edgeopt.pipeline.outcome import Candidate, CandidateReport, Outcome, Proof, VariantReport
from edgeopt.quant.measured.records import AccuracyProof as PlanProof
from edgeopt.quant.measured.records import Quantized
from edgeopt.quant.records import FrontierPoint, LayerVerdict, PrecisionPlan
from tests.conftest import this_device

SOURCE = Candidate("source", "onnxruntime-cpu")
WINNER = Candidate("int8", "openvino-cpu", {"precision": "f32", "threads": 1})


def memory(mib):
    steps = [mib * share * 2**20 for share in (0.4, 0.5, 0.8, 0.9, 1.0, 1.0)]
    start, imported, loaded, first, steady, peak = map(round, steps)
    return Memory(imported, loaded, first, peak, start, steady, added_bytes=peak - start)


def taken(middle_ms, seed):
    drawn = np.random.default_rng(seed)
    slices = tuple((middle_ms * drawn.lognormal(0, 0.05, 22)).tolist())
    runs = middle_ms * drawn.lognormal(0, 0.1, 500)
    return TrialLog(slices, 500, tuple(np.quantile(runs, np.linspace(0, 1, 101)).tolist()), 30.0, 3.0)


BEHIND = "0.50 of the speed of the best"


def raced(variant, backend, options, speed, snr_db, status="lost", reason=BEHIND):
    ratio = Interval(speed, speed * 0.9, speed * 1.1, 8) if speed else None
    latency = 2.0 / speed if speed else None
    candidate = Candidate(variant, backend, options)
    found = CandidateReport(candidate, status, reason, ratio, latency, snr_db, snr_db, 12.0, memory(90))
    won = status == "winner"
    return msgspec.structs.replace(found, of_best=0.5 if reason == BEHIND else None, proved=won)


CANDIDATES = (
    raced("source", "onnxruntime-cpu", {}, 1.0, 200.0, reason="the baseline"),
    raced("source", "openvino-cpu", {"precision": "f32"}, 1.3, 140.0),
    raced("cleaned", "openvino-cpu", {"precision": "f32"}, 1.6, 139.0),
    raced("int8", "openvino-cpu", {"precision": "f32"}, 2.4, 33.0),
    raced("int8", "openvino-cpu", {"precision": "f32", "threads": 1}, 2.6, 33.0, "winner", ""),
    raced(
        "int8-dynamic", "openvino-cpu", {"precision": "f32"}, 2.9, 21.0, "below the floor", "21.0 dB on 8 samples"
    ),
    raced("int8", "onnxruntime-cpu", {}, None, None, "failed", "crashed: SIGSEGV while loading"),
)

LEFT = Refusal("too small to pay", ("fc",))
LEDGER = (
    LedgerEntry("identities", (Change("removed an Identity", ("same",)),), (), 6, 5),
    LedgerEntry("gelu"),
    LedgerEntry("int8", (Change("int8: saves 0.2 ms", ("conv",)),), (LEFT,), 5, 9, snr_db=33.0),
)


def outcome(**changes):
    before, after = taken(2.0, 1), taken(0.8, 2)
    ratio = sign_interval(paired_ratios(before.slices_ms, after.slices_ms), 0.996)
    proof = Proof(
        "faster",
        ratio,
        2.0,
        0.8,
        33.0,
        8,
        True,
        memory(110),
        memory(100),
        "",
        (),
        after,
        before,
        "Measured in peace.",
    )
    found = Outcome(
        model="conv.onnx",
        model_digest="0" * 64,
        bundle="out.edgeopt",
        target="quick",
        verdict="faster",
        summary="2.50x faster than source · onnxruntime-cpu.",
        floor_db=30.0,
        winner=WINNER,
        baseline=SOURCE,
        proof=proof,
        inputs=(TensorInfo("x", "float32", ("batch", 3, 16, 16)),),
        outputs=(TensorInfo("y", "float32", ("batch", 10)),),
        variants=(
            VariantReport("source", "the source model", 10_000),
            VariantReport("cleaned", "exact graph rewrites", 9_900),
            VariantReport("int8", "eight bits", 4_000),
            VariantReport("lowered", "forms of one runtime", failure="the profile lists no lowerings"),
        ),
        candidates=CANDIDATES,
        warnings=("Ignored in the data: extra.",),
        seconds=12.0,
        device=device_for_evidence(this_device()),
        operators={
            "Conv": 1,
            "Relu": 1,
            "Identity": 1,
            "GlobalAveragePool": 1,
            "Flatten": 1,
            "Gemm": 1,
            "Gone": 4,
        },
    )
    return msgspec.structs.replace(found, **changes)


def quantized():
    """A plan that chose the second of three points, and knows two layers."""
    options = {"precision": "f32"}
    floats = FrontierPoint({}, 1.0, 130.0)
    chosen = FrontierPoint({"conv": "int8"}, 0.7, 34.0, 34.5, 33.0, 1.4)
    daring = FrontierPoint({"conv": "int8", "fc": "int8"}, 0.6, 25.0)
    verdicts = (
        LayerVerdict("conv", "int8", "int8: saves 0.3 ms"),
        LayerVerdict("fc", "float", "kept float: costs 9 dB alone"),
    )
    plan = PrecisionPlan("onnxruntime-cpu", options, 30.0, chosen, (floats, chosen, daring), verdicts)
    ratio = Interval(2.0, 1.9, 2.1, 11, 0.99)
    found = Quantized(
        "written", "Half in fewer bits.", "conv.onnx", "plan", "onnxruntime-cpu", options, Goal(), plan
    )
    return msgspec.structs.replace(
        found,
        proof=PlanProof(8, True, 34.5, 33.0),
        speedup=Interval(1.4, 1.3, 1.5, 11, 0.99),
        source_speedup=ratio,
        source_bytes=9_000,
        taken={"result": taken(1.0, 1), "source": taken(2.0, 2)},
        memory={"result": memory(80)},
    )


def ahead():
    """A plan for a device that was not there, with a time for one of its two candidates."""
    chosen, source = Candidate("int8", "onnxruntime-cpu"), Candidate("source", "onnxruntime-cpu")
    latency = Latency(3.0, 2.0, 4.0, 0.9, "its peaks")
    return PredictedOutcome(
        model="conv.onnx",
        model_digest="0" * 64,
        bundle="out.edgeopt",
        device="Cortex-A76",
        target="arm-dotprod",
        verdict="predicted",
        summary="Predicted, not measured.",
        basis="From its peaks.",
        floor_db=30.0,
        winner=chosen,
        baseline=source,
        baseline_ms=6.0,
        latency=latency,
        speedup=2.0,
        accuracy_db=34.0,
        judged_with="onnxruntime-cpu",
        samples=8,
        set_aside=True,
        finish=("Search on the device.",),
        inputs=(),
        outputs=(),
        candidates=(
            PredictedCandidate(chosen, "chosen", "the quickest", latency, 34.0, 33.0),
            PredictedCandidate(source, "baseline", "behind", None, 200.0, 200.0),
            PredictedCandidate(Candidate("planned", ""), "not planned", "left to the device"),
        ),
    )


def put_evidence(bundle, evidence, ledger=LEDGER, **changes):
    """In the bundle, as if it had been written so."""
    (bundle / "evidence.json").write_bytes(msgspec.json.encode(evidence))
    (bundle / "ledger.json").write_bytes(msgspec.json.encode(ledger))
    deployment = read_deployment(bundle / FILE)
    (bundle / FILE).write_text(to_toml(msgspec.structs.replace(deployment, **changes)))
    write_manifest(bundle)
    return bundle
