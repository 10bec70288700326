"use strict";
// The scene of a step, and the curves of all steps.

const bounds = []; // per lane the region of all positions: left, top, width, height in the units of positions
const pictures = new Map(); // frame -> its image, once it is needed
let places = []; // where the entities of this step are drawn: {entity, x, y}

function boundsOf(lane) {
  if (bounds[lane]) return bounds[lane];
  let [left, right, low, high] = [Infinity, -Infinity, Infinity, -Infinity];
  for (const step of data.steps) {
    for (const { at } of entitiesOf(step[lane])) {
      if (!at || at.includes(null)) continue;
      left = Math.min(left, at[0]); right = Math.max(right, at[0]);
      low = Math.min(low, at[1]); high = Math.max(high, at[1]);
    }
  }
  if (left > right) [left, right, low, high] = [0, 1, 0, 1];
  const extent = 1.15 * Math.max(right - left, high - low) || 1;
  const downwards = data.types.some((type) => type.downwards);
  const x = (left + right - extent) / 2, y = (low + high - extent) / 2;
  return (bounds[lane] = [x, downwards ? y + extent : y, extent, downwards ? -extent : extent]);
}

/** A canvas of the size at which it is shown, cleared, and its pen. */
function cleared(canvas) {
  const box = canvas.getBoundingClientRect(), scale = window.devicePixelRatio || 1;
  canvas.width = Math.round(box.width * scale);
  canvas.height = Math.round(box.height * scale);
  const pen = canvas.getContext("2d");
  pen.scale(scale, scale);
  return [pen, box.width, box.height];
}

function imageOf(number) {
  if (!pictures.has(number)) {
    const image = new Image();
    image.onload = draw;
    image.src = data.frames[number];
    pictures.set(number, image);
  }
  return pictures.get(number);
}

/** Whether the scene is what a frame shows; otherwise it is the region of all positions. */
const hasFrame = (shown) => shown.frame !== null && shown.camera !== null && $("background").checked;

function placeEntities(shown, width, height) {
  const list = entitiesOf(shown).filter((entity) => entity.type < data.types.length - 1 || hasWhole());
  const [left, bottom, across, up] = hasFrame(shown) ? shown.camera : boundsOf(state.lane);
  const lonely = list.filter((entity) => !entity.at), most = Math.floor((width - 20) / 26);
  const strip = Math.min(lonely.length, 2 * most); // entities without a position stand below, in up to two lines
  const ground = height - (strip ? 22 + 26 * Math.ceil(strip / most) : 0);
  places = [];
  for (const entity of list) {
    if (!entity.at) continue;
    const x = ((entity.at[0] - left) / across) * width;
    const y = (1 - (entity.at[1] - bottom) / up) * ground;
    const [nearX, nearY] = [Math.max(4, Math.min(width - 4, x)), Math.max(4, Math.min(ground - 4, y))];
    places.push({ entity, x: nearX, y: nearY, outside: Math.hypot(x - nearX, y - nearY) > 12 }); // small, at the edge
  }
  lonely.slice(0, strip).forEach((entity, i) =>
    places.push({ entity, x: 22 + 26 * (i % most), y: ground + 22 + 26 * Math.floor(i / most), square: true }));
  return ground;
}

function drawScene(chosen, weights) {
  const shown = decision(), [pen, width, height] = cleared($("scene"));
  const ground = placeEntities(shown, width, height);
  const where = new Map(places.map((place) => [place.entity.index, place]));
  if (hasFrame(shown)) {
    pen.imageSmoothingEnabled = false;
    pen.globalAlpha = 0.75;
    const image = imageOf(shown.frame);
    if (image.complete) pen.drawImage(image, 0, 0, width, ground);
    pen.globalAlpha = 1;
  }
  if (ground < height) {
    pen.strokeStyle = "#39424c";
    pen.strokeRect(-1, ground, width + 2, height);
  }
  const usual = Math.max(3, Math.min(9, 90 / Math.sqrt(places.length + 1)));
  const most = weights ? Math.max(...weights.values(), 1e-9) : 1, from = where.get(chosen.index);
  for (const { entity, x, y } of places) { // lines of attention, below the entities
    const weight = weights && weights.get(entity.index);
    if (!from || !weight) continue;
    pen.strokeStyle = `rgba(255, 255, 255, ${0.1 + 0.8 * weight / most})`;
    pen.lineWidth = 0.5 + 8 * weight;
    pen.beginPath(); pen.moveTo(from.x, from.y); pen.lineTo(x, y); pen.stroke();
  }
  for (const { entity, x, y, square, outside } of places) {
    const size = outside ? usual / 2 : usual;
    const weight = weights ? (weights.get(entity.index) || 0) / most : 0;
    pen.beginPath();
    if (square) pen.rect(x - size, y - size, 2 * size, 2 * size);
    else pen.arc(x, y, size, 0, 7);
    pen.globalAlpha = shown.hidden.includes(entity.index) ? 0.3 : 1;
    pen.lineWidth = 4; pen.strokeStyle = "#000"; pen.stroke();
    pen.globalAlpha *= 0.25 + 0.75 * weight; pen.fillStyle = colourOf(entity); pen.fill();
    pen.globalAlpha = shown.hidden.includes(entity.index) ? 0.3 : 1;
    pen.lineWidth = 2; pen.strokeStyle = colourOf(entity); pen.stroke();
    pen.globalAlpha = 1;
    if (entity.index === chosen.index) {
      pen.beginPath(); pen.arc(x, y, size + 5, 0, 7);
      pen.lineWidth = 2; pen.strokeStyle = "#fff"; pen.stroke();
    }
  }
  drawChoices(pen, shown, where, chosen, usual);
}

