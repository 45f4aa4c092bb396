from edgeopt.hw import accelerators


def test_the_board_and_its_chip(machine):
    host = machine({"/proc/device-tree/compatible": "radxa,rock-5b\0rockchip,rk3588\0"})
    assert accelerators.compatible(host) == ("radxa,rock-5b", "rockchip,rk3588")
    assert accelerators.compatible(machine({"/proc/device-tree/compatible": ""})) == ()
