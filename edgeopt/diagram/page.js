"use strict";
const models = JSON.parse(document.getElementById("data").textContent);
const canvas = document.getElementById("graph"), pen = canvas.getContext("2d");
const byId = (id) => document.getElementById(id);
let model, colouring, scale = 1, left = 0, top_ = 0, picked = -1, hits = [], hit = -1, waiting = false;
let beside = false;
const pane = () => canvas.clientWidth / (beside ? models.length : 1);
const READABLE = 0.4, PLAIN = 0.15;
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function draw() {
  waiting = false;
  const ratio = window.devicePixelRatio || 1;
  canvas.width = canvas.clientWidth * ratio;
  canvas.height = canvas.clientHeight * ratio;
  const active = model;
  (beside ? models : [active]).forEach((each, at) => {
    const found = each === active ? hits : [];
    // The other side has its own boxes, and the counterpart of what is selected.
    const own = [model, colouring, picked];
    if (each !== active) { picked = picked < 0 ? -1 : active.partners[picked]; model = each; colouring = same(each); }
    drawPane(at * pane(), ratio, new Set(found));
    [model, colouring, picked] = own;
  });
}

function drawPane(x, ratio, found) {
  pen.setTransform(ratio, 0, 0, ratio, x * ratio, 0);
  pen.save();
  pen.beginPath();
  pen.rect(0, 0, pane(), canvas.clientHeight);
  pen.clip();
  if (beside) {
    pen.font = "bold 12px system-ui, sans-serif";
    pen.textAlign = "left";
    pen.fillStyle = colour("--quiet");
    pen.fillText(cut(model.name, pane() - 16), 8, 16);
    if (x) { pen.fillStyle = colour("--edge"); pen.fillRect(0, 0, 1, canvas.clientHeight); }
  }
  pen.setTransform(ratio * scale, 0, 0, ratio * scale, (x - left * scale) * ratio, -top_ * ratio * scale);
  const view = { left, top: top_, right: left + pane() / scale, bottom: top_ + canvas.clientHeight / scale };
  const seen = ([x, y, w, h]) => x < view.right && x + w > view.left && y < view.bottom && y + h > view.top;
  const paint = { text: colour("--text"), edge: colour("--edge"), back: colour("--back"), quiet: colour("--quiet"),
    mark: colour("--mark"), hit: colour("--hit") };
  model.boxes.forEach((box, at) => { if (box[4] === "frame" && seen(box)) frame(box, at, paint); });
  drawLines(view, paint);
  model.boxes.forEach((box, at) => { if (box[4] !== "frame" && seen(box)) node(box, at, found.has(at), paint); });
  pen.restore();
}

function frame(box, at, paint) {
  rounded(box, 8);
  pen.fillStyle = colour("--frame");
  pen.fill();
  pen.strokeStyle = at === picked ? paint.mark : paint.edge;
  pen.lineWidth = (at === picked ? 2.5 : 1) / scale;
  pen.stroke();
  if (scale >= READABLE) {
    pen.font = "11px system-ui, sans-serif";
    pen.textAlign = "left";
    pen.fillStyle = paint.quiet;
    pen.fillText(cut(box[5], box[2] - 16), box[0] + 8, box[1] + 16);
  }
}

function drawLines(view, paint) {
  for (const strong of [false, true]) {
    pen.beginPath();
    for (const line of model.lines) {
      if ((picked >= 0 && (line.s === picked || line.t === picked)) !== strong) continue;
      const k = line.k, last = k.length - 1;
      if (k[1] <= k[last] && (k[1] > view.bottom || k[last] < view.top)) continue;
      pen.moveTo(k[0], k[1]);
      for (let i = 2; i < k.length; i += 2) {
        if (Math.abs(k[i] - k[i - 2]) < 0.5) { pen.lineTo(k[i], k[i + 1]); continue; }
        const middle = (k[i + 1] + k[i - 1]) / 2;
        pen.bezierCurveTo(k[i - 2], middle, k[i], middle, k[i], k[i + 1]);
      }
    }
    pen.strokeStyle = strong ? paint.mark : colour("--line");
    pen.lineWidth = strong ? Math.max(2.2, 1.5 / scale) : Math.max(1.1, 0.5 / scale);
    pen.stroke();
  }
  if (scale < 0.6) return;
  pen.font = "10px system-ui, sans-serif";
  pen.textAlign = "left";
  pen.fillStyle = paint.quiet;
  const named = new Set();
  for (const line of model.lines) {
    const key = line.s + " " + line.v;
    if (line.s < 0 || !line.v || named.has(key) || line.k[1] > view.bottom || line.k[1] < view.top) continue;
    named.add(key);
    pen.fillText(line.v, line.k[0] + 4, line.k[1] + 11);
  }
}

