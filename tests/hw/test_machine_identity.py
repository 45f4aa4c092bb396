from edgeopt.hw.probe import identity

HEX = "0123456789abcdef0123456789abcdef"


def test_linux(machine):
    found, sources, unavailable = identity(
        machine({"/etc/machine-id": f"{HEX}\n"}, calls={"platform.node()": "box"})
    )
    assert (found.host_name, found.machine_id) == ("box", HEX)
    assert sources == {"identity.host_name": "platform.node()", "identity.machine_id": "/etc/machine-id"}
    assert unavailable == {}


def test_windows_and_macos(machine):
    guid = "0F1E2D3C-0000-4000-8000-0123456789AB"
    command = r"reg query HKLM\SOFTWARE\Microsoft\Cryptography /v MachineGuid"
    calls = {"platform.system()": "Windows"}
    assert identity(machine(calls=calls, run={command: f"MachineGuid  REG_SZ  {guid}"}))[0].machine_id == guid
    calls = {"platform.system()": "Darwin"}
    run = {"ioreg -rd1 -c IOPlatformExpertDevice": f'"IOPlatformUUID" = "{guid}"'}
    assert identity(machine(calls=calls, run=run))[0].machine_id == guid


def test_what_is_not_told_has_a_reason(machine):
    found, sources, unavailable = identity(machine({"/etc/machine-id": "uninitialized\n"}))
    assert (found.host_name, found.machine_id, sources) == (None, None, {})
    assert set(unavailable) == {"identity.host_name", "identity.machine_id"}