function drawLegend() {
  const counts = decision().entities.map((rows) => rows.length);
  $("legend").replaceChildren(...data.types.slice(0, -1).map((type, number) => {
    const dot = element("span", { className: "dot" });
    dot.style.background = data.colours[number % data.colours.length];
    return element("span", { className: counts[number] ? "" : "masked" }, dot, `${type.name} ${counts[number]}`);
  }));
}

/** Words beside those that act, and dashed lines to the entities that they select. */
function drawChoices(pen, shown, where, chosen, size) {
  const actors = places.filter(({ entity }) => data.actions.some((_, number) => choiceOf(shown, number, entity)));
  pen.font = "12px system-ui, sans-serif";
  for (const place of actors) {
    const words = [];
    data.actions.forEach((_, number) => {
      const choice = choiceOf(shown, number, place.entity);
      if (!choice) return;
      const target = choice.target && where.get(choice.target.index);
      if (!target) { words.push(choice.words); return; }
      pen.strokeStyle = "#E69F00"; pen.lineWidth = 2; pen.setLineDash([6, 4]);
      pen.beginPath(); pen.moveTo(place.x, place.y); pen.lineTo(target.x, target.y); pen.stroke();
      pen.setLineDash([]);
    });
    if (!words.length || (actors.length > 12 && place.entity.index !== chosen.index)) continue;
    pen.lineWidth = 3; pen.strokeStyle = "#000"; pen.fillStyle = "#fff";
    const text = words.join(", "), x = Math.min(place.x + size + 6, $("scene").clientWidth - pen.measureText(text).width - 4);
    pen.strokeText(text, x, place.y - size - 3); pen.fillText(text, x, place.y - size - 3);
  }
}

function drawCurves() {
  const [pen, width, height] = cleared($("curves"));
  const of = data.steps.map((step) => step[state.lane]), n = Math.max(1, of.length - 1);
  const x = (step) => 8 + (width - 16) * step / n;
  let [low, high] = [0, 0]; // in a loop: functions take no 100,000 arguments
  for (const { value, reward } of of) {
    low = Math.min(low, value ?? 0, reward ?? 0);
    high = Math.max(high, value ?? 0, reward ?? 0);
  }
  const range = high - low || 1;
  const y = (value) => 22 + (height - 30) * (high - value) / range;
  pen.font = "11px system-ui, sans-serif";
  pen.fillStyle = data.colours[1]; pen.fillText(of.some((s) => s.value !== null) ? "value" : "", 8, 13);
  pen.fillStyle = data.colours[0]; pen.fillText("reward", 48, 13);
  pen.fillStyle = "#9aa6b2"; pen.fillText(`${format(low)} to ${format(high)}`, 100, 13);
  pen.strokeStyle = "#39424c"; pen.lineWidth = 1;
  const line = (x1, y1, x2, y2) => { pen.beginPath(); pen.moveTo(x1, y1); pen.lineTo(x2, y2); pen.stroke(); };
  line(8, y(0), width - 8, y(0));
  of.forEach((shown, step) => { if (shown.ended && step < n) line(x(step + 0.5), 18, x(step + 0.5), height); });
  pen.strokeStyle = data.colours[0]; pen.lineWidth = 2;
  of.forEach((shown, step) => { if (shown.reward) line(x(step), y(0), x(step), y(shown.reward)); });
  pen.strokeStyle = data.colours[1]; pen.lineWidth = 1.5; pen.beginPath();
  let down = false;
  of.forEach((shown, step) => {
    if (shown.value === null || (step && of[step - 1].ended)) down = false;
    if (shown.value === null) return;
    if (down) pen.lineTo(x(step), y(shown.value)); else pen.moveTo(x(step), y(shown.value));
    down = true;
  });
  pen.stroke();
  pen.strokeStyle = "#fff"; pen.lineWidth = 1; line(x(state.step), 16, x(state.step), height);
}
