"""The labels that the agent gives itself: the target profile that fits the device, and its kind."""

import logging
from collections.abc import Mapping

from edgeopt.errors import EdgeoptError
from edgeopt.hw.device import Device, kind_of
from edgeopt_agent.threads import in_thread

log = logging.getLogger(__name__)
TARGET = "target"
KIND = "kind"


async def own_labels(device: Device, configured: Mapping[str, str]) -> dict[str, str]:
    """Returns the device's labels; a configured label replaces the device's own of the same name."""
    found = {KIND: kind_of(device)}
    if TARGET not in configured:
        try:
            found[TARGET] = await target_name(device)
        except (EdgeoptError, OSError) as error:
            log.warning("The target of this device is not known: %s", error)
    return {**found, **configured}


async def target_name(device: Device) -> str:
    """Returns the name of the device's target, such as `raspberry-pi-5`; raises EdgeoptError if none fits."""

    def choose_one() -> str:
        from edgeopt.profiles import shipped_profiles
        from edgeopt.profiles.targets import choose

        return choose(device, shipped_profiles()).target.name

    return await in_thread(choose_one)
