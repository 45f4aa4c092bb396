"""NPUs: by the kernel's class for them, by the device nodes of older drivers, by the bus where no driver is."""

from edgeopt.hw.accelerators import gather
from edgeopt.hw.device import Facts, Unavailable
from edgeopt.hw.host import Host
from edgeopt.hw.probes.npu import accel, apple, buses, nodes, windows


def probe(host: Host) -> Facts | Unavailable:
    match host.call("platform", "system"):
        case "Darwin":
            return gather("npu", (apple.find(host),), "only Apple silicon has a Neural Engine")
        case "Windows":
            return gather("npu", (windows.find(host),), "Windows lists no device of the class ComputeAccelerator")
        case _:
            return _linux(host)


def _linux(host: Host) -> Facts | Unavailable:
    by_class = accel.find(host)
    by_node = nodes.find(host, frozenset(str(sheet.values.get("driver")) for sheet in by_class.sheets))
    driven = (*by_class.sheets, *by_node.sheets)
    seen = frozenset(sheet.slot for sheet in driven if sheet.slot)
    by_bus = buses.find(
        host, seen, frozenset(str(sheet.values.get("vendor")) for sheet in driven if not sheet.slot)
    )
    nothing = f"no compute accelerator ({accel.FOLDER}), no device node and no PCI or USB device of a known NPU"
    return gather("npu", (by_class, by_node, by_bus), nothing)
