"""Errors of the core with options replaced by the titles of the page's fields."""

import re
from dataclasses import replace

from edgeopt.errors import EdgeoptError
from edgeopt_gui.jobs.ending import Ending

_TITLES = (
    ("; or set EDGEOPT_BROKER", ""),
    ("pass --allow-plain", "allow it in the form"),
    (", or --copy with a copy of the bundle", ""),
    ("; a copy on this machine is named with --copy", ""),
    ("; or pass --digest", "; or fill in 'Digest'"),
    ("For instance: --broker ", "For instance: "),
    ("'rest' at the end: --waves", "'rest' at the end:"),
    ("Write a percentage: --stop-at-failures", "Write a percentage:"),
    ("Write a percentage: --max-errors", "Write a percentage:"),
    ("Write a percentage: --max-slowdown", "Write a percentage:"),
    ("For instance: --to ", "For instance: "),
    ("or --to ", "or "),
    ("--stop-at-failures", "'Stop at failures'"),
    ("--max-errors", "'Errors at most'"),
    ("--max-slowdown", "'Slower at most'"),
    ("--client-cert", "certificate"),
    ("--client-key", "private key"),
    ("--password-file", "password file"),
    ("--username", "user name"),
    ("--ca-file", "authorities"),
    ("--broker", "the address of the broker"),
    ("--digest", "'Digest'"),
    ("--fleet", "'Fleet'"),
    ("--prefix", "'Topics begin with'"),
    ("--waves", "'Waves'"),
    ("--name", "'Name of the rollout'"),
    ("--key", "the signing key"),
    ("--to", "'Devices'"),
    ("`edgeopt fleet devices` lists", "The page lists"),
)
"""The longer ones first: one may be the beginning of another."""


def in_the_form(error: EdgeoptError) -> str:
    return _in_words(f"{error.message} {error.hint}".strip())


def ending_in_the_form(ending: Ending) -> Ending:
    return replace(ending, what=_in_words(ending.what), next_step=_in_words(ending.next_step))


_COMMAND_OPTIONS = re.compile(
    r"(edgeopt fleet (?:devices|rollout \w+(?: (?!-)[\w.-]*\w)?))"
    r"(?: --allow-plain| --[a-z-]+ (?:'[^']*'|[^\s'`;]+))+"
)


def _in_words(sentence: str) -> str:
    sentence = _COMMAND_OPTIONS.sub(r"\1", sentence)  # the form has them
    for option, title in _TITLES:
        sentence = sentence.replace(option, title)
    return sentence
