"""All checks, in the order in which they are shown."""

from collections.abc import Callable
from dataclasses import replace

import msgspec

from edgeopt_agent.certificate import listening
from edgeopt_agent.data_dir import DataDir, added_models
from edgeopt_agent.doctor import machine, state
from edgeopt_agent.doctor.findings import Diagnosis, Findings, Patient
from edgeopt_agent.own_commands import in_commands_of, in_own_commands
from edgeopt_agent.settings import Settings

CHECKS: tuple[Callable[[Patient], Findings], ...] = (
    state.check_folder,
    state.check_space,
    state.check_journal,
    state.check_links,
    state.check_files,
    state.check_trust,
    state.check_signature,
    state.check_hook,
    machine.check_port,
    machine.check_grpc_port,
    machine.check_runtimes,
    machine.check_descriptors,
    machine.check_memory,
    machine.check_worker_limits,
    machine.check_measurements,
)


def diagnose(settings: Settings) -> Diagnosis:
    data = DataDir(settings.data_dir)
    reserves = settings.disk_reserve_bytes, settings.memory_reserve_bytes
    patient = Patient(data, settings.host, settings.port, settings.grpc_port, *reserves, settings.trials)
    findings = [finding for check in CHECKS for finding in check(patient)]
    findings += [finding for name in added_models(data) for finding in _check_model(patient, name)]
    own = (msgspec.structs.replace(each, advice=_own(each.advice, settings)) for each in findings)
    return Diagnosis(str(data.root), tuple(own))


def _own(advice: str, settings: Settings) -> str:
    """Returns the advice for the agent that runs on the data folder, or for these settings if none ever ran."""
    if listening(settings.data_dir) is not None:
        return in_commands_of(advice, settings.data_dir)
    return in_own_commands(advice, settings)


def _check_model(patient: Patient, name: str) -> Findings:
    """Yields the findings that concern an added model alone."""
    added = replace(patient, data=patient.data.of_model(name))
    checks = (state.check_journal, state.check_links, state.check_files, state.check_signature)
    for finding in (finding for check in checks for finding in check(added)):
        if finding.check != "clock":
            yield msgspec.structs.replace(finding, check=f"{finding.check} of {name}")
