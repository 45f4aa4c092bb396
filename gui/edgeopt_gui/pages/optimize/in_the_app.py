"""Sentences of the core as they read here: options of the command line, of which they speak, are fields."""

import re

# In this order: the longer spelling first.
_FIELDS = (
    (r"as in --target-speedup ", "as in "),
    (r"--target-speedup", "the speed that is enough"),
    (r"the --floor\b", "the floor"),
    (r"--floor (?=[\d.])", "a value of "),
    (r"--floor\b", "a value"),
    (r"--max-drop (?=[\d.])", "a drop of "),
    (r"--max-drop\b", "a drop"),
    (r"--metric (?=\w)", "the metric "),
    (r"--metric\b", "metric"),
    (r"with --labels NAME", "that the field names"),
    (r"--labels\b", "labels"),
    (r"--shape names\b", "The sizes name"),
    (r"--shape (?=\S+=)", ""),
    (r"--time-limit\b", "time limit"),
    (r"--max-memory-mib\b", "memory limit"),
    (r"--max-size-mib\b", "size limit"),
    (r"--max-latency-ms\b", "latency limit"),
    (r"--baseline\b", "what runs today"),
    (r"--objective\b", "the objective"),
    (r", or leave --model out\b", ""),
    (r"Run the same command without --pick first\.", "Search again first: what was found is not kept any more."),
)
_BEGINNINGS = tuple(field for _, field in _FIELDS if field[:1].islower())


def in_the_app(sentence: str) -> str:
    if "--" not in sentence:
        return sentence
    for option, field in _FIELDS:
        sentence = re.sub(option, field, sentence)
    return sentence[:1].upper() + sentence[1:] if sentence.startswith(_BEGINNINGS) else sentence
