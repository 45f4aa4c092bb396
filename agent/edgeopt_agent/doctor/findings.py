"""Findings of the checks, each with advice on what to do."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import msgspec

from edgeopt_agent.data_dir import DataDir

Health = Literal["ok", "warning", "problem"]


class Finding(msgspec.Struct, frozen=True):
    check: str
    health: Health
    message: str
    advice: str = ""
    """Advice on what to do; empty if all is well."""


class Diagnosis(msgspec.Struct, frozen=True):
    data_dir: str
    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True)
class Patient:
    """The agent to look at: its folder, and where it is to listen."""

    data: DataDir
    host: str
    port: int
    grpc_port: int
    disk_reserve_bytes: int
    memory_reserve_bytes: int
    trials: bool = False
    """Whether clients may measure on it."""


Findings = Iterator[Finding]


def ok(check: str, message: str) -> Finding:
    return Finding(check, "ok", message)


def warning(check: str, message: str, advice: str) -> Finding:
    return Finding(check, "warning", message, advice)


def problem(check: str, message: str, advice: str) -> Finding:
    return Finding(check, "problem", message, advice)
