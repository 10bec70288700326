// Plays Meteors for a trainer, in 16 games at a time, until the trainer ends (Node 22, or 20 with --experimental-websocket):
//
//     entitize train --config web/agents/meteors.yaml --listen 127.0.0.1:7000 --run runs/meteors
//     node web/train_meteors.js ws://127.0.0.1:7000

import { Agent, AgentError } from "./entitize.js";
import { Meteors, SPACES } from "./meteors.js";

const GAMES = 16;
const [url = "ws://127.0.0.1:7000"] = process.argv.slice(2);

async function play(firstSeed) {
  const agent = await Agent.connect(url, { spaces: SPACES });
  for (let seed = firstSeed; ; seed += GAMES) {
    const game = new Meteors(seed);
    while (!game.isOver) {
      const actions = await agent.act({ ...game.observation(), score: game.score });
      game.step(actions.move.labels[0]);
    }
    agent.gameOver({ score: game.score, truncated: !game.wasHit });
  }
}

try {
  await Promise.all(Array.from({ length: GAMES }, (_, lane) => play(lane)));
} catch (error) {
  if (!(error instanceof AgentError)) throw error;
  console.log(error.message);
}
