"""First token, decoding speed, memory and tokens of a Whisper model: edgeopt beside transformers, interleaved.

    python benchmarks/speech_models.py MODEL [MODEL ...] --folder HF_FOLDER --peers PYTHON
        [--audio FILE.wav] [--new-tokens 64] [--rounds 5]

MODEL is an imported decoder (its encoder beside it) or a bundle; PYTHON has torch and transformers. Every
contender runs in a process of its own on two threads, on the same 30 seconds: a WAV file, or tones and noise made
here. It loads, transcribes once, then twice more. The first token includes the features and the encoder. One round
runs each contender once; figures are medians of the rounds, ratios are taken within rounds. The last column counts
the tokens that equal those of transformers before the first difference; with random weights they say little.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import wave
from pathlib import Path
from typing import NamedTuple

import numpy as np

COMMON = """
import json, re, sys, time
from pathlib import Path
import numpy as np
path, audio, new = sys.argv[1], np.load(sys.argv[2]), int(sys.argv[3])
def peak_mib():
    return int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) / 1024
def measure(generate):
    times = []
    for _ in range(3):
        begin, tokens, stamps = time.perf_counter(), [], []
        for token in generate():
            tokens.append(token)
            stamps.append(time.perf_counter() - begin)
        times.append((stamps[0], (len(stamps) - 1) / (stamps[-1] - stamps[0])))
    print(json.dumps([min(t[0] for t in times[1:]) * 1e3, max(t[1] for t in times[1:]), peak_mib(), tokens]))
"""
EDGEOPT = """
import edgeopt
session = edgeopt.load(path)
def generate():
    answer, known = session.transcribe(audio, language="en", max_tokens=new), 0
    for _ in answer:
        yield from answer.tokens[known:]
        known = len(answer.tokens)
measure(generate)
"""
# One call of `generate` gives all tokens at once, so that of one token stands for the first.
TRANSFORMERS = """
import torch
from transformers import WhisperFeatureExtractor, WhisperForConditionalGeneration
torch.set_num_threads(2)
model = WhisperForConditionalGeneration.from_pretrained(path, dtype=torch.float32).eval()
extract = WhisperFeatureExtractor.from_pretrained(path)
def run(count):
    begin = time.perf_counter()
    features = extract(audio, sampling_rate=16000, return_tensors="pt").input_features
    options = {"language": "en", "task": "transcribe", "do_sample": False, "num_beams": 1}
    made = model.generate(features, max_new_tokens=count, **options)
    return time.perf_counter() - begin, made[0].tolist()
with torch.inference_mode():
    run(new)
    firsts, alls = [run(1)[0] for _ in range(2)], [run(new) for _ in range(2)]
first, (whole, tokens) = min(firsts), min(alls)
print(json.dumps([first * 1e3, (len(tokens) - 1) / (whole - first), peak_mib(), tokens]))
"""


class Figures(NamedTuple):
    first_token_ms: float
    tokens_per_s: float
    peak_mib: float
    tokens: list[int]


def main() -> None:
    """Prints one Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, nargs="+")
    parser.add_argument("--folder", type=Path, required=True, help="the model as transformers saves it")
    parser.add_argument("--peers", required=True, help="Python with torch and transformers")
    parser.add_argument("--audio", type=Path, help="WAV file of 16 kHz, one channel, 16 bits")
    parser.add_argument("--new-tokens", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=5)
    chosen = parser.parse_args()
    contenders = [("transformers f32", chosen.peers, TRANSFORMERS, chosen.folder)]
    contenders += [(f"edgeopt {each.name}", sys.executable, EDGEOPT, each) for each in chosen.model]
    rounds: dict[str, list[Figures]] = {name: [] for name, *_ in contenders}
    with tempfile.TemporaryDirectory(prefix="edgeopt-speech-") as folder:
        audio = Path(folder) / "audio.npy"
        np.save(audio, _samples(chosen.audio))
        for number in range(chosen.rounds):
            for name, python, program, path in contenders if number % 2 else contenders[::-1]:
                command = [python, "-c", COMMON + program, str(path), str(audio), str(chosen.new_tokens)]
                done = subprocess.run(command, capture_output=True, text=True, check=False)
                if done.returncode:
                    raise SystemExit(f"{name}: {done.stderr.strip()[-500:]}")
                rounds[name].append(Figures(*json.loads(done.stdout.strip().splitlines()[-1])))
    print("| | first token | tokens/s | of transformers | peak | equal tokens |\n|---|---|---|---|---|---|")
    base = rounds[contenders[0][0]]
    for name, found in rounds.items():
        first, speed, peak = (statistics.median(column) for column in list(zip(*found, strict=True))[:3])
        ratios = [one.tokens_per_s / other.tokens_per_s for one, other in zip(found, base, strict=True)]
        spread = f"{statistics.median(ratios):.2f}x [{min(ratios):.2f} {max(ratios):.2f}]"
        equal = _equal_tokens(found[0].tokens, base[0].tokens)
        print(f"| {name} | {first:.0f} ms | {speed:.1f} | {spread} | {peak:.0f} MiB | {equal} |")


def _samples(path: Path | None) -> np.ndarray:
    if path is None:
        random, times = np.random.default_rng(9), np.arange(30 * 16000) / 16000
        tones = sum(np.sin(2 * np.pi * hertz * times) for hertz in (220, 450, 1800))
        return np.asarray(0.1 * tones + 0.05 * random.standard_normal(len(times)), np.float32)
    with wave.open(str(path)) as file:
        return np.frombuffer(file.readframes(file.getnframes()), "<i2").astype(np.float32) / 32768


def _equal_tokens(tokens: list[int], others: list[int]) -> int:
    """Counts equal tokens; transformers returns the tokens of the prompt too in some versions."""
    others = others[len(others) - len(tokens) :] if len(others) > len(tokens) else others
    pairs = zip(tokens, others, strict=False)
    return next((k for k, (one, other) in enumerate(pairs) if one != other), min(len(tokens), len(others)))


if __name__ == "__main__":
    main()
