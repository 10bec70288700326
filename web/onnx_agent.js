// A trained RogueNet in a browser: an ONNX file of `entitize export` (docs/onnx.md), run by onnxruntime-web.
//
//     const agent = await OnnxAgent.load("agents/meteors");
//     const { move } = await agent.act(game.observation());
//     game.step(move.labels[0]);

import * as ort from "./vendor/ort.wasm.min.mjs";

ort.env.wasm.numThreads = 1;

/** Decides as `Agent` of entitize.js does, without a connection. Knows `Categorical` actions of entities. */
export class OnnxAgent {
  /** Read `${path}.onnx` and `${path}.json`; `random`: numbers in [0, 1) to draw actions from. */
  static async load(path, random = Math.random) {
    const [names, session] = await Promise.all([
      fetch(`${path}.json`).then((response) => response.json()),
      ort.InferenceSession.create(`${path}.onnx`, { executionProviders: ["wasm"] }),
    ]);
    return new OnnxAgent(names, session, random);
  }

  constructor(names, session, random) {
    for (const [name, { kind }] of Object.entries(names.spaces.actions))
      if (kind !== "Categorical") throw new Error(`action ${name}: expected kind Categorical, got ${kind}`);
    Object.assign(this, { names, session, random, value: 0 });
  }

  /**
   * Draw an action for each actor of an observation, as in docs/protocol.md. Returns per action the `actors`
   * with their `choices`, `labels` and `probabilities`; `value` is then the return that the network predicts.
   * Throws an Error that names the culprit for names that the spaces lack, and for rows of another length.
   */
  async act(observation) {
    check(this.names.spaces, observation);
    const actorsOf = {};
    for (const name of Object.keys(this.names.spaces.actions)) actorsOf[name] = this.#actors(observation, name);
    const outputs = await this.session.run(this.#feeds(observation, actorsOf));
    this.value = outputs.value.data[0];
    if (Number.isNaN(this.value)) throw new Error("act: expected numbers as features, got NaN");
    const actions = {};
    for (const [name, { choices: labels }] of Object.entries(this.names.spaces.actions)) {
      const { data } = outputs[`actions/${name}/logits`];
      const actors = actorsOf[name];
      const rows = actors.map((_, i) => softmax(data.subarray(i * labels.length, (i + 1) * labels.length)));
      const choices = rows.map((row) => this.#draw(row));
      actions[name] = { actors, choices, labels: choices.map((choice) => labels[choice]), probabilities: rows };
    }
    return actions;
  }

  /** The entities that act: those that the observation names, or all of some types; none without the action. */
  #actors({ entities, actions }, name) {
    if (!actions[name]) return [];
    const types = Object.keys(this.names.spaces.entities);
    const { actors, actor_types: acting = types } = actions[name];
    const indices = [];
    let first = 0;
    for (const type of types) {
      const count = entities[type]?.length ?? 0;
      if (acting.includes(type)) for (let i = 0; i < count; i++) indices.push(first + i);
      first += count;
    }
    return actors ?? indices;
  }

  #feeds({ entities, globals = [], visible = {}, actions }, actorsOf) {
    const feeds = {};
    const give = (place, type, numbers, shape) => {
      if (place in this.names.inputs) feeds[place] = new ort.Tensor(type, numbers, shape);
    };
    give("globals", "float32", Float32Array.from(globals), [globals.length]);
    for (const [name, features] of Object.entries(this.names.spaces.entities)) {
      const rows = entities[name] ?? [];
      give(`entities/${name}`, "float32", Float32Array.from(rows.flat()), [rows.length, features.length]);
      give(`visible/${name}`, "int8", Int8Array.from(visible[name] ?? rows.map(() => 1)), [rows.length]);
    }
    for (const [name, { choices }] of Object.entries(this.names.spaces.actions)) {
      const shape = [actorsOf[name].length, choices.length];
      const mask = actions[name]?.mask?.flat() ?? Array(shape[0] * shape[1]).fill(1);
      give(`actions/${name}/actors`, "int64", BigInt64Array.from(actorsOf[name], BigInt), [shape[0]]);
      give(`actions/${name}/mask`, "int8", Int8Array.from(mask), shape);
    }
    return feeds;
  }

  #draw(probabilities) {
    let rest = this.random();
    const choice = probabilities.findIndex((probability) => (rest -= probability) < 0);
    return choice < 0 ? probabilities.indexOf(Math.max(...probabilities)) : choice; // -1 by rounding
  }
}

/** Throw an Error for names that `spaces` lacks, and for rows of another length: they would be ignored or mixed up. */
function check(spaces, { entities, visible = {}, actions }) {
  const types = Object.keys(spaces.entities);
  checkNames("entities", Object.keys(entities), types);
  checkNames("visible", Object.keys(visible), spaces.hidden ? types : []);
  checkNames("actions", Object.keys(actions), Object.keys(spaces.actions));
  for (const [name, rows] of Object.entries(entities))
    checkRows(`entities: ${name}`, rows, spaces.entities[name], "features");
  for (const [name, asked] of Object.entries(actions)) {
    checkNames(`actions: ${name}`, Object.keys(asked), ["actors", "actor_types", "mask"]);
    checkNames(`actions: ${name}: actor_types`, asked.actor_types ?? [], types);
    checkRows(`actions: ${name}: mask`, asked.mask ?? [], spaces.actions[name].choices, "choices");
  }
}

function checkNames(place, given, known) {
  const unknown = given.find((name) => !known.includes(name));
  if (unknown !== undefined)
    throw new Error(`${place}: expected ${known.length ? `some of ${known.join(", ")}` : "none"}, got ${unknown}`);
}

function checkRows(place, rows, columns, what) {
  const wrong = rows.findIndex((row) => row.length !== columns.length);
  if (wrong >= 0) {
    const got = rows[wrong].length ?? rows[wrong];
    throw new Error(`${place}: row ${wrong}: expected ${columns.length} ${what} (${columns.join(", ")}), got ${got}`);
  }
}

function softmax(logits) {
  const top = Math.max(...logits);
  const powers = Array.from(logits, (logit) => Math.exp(logit - top));
  const total = powers.reduce((sum, power) => sum + power, 0);
  return powers.map((power) => power / total);
}
