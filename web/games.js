// The games of the page: how each is made, asked, moved and drawn.

import { DECISION_FRAMES, MAX_DECISIONS, Meteors, RADIUS, SIZE } from "./meteors.js";
import { MultiSnake } from "./multi_snake.js";

const COLORS = ["#285ac8", "#dc3c28", "#28a046", "#e6a01e", "#8c46b4", "#28aab4", "#dc64a0", "#825a32"];
/** The game that the agent was trained in: agents/multi_snake.yaml. */
const SNAKES = { numSnakes: 2, maxLength: 11 };
const GREY = "#5a5a5a";

export const GAMES = {
  multi_snake: {
    make: (seed) => new MultiSnake(seed, SNAKES),
    secondsPerFrame: 1 / 8,
    decides: () => true,
    /** A person moves the first snake. */
    frame: (game, labels) => game.step(labels),
    idle: null, // without a key the snake goes on
    limit: (game) => `${game.steps} of ${game.maxSteps} steps`,
    shapes: (game) => {
      const center = ([x, y]) => ({ x: (x + 0.5) / game.boardSize, y: (y + 0.5) / game.boardSize });
      const [part, food] = [0.42 / game.boardSize, 0.25 / game.boardSize];
      return [
        ...game.food.map(({ cell, color }) => ({ ...center(cell), radius: food, color: COLORS[color] })),
        ...game.snakes.flatMap((snake, color) =>
          snake.map((cell, i) => ({
            ...center(cell),
            radius: part,
            color: COLORS[color],
            actor: i === snake.length - 1 ? color : undefined,
          })),
        ),
      ];
    },
  },
  meteors: {
    make: (seed) => new Meteors(seed),
    secondsPerFrame: 1 / 60,
    decides: (game) => game.decides,
    frame: (game, [label]) => game.frame(label),
    idle: "stay",
    limit: (game) => `${Math.floor(game.frames / DECISION_FRAMES)} of ${MAX_DECISIONS} decisions`,
    shapes: (game) => {
      const shape = (color, type) => ({ x, y }) => ({ x: x / SIZE, y: y / SIZE, radius: RADIUS[type] / SIZE, color });
      return [
        ...game.stars.map(shape(COLORS[3], "Star")),
        ...game.meteors.map(shape(GREY, "Meteor")),
        { ...shape(COLORS[0], "Ship")(game.ship), actor: 0 },
      ];
    },
  },
};

/** Advance to the next decision with the agent's `labels`. */
export function stepToDecision(kind, game, labels) {
  do kind.frame(game, labels);
  while (!game.isOver && !kind.decides(game));
}
