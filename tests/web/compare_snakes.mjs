// Steps MultiSnake with recorded places of snakes and food, and actions; prints the observation after each step.
import { readFileSync } from "node:fs";
import { MultiSnake } from "../../web/multi_snake.js";

for (const { options, placed, moves } of JSON.parse(readFileSync(0, "utf8"))) {
  const game = new MultiSnake(0, { ...options, place: () => placed.shift() });
  const steps = [{ ...game.observation(), score: 0, isOver: false }];
  for (const labels of moves) {
    game.step(labels);
    steps.push({ ...game.observation(), score: game.score, isOver: game.isOver });
  }
  console.log(JSON.stringify({ steps, unused: placed.length }));
}