function node(box, at, found, paint) {
  const fill = colouring && colouring.fills[at], full = fill && colouring.solid[at];
  if (scale < PLAIN) {
    pen.fillStyle = fill || paint.edge;
    pen.fillRect(box[0], box[1], box[2], box[3]);
  } else {
    rounded(box, box[4] === "end" ? box[3] / 2 : 5);
    pen.fillStyle = full ? fill : paint.back;
    pen.fill();
    if (fill && !full) { pen.fillStyle = fill; pen.fillRect(box[0] + 2, box[1] + 4, 7, box[3] - 8); }
  }
  if (scale >= PLAIN || at === picked || found) {
    rounded(box, box[4] === "end" ? box[3] / 2 : 5);
    pen.strokeStyle = at === picked ? paint.mark : found ? paint.hit : paint.edge;
    pen.lineWidth = (at === picked || found ? 3 : 1) / scale;
    pen.stroke();
  }
  if (scale < READABLE) return;
  const second = full && colouring.amounts && colouring.texts[at] ? colouring.texts[at] : box[6];
  const middle = box[0] + box[2] / 2 + (fill && !full ? 3 : 0), room = box[2] - 18;
  pen.textAlign = "center";
  pen.fillStyle = full ? (light(fill) ? "#1d2126" : "#ffffff") : paint.text;
  pen.font = "12px system-ui, sans-serif";
  pen.fillText(cut(box[5], room), middle, box[1] + (second ? 17 : box[3] / 2 + 4));
  if (!second) return;
  pen.font = "10px system-ui, sans-serif";
  pen.globalAlpha = 0.75;
  pen.fillText(cut(second, room), middle, box[1] + 31);
  pen.globalAlpha = 1;
}

const light = (c) => [1, 3, 5].reduce((sum, i) => sum + parseInt(c.slice(i, i + 2), 16), 0) > 420;

function rounded([x, y, w, h], radius) {
  pen.beginPath();
  pen.roundRect(x, y, w, h, Math.min(radius, w / 2, h / 2));
}

// In the middle, where long names differ least.
function cut(text, room) {
  if (pen.measureText(text).width <= room) return text;
  let half = Math.floor(text.length / 2);
  while (half > 1 && pen.measureText(text.slice(0, half) + "…" + text.slice(-half)).width > room) half -= 1;
  return text.slice(0, half) + "…" + text.slice(-half);
}

function redraw() { if (!waiting) { waiting = true; requestAnimationFrame(draw); } }

function fit() {
  scale = Math.min(1, pane() / (model.width + 60), canvas.clientHeight / (model.height + 60));
  left = model.width / 2 - pane() / scale / 2;
  top_ = model.height / 2 - canvas.clientHeight / scale / 2;
  redraw();
}

function begin() {
  scale = Math.min(1, Math.max(0.5, pane() / (model.width + 60)));
  const first = model.boxes[0];
  left = (first ? first[0] + first[2] / 2 : 0) - pane() / scale / 2;
  top_ = -30;
  redraw();
}

function zoom(factor, x, y) {
  const wished = Math.min(3, Math.max(0.01, scale * factor));
  left += x / scale - x / wished;
  top_ += y / scale - y / wished;
  scale = wished;
  redraw();
}

function pick(at, show) {
  picked = at;
  const table = document.createElement("table");
  for (const [name, value] of at >= 0 ? model.facts[at] : []) {
    const row = table.insertRow(), head = document.createElement("th");
    head.textContent = name;
    row.append(head);
    row.insertCell().textContent = value;
  }
  const hint = (model.what ? `${model.name}: ${model.what}. ` : "") + "Click a node. Drag to pan, use the wheel to zoom.";
  byId("details").replaceChildren(at >= 0 ? table : hint);
  if (show && at >= 0) {
    const [x, y, w, h] = model.boxes[at];
    if (scale < READABLE) scale = 0.9;
    left = x + w / 2 - pane() / scale / 2;
    top_ = y + h / 2 - canvas.clientHeight / scale / 2;
  }
  redraw();
}

function boxAt(x, y) {
  let found = -1;
  model.boxes.forEach(([l, t, w, h], at) => { if (x >= l && x <= l + w && y >= t && y <= t + h) found = at; });
  return found;
}

function step(key) {
  if (picked < 0) { pick(0, true); return; }
  const down = key === "ArrowDown", own = model.boxes[picked];
  const ways = model.lines.filter((line) => (down ? line.s : line.t) === picked).map((line) => (down ? line.t : line.s));
  const others = ways.filter((at) => at >= 0 && model.boxes[at][4] !== "frame");
  if (key === "ArrowDown" || key === "ArrowUp") {
    if (others.length) pick(others[0], true);
    return;
  }
  let best = -1, least = Infinity;
  model.boxes.forEach(([x, y, , h, kind], at) => {
    const way = key === "ArrowRight" ? x - own[0] : own[0] - x;
    if (kind !== "frame" && way > 0 && way < least && y < own[1] + own[3] && y + h > own[1]) { best = at; least = way; }
  });
  if (best >= 0) pick(best, true);
}

