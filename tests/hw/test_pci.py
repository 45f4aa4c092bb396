from edgeopt.hw import accelerators

IDS = """# a comment
1002  Advanced Micro Devices, Inc. [AMD/ATI]
\t744c  Navi 31 [Radeon RX 7900 XT/7900 XTX/7900 GRE/7900M]
\t\t1002 0e3b  RX 7900 GRE [XFX]
8086  Intel Corporation
\t643e  Lunar Lake NPU
8088  Beijing Wangxun Technology Co., Ltd.
\t0100  WX1860AL-W Gigabit Ethernet Controller
"""


def test_devices_are_read_from_their_uevent(machine):
    place = "/sys/bus/pci/devices/0000:01:00.0"
    host = machine({f"{place}/uevent": "DRIVER=nvidia\nPCI_CLASS=30200\nPCI_ID=10DE:20B2\n"})
    assert accelerators.pci_devices(host) == (
        accelerators.PciDevice("0000:01:00.0", "10de", "20b2", 0x30200, "nvidia"),
    )


def test_what_is_no_device_is_left_out(machine):
    host = machine({"/sys/bus/pci/devices/x/uevent": "PCI_ID=zz\n", "/sys/bus/pci/devices/y/uevent": "\0\0"})
    assert accelerators.pci_devices(host) == ()


def test_the_name_on_the_box_and_the_name_of_the_chip(machine):
    host = machine({"/usr/share/misc/pci.ids": IDS})
    assert accelerators.pci_name(host, "1002", "744c") == (
        "Radeon RX 7900 XT/7900 XTX/7900 GRE/7900M",
        "/usr/share/misc/pci.ids",
    )
    assert accelerators.pci_name(host, "8086", "643e") == ("Lunar Lake NPU", "/usr/share/misc/pci.ids")


def test_a_device_of_the_next_maker_is_not_taken_for_it(machine):
    host = machine({"/usr/share/hwdata/pci.ids": IDS})
    assert accelerators.pci_name(host, "8086", "0100") is None
    assert accelerators.pci_name(host, "dead", "beef") is None
