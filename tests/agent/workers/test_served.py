import json

import onnx
from onnx import TensorProto, helper

from edgeopt.bundle.runtime.session import load
from edgeopt_agent.workers.child_io import Frame
from edgeopt_agent.workers.frames import Infer, Load, Port, Signature
from edgeopt_agent.workers.sequences import Sequences
from edgeopt_agent.workers.served import Served


def test_strings_that_a_runtime_cannot_hold_are_the_fault_of_the_request(tmp_path):
    value = [helper.make_tensor_value_info(name, TensorProto.STRING, [None]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "g", value[:1], value[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, tmp_path / "strings.onnx")
    with load(tmp_path / "strings.onnx") as session:
        ports = (Port("x", "str", (None,)),), (Port("y", "str", (None,)),)
        loaded = Load(str(tmp_path), "a", 1 << 20, 1 << 20)
        served = Served(session, loaded, "strings", Signature(*ports), Sequences(session, {}, 0, 0.0))

        def ask(data):
            size = {"binary_data_size": len(data)}
            x = {"name": "x", "datatype": "BYTES", "shape": [1], "parameters": size}
            text = json.dumps({"inputs": [x]}).encode()
            return served.answer(Frame(Infer(), memoryview(text), memoryview(data)))

        answered, text, _ = ask(b"\x02\0\0\0a\xff")
        assert (answered.status, answered.fault) == (400, False)
        assert "not UTF-8" in json.loads(text)["error"]
        assert ask(b"\x02\0\0\0\xc3\xa4")[0].status == 200
