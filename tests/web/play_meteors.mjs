// Plays games of Meteors at the same time: prints the observations of those that go on, reads their moves, and at the end prints all scores.
import { createInterface } from "node:readline";
import { Meteors } from "../../web/meteors.js";

const games = Array.from({ length: Number(process.argv[2]) }, (_, seed) => new Meteors(seed));
const answers = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
for (;;) {
  const going = games.filter((game) => !game.isOver);
  if (!going.length) break;
  console.log(JSON.stringify(going.map((game) => game.observation().entities)));
  const moves = JSON.parse((await answers.next()).value);
  going.forEach((game, i) => game.step(moves[i]));
}
console.log(JSON.stringify({ scores: games.map((game) => game.score) }));
process.exit();
