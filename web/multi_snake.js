// MultiSnake: the rules of entitize.games.MultiSnake. tests/web compares both step by step.

import { randomNumbers } from "./random.js";

/** The cell that a head moves to, by action; y points upwards. */
export const MOVES = { up: [0, 1], down: [0, -1], left: [-1, 0], right: [1, 0] };

export class MultiSnake {
  /** `place(game)` returns a free cell [x, y] for new food or a new snake; by default a random one. */
  constructor(seed, { boardSize = 10, numSnakes = 2, maxLength = 11, maxSteps = 180, place } = {}) {
    const random = randomNumbers(seed);
    Object.assign(this, { boardSize, maxLength, maxSteps, random, place: place ?? freeCell });
    this.snakes = []; // cells [x, y], tail first
    this.food = []; // {cell, color}
    for (let color = 0; color < numSnakes; color++) this.snakes.push([this.place(this)]);
    for (let color = 0; color < numSnakes; color++) this.food.push({ cell: this.place(this), color });
    this.score = 0;
    this.steps = 0;
    this.isOver = false;
  }

  /** What an agent is asked, as in docs/protocol.md. */
  observation() {
    return {
      entities: {
        SnakeHead: this.snakes.map((snake, color) => [...snake.at(-1), color]),
        SnakeBody: this.snakes.flatMap((snake, color) => snake.slice(0, -1).map((cell) => [...cell, color])),
        Food: this.food.map(({ cell, color }) => [...cell, color]),
      },
      globals: [this.steps],
      actions: { move: { actors: this.snakes.map((_, snake) => snake) } },
    };
  }

  /** Move the snakes one after the other, each as its entry of `moves` says: "up" and so on. */
  step(moves) {
    const hungry = []; // colors of the food that was eaten
    let [grown, isCollision] = [0, false];
    this.snakes.forEach((snake, color) => {
      const [x, y] = snake.at(-1);
      const [dx, dy] = MOVES[moves[color]];
      const cell = [x + dx, y + dy];
      isCollision ||= !this.isFree(cell);
      const eaten = this.food.find((food) => same(food.cell, cell));
      const grows = eaten?.color === color && snake.length < this.maxLength;
      if (eaten) {
        isCollision ||= eaten.color !== color;
        this.food.splice(this.food.indexOf(eaten), 1);
        hungry.push(color);
      }
      if (!grows) snake.shift();
      snake.push(cell);
      grown += grows;
    });
    for (const color of hungry) this.food.push({ cell: this.place(this), color });
    const isFull = this.snakes.every((snake) => snake.length === this.maxLength);
    this.score += grown / (this.maxLength - 1) / this.snakes.length;
    this.steps += 1;
    this.isOver = isCollision || isFull || this.steps >= this.maxSteps;
  }

  /** True for cells of the board without a segment. */
  isFree(cell) {
    const isInside = cell.every((place) => place >= 0 && place < this.boardSize);
    return isInside && !this.snakes.some((snake) => snake.some((segment) => same(segment, cell)));
  }
}

function freeCell(game) {
  for (;;) {
    const cell = [0, 0].map(() => Math.floor(game.random() * game.boardSize));
    if (game.isFree(cell) && !game.food.some((food) => same(food.cell, cell))) return cell;
  }
}

function same(a, b) {
  return a[0] === b[0] && a[1] === b[1];
}