function search(next) {
  const wanted = byId("search").value.trim().toLowerCase();
  if (!next) {
    hits = [];
    hit = -1;
    if (wanted) model.boxes.forEach((box, at) => { if (box[7].toLowerCase().includes(wanted)) hits.push(at); });
  } else if (hits.length) {
    hit = (hit + 1) % hits.length;
    pick(hits[hit], true);
  }
  byId("hits").textContent = !wanted ? "" : hit >= 0 ? `${hit + 1} of ${hits.length}` : `${hits.length} found`;
  redraw();
}

// The colours of another model that stand for the same.
const same = (each) => each.colourings.find((other) => colouring && other.title === colouring.title);

function colourBy(at) {
  colouring = model.colourings[at];
  const shown = (beside ? models.map(same) : [colouring]).flatMap((each) => (each ? each.legend : []));
  const legend = new Map(shown.map((entry) => [entry.join(), entry]));
  byId("legend").replaceChildren(...[...legend.values()].map(([shade, word]) => {
    const entry = document.createElement("span"), square = document.createElement("i");
    square.style.background = shade;
    entry.append(square, word);
    return entry;
  }));
  redraw();
}

const nameOf = (at) => { const fact = model.facts[at].find(([name]) => name === "Name"); return fact && fact[1]; };

function show(at, chosen) {
  const title = colouring && colouring.title, name = model && picked >= 0 && nameOf(picked);
  const before = name && model.boxes[picked];
  model = models[at];
  [...byId("models").children].forEach((button, i) => button.setAttribute("aria-pressed", String(i === at)));
  byId("colours").replaceChildren(...model.colourings.map((each, i) => new Option(each.title, i)));
  const colours = Math.max(0, model.colourings.findIndex((each) => each.title === title));
  byId("colours").value = colours;
  colourBy(colours);
  if (chosen !== undefined) {
    pick(chosen);
    search(false);
    return;
  }
  const same_node = name ? model.boxes.findIndex((_, i) => nameOf(i) === name) : -1;
  pick(same_node);
  search(false);
  if (same_node < 0) { begin(); return; }
  // The selected node stays where it is on the screen.
  left += model.boxes[same_node][0] - before[0];
  top_ += model.boxes[same_node][1] - before[1];
  redraw();
}

if (models.length > 1) {
  byId("models").replaceChildren(...models.map((each, at) => {
    const button = document.createElement("button");
    button.textContent = each.name;
    button.onclick = () => show(at);
    return button;
  }));
}
// Laid out together: what belongs together has the same place in both.
byId("beside").hidden = models.length !== 2 || models.some((each) => !each.partners.length);
if (!byId("beside").hidden) {
  byId("beside").onclick = () => {
    beside = !beside;
    if (model === models[1]) show(0, picked < 0 ? -1 : model.partners[picked]);
    byId("beside").setAttribute("aria-pressed", String(beside));
    colourBy(model.colourings.indexOf(colouring));
    fit();
  };
}
byId("search").oninput = () => search(false);
byId("search").onkeydown = (event) => { if (event.key === "Enter") search(true); };
byId("colours").onchange = (event) => colourBy(Number(event.target.value));
byId("fit").onclick = fit;
let drag = null;
canvas.onpointerdown = (event) => {
  canvas.setPointerCapture(event.pointerId);
  drag = { x: event.offsetX, y: event.offsetY, left, top: top_, moved: false };
};
canvas.onpointermove = (event) => {
  if (!drag) return;
  drag.moved ||= Math.abs(event.offsetX - drag.x) + Math.abs(event.offsetY - drag.y) > 4;
  left = drag.left - (event.offsetX - drag.x) / scale;
  top_ = drag.top - (event.offsetY - drag.y) / scale;
  redraw();
};
canvas.onpointerup = (event) => {
  if (drag && !drag.moved) {
    const at = Math.floor(event.offsetX / pane()), x = event.offsetX - at * pane();
    if (beside && models[at] !== model) show(at, -1);
    pick(boxAt(left + x / scale, top_ + event.offsetY / scale));
  }
  drag = null;
};
canvas.addEventListener("wheel", (event) => {
  event.preventDefault();
  zoom(Math.pow(1.0015, -event.deltaY), event.offsetX % pane(), event.offsetY);
}, { passive: false });
canvas.onkeydown = (event) => {
  const middle = [pane() / 2, canvas.clientHeight / 2];
  if (event.key.startsWith("Arrow")) step(event.key);
  else if (event.key === "+" || event.key === "=") zoom(1.25, ...middle);
  else if (event.key === "-") zoom(0.8, ...middle);
  else if (event.key === "0") fit();
  else return;
  event.preventDefault();
};
window.addEventListener("resize", redraw);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
show(0);
if (!byId("beside").hidden) byId("beside").onclick();
