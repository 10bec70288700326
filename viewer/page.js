"use strict";
// Drawing, the pointer and keys; the start.

function draw() {
  const shown = decision(), entity = selected(), weights = attentionOf(shown, entity);
  if (!$("scene").hidden) drawScene(entity, weights);
  const frame = $("frame");
  frame.hidden = shown.frame === null || shown.camera !== null || !$("background").checked;
  if (!frame.hidden && frame.src !== data.frames[shown.frame]) frame.src = data.frames[shown.frame];
  drawLegend();
  drawCurves();
  drawPanel(entity, weights);
  drawTable(entity, weights);
  $("slider").value = state.step;
  let total = 0;
  for (let step = 0; step <= state.step; step++) {
    const past = data.steps[step][state.lane];
    if (past.episode === shown.episode && (past.active || past.step)) total += past.reward;
  }
  const value = shown.value === null ? "" : `, value ${format(shown.value)}`;
  $("clock").textContent = `episode ${shown.episode}, step ${shown.step}, return ${format(total)}${value}`;
}

function go(step) {
  state.step = Math.max(0, Math.min(data.steps.length - 1, step));
  draw();
}

function play(on = !state.playing) {
  clearInterval(state.playing);
  state.playing = 0;
  if (on) {
    if (state.step === data.steps.length - 1) state.step = -1;
    state.playing = setInterval(() => (state.step < data.steps.length - 1 ? go(state.step + 1) : play(false)), 1000 / +$("speed").value);
  }
  $("play").textContent = on ? "❚❚" : "▶";
}

const key = (entity) => entity && { type: entity.type, place: entity.place };
const same = (one, other) => one === other || (one && other && one.type === other.type && one.place === other.place);

function hover(entity) {
  if (same(state.hovered, key(entity))) return;
  state.hovered = key(entity);
  draw();
}

function hold(entity) {
  state.held = same(state.held, key(entity)) ? null : key(entity);
  draw();
}

function under(event) {
  const box = $("scene").getBoundingClientRect();
  const [x, y] = [event.clientX - box.left, event.clientY - box.top];
  const near = places.map((place) => [Math.hypot(place.x - x, place.y - y), place.entity]).filter(([distance]) => distance < 16);
  return near.length ? near.reduce((one, other) => (other[0] < one[0] ? other : one))[1] : null;
}

function neighbour(by) {
  const list = entitiesOf(decision()).filter((entity) => entity.type < data.types.length - 1 || hasWhole());
  const place = list.findIndex((entity) => entity.index === selected().index);
  state.hovered = null;
  state.held = key(list[(place + by + list.length) % list.length]);
  draw();
}

function nextHead() {
  $("head").selectedIndex = ($("head").selectedIndex + 1) % $("head").options.length;
  $("head").onchange();
}

const KEYS = {
  " ": () => play(), ArrowLeft: () => go(state.step - 1), ArrowRight: () => go(state.step + 1), Home: () => go(0),
  End: () => go(data.steps.length - 1), n: () => neighbour(1), p: () => neighbour(-1), a: nextHead,
  Escape: () => { state.held = state.hovered = null; draw(); },
};

function listen() {
  $("play").onclick = () => play();
  $("slider").oninput = () => go(+$("slider").value);
  $("scene").onmousemove = (event) => hover(under(event));
  $("scene").onmouseleave = () => hover(null);
  $("scene").onclick = (event) => { const entity = under(event); if (entity) hold(entity); };
  $("curves").onclick = (event) => {
    const box = $("curves").getBoundingClientRect();
    go(Math.round((event.clientX - box.left - 8) / (box.width - 16) * (data.steps.length - 1)));
  };
  $("table").onmouseleave = () => hover(null);
  $("tables").ontoggle = draw;
  $("background").onchange = draw;
  $("lane").onchange = () => { state.lane = +$("lane").value; state.held = state.hovered = null; draw(); };
  $("head").onchange = () => { [state.layer, state.head] = $("head").value.split(",").map(Number); draw(); };
  $("speed").onchange = () => { if (state.playing) play(true); };
  window.onresize = draw;
  document.onkeydown = (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.tagName === "SELECT" || !KEYS[event.key]) return;
    if (event.target.tagName === "BUTTON" && event.key === " ") return;
    event.preventDefault();
    KEYS[event.key]();
  };
}

function start() {
  const [layers, heads] = data.attention;
  const option = (value, text) => element("option", { value }, text);
  $("lane").append(...data.lanes.map((name, lane) => option(lane, name)));
  $("lane").parentElement.hidden = data.lanes.length < 2;
  $("head").append(option("-1,-1", "all layers and heads"));
  for (let layer = 0; layer < layers; layer++) {
    for (let head = 0; head < heads; head++) $("head").append(option(`${layer},${head}`, `layer ${layer}, head ${head}`));
  }
  $("head").parentElement.hidden = !layers;
  $("background").parentElement.hidden = !data.frames.length;
  $("speed").append(...[2, 5, 15, 30].map((rate) => option(rate, `${rate} steps per second`)));
  $("speed").value = 5;
  $("slider").max = data.steps.length - 1;
  $("about").textContent = `${data.policy || "Recorded play"}, ${data.steps.length} steps`;
  $("scene").hidden = !data.types.some((type) => type.position);
  $("tables").open = $("scene").hidden;
  listen();
  draw();
  document.body.dataset.ready = "true";
}

async function unpack() {
  const packed = Uint8Array.from(atob($("data").textContent), (letter) => letter.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  data = await new Response(stream).json();
  start();
}

unpack().catch((error) => { $("about").textContent = `This page can't be shown: ${error}. It needs a browser of 2023 or later.`; });
