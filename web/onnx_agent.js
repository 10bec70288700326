// A trained RogueNet in a browser: an ONNX file of `entitize export` (docs/onnx.md), run by onnxruntime-web.
//
//     const agent = await OnnxAgent.load("agents/meteors");
//     const { move } = await agent.act(game.observation());
//     game.step(move.labels[0]);

import * as ort from "./vendor/ort.wasm.min.mjs";

ort.env.wasm.numThreads = 1;

/** Decides as `Agent` of entitize.js does, without a connection. Knows discrete actions of entities. */
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
   */
  async act(observation) {
    const outputs = await this.session.run(this.#feeds(observation));
    this.value = outputs.value.data[0];
    const actions = {};
    for (const [name, { choices: labels }] of Object.entries(this.names.spaces.actions)) {
      const { data } = outputs[`actions/${name}/logits`];
      const { actors } = observation.actions[name];
      const rows = actors.map((_, i) => softmax(data.subarray(i * labels.length, (i + 1) * labels.length)));
      const choices = rows.map((row) => this.#draw(row));
      actions[name] = { actors, choices, labels: choices.map((choice) => labels[choice]), probabilities: rows };
    }
    return actions;
  }

  #feeds({ entities, globals, actions }) {
    const feeds = {};
    for (const [place, { shape }] of Object.entries(this.names.inputs)) {
      const [kind, name] = place.split("/");
      if (kind === "globals") feeds[place] = new ort.Tensor("float32", globals, shape);
      if (kind === "entities") {
        const rows = entities[name] ?? [];
        feeds[place] = new ort.Tensor("float32", Float32Array.from(rows.flat()), [rows.length, shape[1]]);
      }
      if (kind !== "actions") continue;
      const { actors, mask } = actions[name];
      feeds[place] = place.endsWith("/actors")
        ? new ort.Tensor("int64", BigInt64Array.from(actors, BigInt), [actors.length])
        : new ort.Tensor(
            "int8",
            mask ? Int8Array.from(mask.flat()) : new Int8Array(actors.length * shape[1]).fill(1),
            [actors.length, shape[1]],
          );
    }
    return feeds;
  }

  #draw(probabilities) {
    let rest = this.random();
    const choice = probabilities.findIndex((probability) => (rest -= probability) < 0);
    return choice < 0 ? probabilities.indexOf(Math.max(...probabilities)) : choice; // -1 by rounding
  }
}

function softmax(logits) {
  const top = Math.max(...logits);
  const powers = Array.from(logits, (logit) => Math.exp(logit - top));
  const total = powers.reduce((sum, power) => sum + power, 0);
  return powers.map((power) => power / total);
}
