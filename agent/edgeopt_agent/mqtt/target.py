"""The target profile that fits this device, by which rollouts select it."""

from edgeopt.hw.device import Device
from edgeopt_agent.threads import in_thread

TARGET = "target"
"""The label; one of this name in the configuration takes its place."""


async def target_name(device: Device) -> str:
    """Such as `raspberry-pi-5`; raises EdgeoptError where none fits."""

    def choose_one() -> str:
        from edgeopt.profiles import shipped_profiles
        from edgeopt.profiles.targets import choose

        return choose(device, shipped_profiles()).target.name

    return await in_thread(choose_one)
