// Meteors: a game in real time. A ship collects stars and avoids meteors, of which there are more and more.
//
// The field is SIZE x SIZE. Time advances by frames of 1/60 second; who plays decides every DECISION_FRAMES frames.
// Each star is a point. A collision with a meteor ends the game, and so does MAX_DECISIONS.

import { randomNumbers } from "./random.js";

export const SIZE = 20;
export const DECISION_FRAMES = 6;
export const MAX_DECISIONS = 600;
export const RADIUS = { Ship: 0.5, Star: 0.4, Meteor: 0.6 };
const FRAME = 1 / 60; // seconds
const SPEED = { Ship: 8, Meteor: 4 }; // units per second
const STARS = 4;
const METEORS = { first: 3, most: 8, decisionsToNext: 100 };

/** How the ship moves, by action. */
export const MOVES = { stay: [0, 0], up: [0, 1], down: [0, -1], left: [-1, 0], right: [1, 0] };

export const SPACES = {
  entities: { Ship: ["x", "y"], Star: ["x", "y"], Meteor: ["x", "y", "vx", "vy"] },
  actions: { move: { kind: "Categorical", choices: Object.keys(MOVES) } },
};

export class Meteors {
  constructor(seed) {
    this.random = randomNumbers(seed);
    this.ship = { x: SIZE / 2, y: SIZE / 2 };
    this.stars = Array.from({ length: STARS }, () => this.#place(RADIUS.Star));
    this.meteors = [];
    for (let i = 0; i < METEORS.first; i++) this.#addMeteor();
    this.score = 0;
    this.frames = 0;
    this.isOver = false;
    this.wasHit = false;
  }

  /** What an agent is asked, as in docs/protocol.md. */
  observation() {
    return {
      entities: {
        Ship: [[this.ship.x, this.ship.y]],
        Star: this.stars.map(({ x, y }) => [x, y]),
        Meteor: this.meteors.map(({ x, y, vx, vy }) => [x, y, vx, vy]),
      },
      actions: { move: { actors: [0] } },
    };
  }

  get decides() {
    return !this.isOver && this.frames % DECISION_FRAMES === 0;
  }

  /** Advance by all frames up to the next decision. */
  step(move) {
    do this.frame(move);
    while (!this.isOver && !this.decides);
  }

  /** Advance by one frame while the ship moves as `move` says: "stay", "up" and so on. */
  frame(move) {
    const [dx, dy] = MOVES[move];
    this.ship.x = clamp(this.ship.x + dx * SPEED.Ship * FRAME, RADIUS.Ship);
    this.ship.y = clamp(this.ship.y + dy * SPEED.Ship * FRAME, RADIUS.Ship);
    for (const meteor of this.meteors) bounce(meteor);
    this.stars = this.stars.map((star) => {
      if (!touches(this.ship, star, RADIUS.Ship + RADIUS.Star)) return star;
      this.score += 1;
      return this.#place(RADIUS.Star);
    });
    this.frames += 1;
    this.wasHit = this.meteors.some((meteor) => touches(this.ship, meteor, RADIUS.Ship + RADIUS.Meteor));
    this.isOver = this.wasHit || this.frames >= MAX_DECISIONS * DECISION_FRAMES;
    const isDue = this.frames % (METEORS.decisionsToNext * DECISION_FRAMES) === 0;
    if (isDue && this.meteors.length < METEORS.most) this.#addMeteor();
  }

  #place(radius) {
    return { x: clamp(this.random() * SIZE, radius), y: clamp(this.random() * SIZE, radius) };
  }

  /** Add a meteor at least a third of the field away from the ship. */
  #addMeteor() {
    let place;
    do place = this.#place(RADIUS.Meteor);
    while (touches(this.ship, place, SIZE / 3));
    const angle = 2 * Math.PI * this.random();
    this.meteors.push({ ...place, vx: SPEED.Meteor * Math.cos(angle), vy: SPEED.Meteor * Math.sin(angle) });
  }
}

function clamp(place, radius) {
  return Math.min(Math.max(place, radius), SIZE - radius);
}

function touches(a, b, distance) {
  return (a.x - b.x) ** 2 + (a.y - b.y) ** 2 < distance ** 2;
}

function bounce(meteor) {
  for (const [place, speed] of [["x", "vx"], ["y", "vy"]]) {
    const next = meteor[place] + meteor[speed] * FRAME;
    meteor[place] = clamp(next, RADIUS.Meteor);
    if (meteor[place] !== next) meteor[speed] *= -1;
  }
}
