// The page: an agent plays, and a person can take over. `?game=meteors&episodes=100` plays so many episodes at once
// and writes their scores and the time per decision into #results.

import { GAMES, stepToDecision } from "./games.js";
import { OnnxAgent } from "./onnx_agent.js";
import { randomNumbers } from "./random.js";

const KEYS = { ArrowUp: "up", ArrowDown: "down", ArrowLeft: "left", ArrowRight: "right" };
const DIRECTIONS = { up: [0, -1], down: [0, 1], left: [-1, 0], right: [1, 0] }; // on the screen
const query = new URLSearchParams(location.search);
const element = (id) => document.getElementById(id);

const page = { key: null, held: new Set(), isPerson: false, choices: 0, seed: Number(query.get("seed") ?? 1) };

async function loadAgent(name) {
  return OnnxAgent.load(`agents/${name}`, randomNumbers(page.seed + 1_000_000));
}

/** Play whole episodes without drawing; return scores and the milliseconds of the median decision. */
async function measure(name, episodes) {
  const [kind, agent] = [GAMES[name], await loadAgent(name)];
  const [scores, times] = [[], []];
  for (let episode = 0; episode < episodes; episode++) {
    const game = kind.make(page.seed + episode);
    while (!game.isOver) {
      const began = performance.now();
      const { move } = await agent.act(game.observation());
      times.push(performance.now() - began);
      stepToDecision(kind, game, move.labels);
    }
    scores.push(game.score);
  }
  times.sort((a, b) => a - b);
  return { game: name, scores, milliseconds: times[Math.floor(times.length / 2)] };
}

/** Play `name` until a game is chosen again. */
async function show(name) {
  const choice = ++page.choices;
  const [kind, agent] = [GAMES[name], await loadAgent(name)];
  for (let episode = 0; page.choices === choice; episode++) {
    const game = kind.make(page.seed + episode);
    let [actions, next] = [null, performance.now()];
    while (!game.isOver && page.choices === choice) {
      if (kind.decides(game)) actions = (await agent.act(game.observation())).move;
      draw(kind, game, actions, agent.value);
      next = Math.max(next + 1000 * kind.secondsPerFrame, performance.now() - 100);
      await new Promise((resolve) => setTimeout(resolve, next - performance.now()));
      kind.frame(game, page.isPerson ? byPerson(kind, actions.labels) : actions.labels);
    }
  }
}

/** The person's move for the first actor; the agent moves the others. */
function byPerson(kind, labels) {
  const own = kind.idle === null || page.held.size ? page.key : kind.idle;
  return [own ?? labels[0], ...labels.slice(1)];
}

function draw(kind, game, actions, value) {
  const canvas = element("field");
  const context = canvas.getContext("2d");
  const size = canvas.width;
  context.clearRect(0, 0, size, size);
  for (const { x, y, radius, color, actor } of kind.shapes(game)) {
    const [left, top] = [x * size, (1 - y) * size];
    context.fillStyle = color;
    context.beginPath();
    context.arc(left, top, radius * size, 0, 2 * Math.PI);
    context.fill();
    if (actor !== undefined) drawProbabilities(context, left, top, actions, actor);
  }
  const player = page.isPerson ? "you" : "the agent";
  rows(element("numbers"), [
    ["plays", player],
    ["score", game.score.toFixed(2)],
    ["predicted return", value.toFixed(2)],
    ["", kind.limit(game)],
  ]);
  element("player").textContent = page.isPerson ? "The agent plays" : "You play";
  const labels = Object.keys(kind.idle ? { [kind.idle]: 0, ...DIRECTIONS } : DIRECTIONS);
  rows(
    element("actions"),
    actions.probabilities.flatMap((row, i) =>
      row.map((probability, choice) => [i, labels[choice], probability.toFixed(2), { bar: probability }]),
    ),
  );
  const { entities } = game.observation();
  rows(
    document.querySelector("#entities table"),
    Object.entries(entities).flatMap(([type, list]) =>
      list.map((features) => [type, features.map((number) => number.toFixed(1)).join(", ")]),
    ),
  );
}

/** Draw a line in each direction, as long as its probability is high. */
function drawProbabilities(context, left, top, actions, actor) {
  context.strokeStyle = "#222";
  context.lineWidth = 3;
  const row = actions.probabilities[actor];
  const directions = Object.values(DIRECTIONS);
  directions.forEach(([dx, dy], i) => {
    const length = 32 * row[i + row.length - directions.length]; // "stay" comes first, if there is one
    context.beginPath();
    context.moveTo(left, top);
    context.lineTo(left + length * dx, top + length * dy);
    context.stroke();
  });
}

function rows(table, lists) {
  table.replaceChildren(
    ...lists.map((list) => {
      const row = document.createElement("tr");
      for (const item of list) {
        const cell = row.appendChild(document.createElement("td"));
        if (item.bar === undefined) cell.textContent = item;
        else Object.assign(cell.appendChild(document.createElement("span")), { className: "bar", style: `width: ${120 * item.bar}px` });
      }
      return row;
    }),
  );
}

addEventListener("keydown", (event) => {
  if (event.key in KEYS) {
    page.isPerson = true;
    page.key = KEYS[event.key];
    page.held.add(event.key);
  } else if (event.key === " ") page.isPerson = false;
  else return;
  event.preventDefault();
});
addEventListener("keyup", (event) => page.held.delete(event.key));
addEventListener("blur", () => page.held.clear()); // the key is released elsewhere
element("player").onclick = () => {
  page.isPerson = !page.isPerson;
  element("player").blur();
};
element("game").value = query.get("game") ?? "multi_snake";
element("game").onchange = ({ target }) => {
  target.blur();
  show(target.value);
};

if (query.has("episodes")) {
  const results = await measure(element("game").value, Number(query.get("episodes")));
  element("results").textContent = JSON.stringify(results);
} else show(element("game").value);
