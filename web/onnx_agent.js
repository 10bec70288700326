// A trained RogueNet in a browser: an ONNX file of `entitize export` (docs/onnx.md), run by onnxruntime-web.
//
//     const agent = await OnnxAgent.load("agents/meteors");
//     const { move } = await agent.act(game.observation());
//     game.step(move.labels[0]);

import { columnsOf, isGlobal, readObservation, typesOf } from "./observation.js";
import * as ort from "./vendor/ort.wasm.min.mjs";

ort.env.wasm.numThreads = 1;

/** What computes now: onnxruntime-web mixes up steps that are computed at the same time, also those of different networks. */
let turn = Promise.resolve();

/** Decides as `Agent` of entitize.js does, without a connection. */
export class OnnxAgent {
  /** Read `${path}.onnx` and `${path}.json`; `random`: numbers in [0, 1) to draw actions from. */
  static async load(path, random = Math.random) {
    const [names, session] = await Promise.all([
      read(`${path}.json`).then((response) => response.json()),
      read(`${path}.onnx`)
        .then((response) => response.arrayBuffer())
        .then((file) => ort.InferenceSession.create(new Uint8Array(file), { executionProviders: ["wasm"] })),
    ]);
    return new OnnxAgent(names, session, random);
  }

  #types; // of entities, in the order that numbers them

  constructor(names, session, random) {
    Object.assign(this, { names, session, random, spaces: names.spaces, value: 0 });
    this.#types = typesOf(names.spaces, names.inputs);
  }

  /**
   * Draw an action for each actor of an observation, as in docs/protocol.md; `deterministic`: take the most probable one.
   *
   * Returns per action what a trainer answers (`actors` with their `choices` and `labels`, `actees` or `values`; `choice` and
   * `label`), and `probabilities`: per actor those of the choices, by component where there are several, or of the
   * `candidates`. Real numbers have `means` instead. `value` is then the return that the network predicts.
   *
   * Throws an Error that names the culprit for an observation that a trainer would refuse.
   */
  async act(observation, { deterministic = false } = {}) {
    if (this.session === null) throw new Error("the agent was closed");
    const step = readObservation(this.spaces, this.#types, observation);
    const session = this.session;
    const run = turn.then(() => session.run(this.#feeds(step)));
    turn = run.catch(() => {});
    const outputs = await run;
    this.value = outputs.value.data[0];
    const pick = deterministic ? largest : (row) => this.#draw(row);
    const noise = deterministic ? () => 0 : () => this.#normal();
    const actions = {};
    for (const [name, space] of Object.entries(this.spaces.actions)) {
      const asked = step.actions[name];
      const output = (what) => outputs[`actions/${name}/${what}`].data;
      if (isGlobal(space) && !asked.actors.length) continue;
      actions[name] =
        "low" in space
          ? decideNumbers(space, this.names.raw_numbers[name], asked, output("mean"), output("log_std"), noise)
          : DECIDE[space.kind](space, asked, output("logits"), pick);
    }
    return actions;
  }

  /** Does nothing: a trainer is told here that an episode is over. */
  gameOver() {}

  /** Free the memory of the network. */
  close() {
    const session = this.session;
    this.session = null;
    return turn.then(() => session?.release());
  }

  #feeds(step) {
    const feeds = {};
    const give = (place, type, numbers, shape) => {
      if (place in this.names.inputs) feeds[place] = new ort.Tensor(type, numbers, shape);
    };
    give("globals", "float32", Float32Array.from(step.globals), [step.globals.length]);
    for (const [name, features] of Object.entries(this.spaces.entities)) {
      const count = step.visible[name].length;
      give(`entities/${name}`, "float32", Float32Array.from(step.entities[name]), [count, features.length]);
      give(`visible/${name}`, "int8", Int8Array.from(step.visible[name]), [count]);
    }
    for (const [name, space] of Object.entries(this.spaces.actions)) {
      const { actors, actees, mask } = step.actions[name];
      const shape = space.kind === "SelectEntity" ? [mask.length] : [actors.length, columnsOf(space).length];
      give(`actions/${name}/actors`, "int64", BigInt64Array.from(actors, BigInt), [actors.length]);
      give(`actions/${name}/actees`, "int64", BigInt64Array.from(actees, BigInt), [actees.length]);
      give(`actions/${name}/mask`, "int8", Int8Array.from(mask), shape);
    }
    return feeds;
  }

  #draw(probabilities) {
    let rest = this.random();
    const choice = probabilities.findIndex((probability) => (rest -= probability) < 0);
    return choice < 0 ? largest(probabilities) : choice; // -1 by rounding
  }

  /** A number of the standard normal distribution (Box and Muller 1958). */
  #normal() {
    return Math.sqrt(-2 * Math.log(1 - this.random())) * Math.cos(2 * Math.PI * this.random());
  }
}

