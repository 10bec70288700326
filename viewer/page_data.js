"use strict";
// What a step holds. The page's program only sets text, never HTML: names come from environments.
// An entity's index counts through the types, as in the observation; the last one is the step as a whole.

const $ = (id) => document.getElementById(id);
const state = { step: 0, lane: 0, layer: -1, head: -1, hovered: null, held: null, playing: 0, frame: null };
let data; // see page.py

function element(tag, properties = {}, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}

function format(number) {
  if (number === null) return "not finite";
  return Number.isInteger(number) ? String(number) : String(+number.toPrecision(4));
}

const percent = (share) => `${(100 * share).toFixed(1)} %`;

function bar(name, share, number, kind = "") {
  const fill = element("div", { className: "fill" });
  fill.style.width = `${100 * Math.min(1, Math.max(0, share))}%`;
  const row = element("div", { className: `bar ${kind}` },
    element("span", { className: "name", title: name }, name),
    element("div", { className: "track" }, fill),
    element("span", { className: "number" }, number));
  return row;
}

const decision = () => data.steps[state.step][state.lane];

/** The entities of a decision in the order of their indices, and last the step as a whole. */
function entitiesOf(shown) {
  if (shown.list) return shown.list;
  const list = [];
  shown.entities.forEach((rows, type) => rows.forEach((features, place) => list.push({ type, place, features })));
  list.push({ type: data.types.length - 1, place: 0, features: shown.globals });
  list.forEach((entity, index) => {
    const position = data.types[entity.type].position;
    entity.index = index;
    entity.at = position && position.map((column) => entity.features[column]);
  });
  return (shown.list = list);
}

const nameOf = (entity) =>
  entity.type === data.types.length - 1 ? "whole step" : `${data.types[entity.type].name} ${entity.place}`;
const colourOf = (entity) => data.colours[entity.type % data.colours.length];

/** Whether the step as a whole has a row of its own to look at. */
const hasWhole = () => data.types.at(-1).features.length > 0 || data.actions.some((action) => action.global);

/** The entity that the panel is about: under the pointer, held, or the first that acts. */
function selected() {
  const shown = decision(), list = entitiesOf(shown);
  for (const key of [state.hovered, state.held]) {
    const found = key && list.find((entity) => entity.type === key.type && entity.place === key.place);
    if (found) return found;
  }
  const acting = shown.actions.find((action) => action.actors.length);
  if (!acting) return list.length > 1 ? list[0] : list.at(-1);
  return acting.actors[0] < 0 ? list.at(-1) : list[acting.actors[0]];
}

/** The weights with which an entity reads the others, by their index; null without attention. */
function attentionOf(shown, entity) {
  const given = shown.attention;
  if (!given) return null;
  if (!given.values) {
    const bytes = Uint8Array.from(atob(given.pairs), (letter) => letter.charCodeAt(0));
    given.values = given.bytes === 1 ? bytes : new Uint16Array(bytes.buffer);
  }
  const whole = entitiesOf(shown).length - 1;
  const places = given.rows.map((index) => (index < 0 ? whole : index));
  const row = places.indexOf(entity.index), n = places.length;
  if (row < 0) return null;
  const [layers, heads] = data.attention, weights = new Map();
  let used = 0;
  for (let layer = 0; layer < layers; layer++) {
    for (let head = 0; head < heads; head++) {
      if ((state.layer >= 0 && layer !== state.layer) || (state.head >= 0 && head !== state.head)) continue;
      used += 1;
      const start = ((layer * heads + head) * n + row) * given.k * 2;
      for (let i = start; i < start + 2 * given.k; i += 2) {
        const to = places[given.values[i]];
        weights.set(to, (weights.get(to) || 0) + given.values[i + 1] / 255);
      }
    }
  }
  for (const [to, weight] of weights) weights.set(to, weight / used);
  return weights;
}

/** What an actor chose, in words; null if it does not act. */
function choiceOf(shown, number, entity) {
  const about = data.actions[number], action = shown.actions[number];
  const whole = entitiesOf(shown).length - 1;
  const actor = action.actors.findIndex((index) => (index < 0 ? whole : index) === entity.index);
  if (actor < 0 || actor >= action.chosen.length) return null;
  const chosen = action.chosen[actor];
  if (about.kind === "discrete") return { actor, words: about.choices[chosen] };
  if (about.kind === "continuous") return { actor, words: chosen.map(format).join(", ") };
  if (about.kind === "select-entity") {
    const target = entitiesOf(shown)[chosen];
    return { actor, words: target ? nameOf(target) : "nothing", target };
  }
  const used = about.used[chosen[0]];
  const words = about.components.filter((_, m) => used[m]).map((component) => component.choices[chosen[about.components.indexOf(component)]]);
  return { actor, words: words.join(" ") };
}
