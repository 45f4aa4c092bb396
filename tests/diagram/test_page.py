import json
import re
import shutil
import subprocess
from xml.etree import ElementTree as ET

import pytest

from edgeopt.diagram.colours import colourings
from edgeopt.diagram.page import PageGraph, escape, page, shortened, svg
from edgeopt.diagram.scene import Layout, diagram_of
from tests.diagram.models import branching, chain, net

# What the page uses of a browser, so far that every function of its script runs once.
BROWSER = """
const pen = new Proxy({}, { get: (_, name) => name === "measureText" ? (t) => ({ width: t.length * 7 }) : () => {},
  set: () => true });
const made = {};
const element = (id) => made[id] ??= { id, children: [], style: {}, value: "", clientWidth: 900, clientHeight: 600,
  textContent: "", getContext: () => pen, addEventListener(kind, f) { this["on" + kind] = f; },
  replaceChildren(...all) { this.children = all; }, append() {}, setAttribute() {}, setPointerCapture() {},
  insertRow: () => element("row" + Math.random()), insertCell: () => element("cell" + Math.random()) };
globalThis.document = { getElementById: element, createElement: (kind) => element(kind + Math.random()),
  documentElement: {} };
element("data").textContent = process.argv[2];
globalThis.getComputedStyle = () => ({ getPropertyValue: () => "#000000" });
globalThis.window = { devicePixelRatio: 1, addEventListener() {} };
globalThis.matchMedia = () => ({ addEventListener() {} });
globalThis.requestAnimationFrame = (f) => f();
globalThis.Option = function Option() {};
"""
DRIVE = """
canvas.onpointerdown({ pointerId: 1, offsetX: 5, offsetY: 5 });
canvas.onpointermove({ offsetX: 60, offsetY: 60 });
canvas.onpointerup({ offsetX: 60, offsetY: 60 });
for (const key of ["ArrowDown", "ArrowDown", "ArrowUp", "ArrowLeft", "ArrowRight", "+", "-", "0"])
  canvas.onkeydown({ key, preventDefault() {} });
canvas.onwheel({ deltaY: -200, offsetX: 10, offsetY: 10, preventDefault() {} });
for (const level of [0.05, 0.2, 0.5, 1]) { scale = level; left = top_ = -50; draw(); }
byId("search").value = "relu";
search(false);
const found = byId("hits").textContent;
search(true);
model.colourings.forEach((_, at) => colourBy(at));
console.log(JSON.stringify({ found, hits: byId("hits").textContent, picked: model.boxes[picked][5] }));
"""


def drawn(model, name="a model"):
    diagram = diagram_of(*model)
    scene = Layout(diagram).scene(frozenset(diagram.groups()))
    return PageGraph(name, diagram, scene, colourings(diagram.nodes))


def data_of(text):
    return json.loads(re.search(r'<script id="data"[^>]*>(.*?)</script>', text, re.DOTALL).group(1))


def test_the_page_holds_every_box_with_its_facts():
    (model,) = data_of(page("a model", [drawn(branching())]))
    operators = [box[5] for box in model["boxes"] if box[4] == "node"]
    assert sorted(operators) == ["Abs", "Neg", "Neg", "Relu", "Relu"]
    assert len(model["facts"]) == len(model["boxes"])
    assert ["Operator", "Abs"] in model["facts"][[box[5] for box in model["boxes"]].index("Abs")]


def test_lines_name_the_boxes_that_they_connect():
    (model,) = data_of(page("a model", [drawn(chain(3, "A B C"))]))
    assert [(line["s"], line["t"]) for line in model["lines"]] == [(0, 1), (1, 2), (2, 3), (3, 4)]


def test_names_cannot_end_the_script_or_the_page():
    text = page("<b>", [drawn(net(("</script><script>alert(1)", "Relu", "x", "y"), gives="y"))])
    assert text.count("</script>") == 2
    assert "<title>&lt;b&gt;</title>" in text


def test_the_page_loads_nothing():
    text = page("a model", [drawn(chain(3))])
    assert not re.search(r"https?://(?!www\.w3\.org)", text)
    assert "default-src &#x27;none&#x27;" in text


def ran(tmp_path, text, drive):
    """What the script of a page prints when it is driven."""
    script = re.search(r"<script>\n(.*?)</script>", text, re.DOTALL).group(1)
    data = re.search(r'<script id="data"[^>]*>(.*?)</script>', text, re.DOTALL).group(1)
    file = tmp_path / "page.js"
    file.write_text(
        f"{BROWSER}\n{script.replace(chr(34) + 'use strict' + chr(34) + ';', '')}\n{drive}".replace(
            'pen = canvas.getContext("2d")', "pen_ = 0"
        )
    )
    run = subprocess.run([shutil.which("node"), file, data], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


@pytest.mark.skipif(shutil.which("node") is None, reason="runs the page's script, which needs node")
def test_the_script_runs(tmp_path):
    text = page("two", [drawn(chain(27, "Conv Relu Add Mul Sigmoid Sub Div Abs Neg"), "one"), drawn(branching())])
    assert ran(tmp_path, text, DRIVE) == {"found": "3 found", "hits": "1 of 3", "picked": "Relu"}


def svg_of(model, opened=()) -> str:
    diagram = diagram_of(*model)
    return svg(diagram, Layout(diagram).scene(opened), colourings(diagram.nodes)[0], "a model")


def test_the_picture_is_xml_with_a_box_for_each_node():
    tree = ET.fromstring(svg_of(chain(3, "Conv Relu Add")))  # noqa: S314 - our own text
    texts = [text.text for text in tree.iter("{http://www.w3.org/2000/svg}text")]
    assert {"Conv", "Relu", "Add", "n0", "n1", "n2", "x", "t2"} <= set(texts)


def test_names_with_markup_are_text():
    text = svg_of(net(("<b>&", "Conv", "x", "y"), gives="y"))
    ET.fromstring(text)  # noqa: S314 - our own text
    assert "&lt;b&gt;&amp;" in text


def test_open_groups_are_frames():
    diagram = diagram_of(*branching())
    text = svg_of(branching(), frozenset(diagram.groups()))
    assert text.count('class="frame"') == 3


def test_long_names_are_cut_in_their_middle():
    assert shortened("encoder_layer_0_attention", 11) == "encod…ntion"


def test_names_hold_no_control_characters_or_marks_that_turn_the_direction():
    shown = escape("\x1b[2J\u202e<&\nnext")
    assert shown == "\\x1b[2J\\u202e&lt;&amp;\nnext"
