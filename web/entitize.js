// A game's side of Entitize's WebSocket protocol (docs/protocol.md), in one file: Node 22 or newer, and browsers.
//
//     const agent = await Agent.connect("ws://127.0.0.1:7000", { spaces });
//     while (!game.isOver) {
//       const actions = await agent.act({
//         entities: { Player: [[x, y]], Enemy: [[1, 2], [3, 4]] },
//         actions: { move: { actors: [0] } },
//         score: game.score,
//       });
//       game.move(actions.move.labels[0]);
//     }
//     agent.gameOver({ score: game.score });

export const PROTOCOL = 1;

/** The trainer could not use a message, or the connection has ended. */
export class AgentError extends Error {}

/** Decides for one game; the trainer or the trained agent is at the other end of the connection. */
export class Agent {
  /**
   * Connect to `url`, "ws://HOST:PORT".
   *
   * `spaces`: what the game asks; a trainer without spaces takes them from its first game.
   * `token`: the trainer's, if it has one.
   * `game`, `player`: the name of the game, and 0, 1, …, where several players of a game are trained.
   */
  static async connect(url, { spaces, token, game, player } = {}) {
    const socket = new WebSocket(url);
    await new Promise((resolve, reject) => {
      socket.onopen = resolve;
      socket.onerror = () => reject(new AgentError(`expected a trainer at ${url}, got no connection`));
    });
    const agent = new Agent(socket);
    const hello = await agent.#ask("hello", { type: "hello", protocol: PROTOCOL, spaces, token, game, player });
    /** Entity types and actions, as the trainer knows them. */
    agent.spaces = hello.spaces;
    /** The number of this game; of several players, that of this one. */
    agent.lane = hello.lane;
    return agent;
  }

  #socket;
  #waiting = null; // {expected, resolve, reject} of the question at hand
  #ended = null; // the error to raise once the connection is closed

  constructor(socket) {
    this.#socket = socket;
    socket.onmessage = ({ data }) => this.#receive(JSON.parse(data));
    socket.onerror = () => {};
    socket.onclose = ({ reason }) => {
      this.#ended ??= new AgentError(reason || "the connection was closed");
      this.#settle((waiting) => waiting.reject(this.#ended));
    };
  }

  /**
   * Ask for the actions of one step: `entities`, `actions`, `globals`, `visible`; `score`, or `reward`.
   * Returns per action the `actors` with their `choices` and `labels` (`actees`, `values`).
   */
  async act(observation) {
    return (await this.#ask("act", { ...observation, type: "observe" })).actions;
  }

  /**
   * End the episode: `score` or `reward`, `truncated`, and perhaps the last observation (as for `act`).
   * There is no answer: if it is wrong, the next call throws the error, and the connection is closed.
   */
  gameOver(result = {}) {
    if (this.#ended) throw this.#ended;
    this.#socket.send(encode({ ...result, type: "game_over" }));
  }

  /** Close the connection; an episode that is not over is truncated. */
  close() {
    this.#socket.close();
  }

  #ask(expected, message) {
    if (this.#ended) return Promise.reject(this.#ended);
    if (this.#waiting) return Promise.reject(new AgentError("expected one question at a time, got a second one"));
    return new Promise((resolve, reject) => {
      const text = encode(message); // throws for what JSON can't hold, before anything is waited for
      this.#waiting = { expected, resolve, reject };
      this.#socket.send(text);
    });
  }

  #receive(answer) {
    if (answer.type === "error" && answer.fatal) this.#ended = new AgentError(answer.message);
    this.#settle(({ expected, resolve, reject }) =>
      answer.type === expected ? resolve(answer) : reject(new AgentError(answer.message ?? `got ${answer.type}`)),
    );
  }

  #settle(how) {
    const waiting = this.#waiting;
    this.#waiting = null;
    if (waiting) how(waiting);
  }
}

/**
 * Notes what a person plays, by the calls of an `Agent`, as the file that `entitize record` reads (docs/protocol.md).
 *
 *     const recorder = new Recorder(spaces);
 *     recorder.act({ entities, actions: { move: { actors: [0] } }, score }, { move: { labels: ["LEFT"] } });
 *     recorder.gameOver({ score });
 *     save("plays.jsonl", recorder.text());
 */
export class Recorder {
  #lines = [];

  constructor(spaces) {
    this.#note({ type: "hello", protocol: PROTOCOL, spaces });
  }

  /** Note one step and what was chosen, by action and in the form in which `Agent.act` answers; return that. */
  act(observation, chosen) {
    this.#note({ ...observation, type: "observe", chosen });
    return chosen;
  }

  /** Note the end of the episode: `score` or `reward`, `truncated`, and perhaps the last observation. */
  gameOver(result = {}) {
    this.#note({ ...result, type: "game_over" });
  }

  /** Everything that was noted, a message per line. */
  text() {
    return this.#lines.map((line) => `${line}\n`).join("");
  }

  #note(message) {
    this.#lines.push(encode(message));
  }
}

/** A message as text, with typed arrays as lists. */
function encode(message) {
  return JSON.stringify(message, (_, value) => (ArrayBuffer.isView(value) ? Array.from(value) : value));
}