/** Fetch a file; throw an Error that names it where it is not there. */
async function read(path) {
  const response = await fetch(path);
  if (!response.ok) throw new Error(`${path}: expected a file of \`entitize export\`, got status ${response.status}`);
  return response;
}

/** By kind, for the actors of an action: what the logits (actors, choices) of all of them decide. */
const DECIDE = {
  Categorical({ choices: labels }, { actors }, logits, pick) {
    const probabilities = rowsOf(logits, actors.length).map(softmax);
    const choices = probabilities.map(pick);
    return { actors, choices, labels: choices.map((choice) => labels[choice]), probabilities };
  },

  GlobalCategorical({ choices: labels }, asked, logits, pick) {
    const probabilities = softmax(logits);
    const choice = pick(probabilities);
    return { choice, label: labels[choice], probabilities };
  },

  SelectEntity(space, { actors, actees: candidates }, logits, pick) {
    const probabilities = rowsOf(logits, actors.length).map(softmax);
    return { actors, actees: probabilities.map((row) => candidates[pick(row)]), candidates, probabilities };
  },

  MultiCategorical({ components, uses }, { actors }, logits, pick) {
    const decided = rowsOf(logits, actors.length).map((row) => decideComponents(components, uses, row, pick));
    const [choices, labels, probabilities] = ["choices", "labels", "probabilities"].map((part) => decided.map((one) => one[part]));
    return { actors, choices, labels, probabilities };
  },
};

/** One actor's choices, of the first component and of those that it uses; 0 of others. */
function decideComponents(components, uses, logits, pick) {
  const [choices, labels, probabilities] = [[], {}, {}];
  let [first, used] = [0, [components[0][0]]];
  for (const [name, names] of components) {
    probabilities[name] = softmax(logits.subarray(first, (first += names.length)));
    const counts = used.includes(name);
    const choice = counts ? pick(probabilities[name]) : 0;
    if (!choices.length) used = [name, ...(uses[names[choice]] ?? [])];
    if (counts) labels[name] = names[choice];
    choices.push(choice);
  }
  return { choices, labels, probabilities };
}

/** Real numbers: raw ones of a normal distribution, scaled and bounded. */
function decideNumbers(space, { origin, scale, squash }, { actors }, means, logStd, noise) {
  const [low, high] = [space.low, space.high].map((bounds) => bounds.map((bound) => Number(String(bound).replace("inf", "Infinity"))));
  const bounded = (u, k) => Math.min(high[k], Math.max(low[k], Math.fround(origin[k] + scale[k] * (squash ? Math.tanh(u) : u))));
  const rows = rowsOf(means, actors.length);
  const values = rows.map((row) => Array.from(row, (mean, k) => bounded(mean + Math.exp(logStd[k]) * noise(), k)));
  const most = rows.map((row) => Array.from(row, bounded));
  return isGlobal(space) ? { values: values[0], means: most[0] } : { actors, values, means: most };
}

function rowsOf(data, count) {
  const width = count ? data.length / count : 0;
  return Array.from({ length: count }, (_, i) => data.subarray(i * width, (i + 1) * width));
}

function largest(row) {
  return row.indexOf(Math.max(...row));
}

function softmax(logits) {
  const top = Math.max(...logits);
  const powers = Array.from(logits, (logit) => Math.exp(logit - top));
  const total = powers.reduce((sum, power) => sum + power, 0);
  return powers.map((power) => power / total);
}
