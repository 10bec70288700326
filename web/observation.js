// An observation of the protocol (docs/protocol.md), checked and laid out as the arrays that an ONNX file takes.

const FIELDS = ["entities", "actions", "globals", "visible", "score", "reward", "type"];
const LARGEST = 1e9; // a trainer refuses larger numbers
const ENTITY_FIELDS = ["actors", "actor_types", "mask"];
const MASK_FIELDS = {
  Categorical: ENTITY_FIELDS,
  MultiCategorical: ENTITY_FIELDS,
  SelectEntity: [...ENTITY_FIELDS, "actees", "actee_types"],
  Continuous: ["actors", "actor_types"],
  GlobalCategorical: ["mask"],
  GlobalContinuous: [],
};

/** Return whether an action is one of the step as a whole. */
export const isGlobal = ({ kind }) => kind.startsWith("Global");

/** The choices of an action, of all components together: the columns of its mask. */
export function columnsOf({ choices, components = [] }) {
  return choices ?? components.flatMap(([name, of]) => of.map((choice) => `${name} ${choice}`));
}

/**
 * The types of entities in the order that numbers them; `inputs`: of the ONNX file.
 *
 * JavaScript puts keys that look like whole numbers first, but names of inputs never do.
 */
export function typesOf(spaces, inputs) {
  const types = Object.keys(spaces.entities);
  const places = Object.keys(inputs).filter((place) => place.startsWith("entities/"));
  return places.length === types.length ? places.map((place) => place.slice("entities/".length)) : types;
}

/**
 * Read an observation: `globals`, `entities` and `visible` by type, and per action its `actors`, `actees` and `mask` (flat).
 * A global action has one row of its mask, or none where it is not available. `types`: in the order that numbers entities.
 *
 * Throws an Error that names the culprit.
 */
export function readObservation(spaces, types, observation) {
  checkNames("observation", keysOf("observation", observation), FIELDS);
  const { entities = {}, actions = {}, globals = [], visible = {} } = observation;
  checkResult(observation);
  checkNames("entities", keysOf("entities", entities), types);
  checkNames("visible", keysOf("visible", visible), spaces.hidden ? types : []);
  checkNames("actions", keysOf("actions", actions), Object.keys(spaces.actions));
  const step = { globals: rowOf("globals", globals, spaces.global_features, "features"), entities: {}, visible: {}, actions: {} };
  const shown = []; // per entity: whether it is visible
  const ranges = {}; // per type: its first entity, and the one after the last
  for (const type of types) {
    const rows = listOf(`entities: ${type}`, type in entities ? entities[type] : []);
    step.entities[type] = rows.flatMap((row, i) => rowOf(`entities: ${type}: row ${i}`, row, spaces.entities[type], "features"));
    const flags = type in visible ? visible[type] : rows.map(() => 1);
    step.visible[type] = flagsOf(`visible: ${type}`, flags, rows.length, "entities");
    ranges[type] = [shown.length, shown.length + rows.length];
    shown.push(...step.visible[type]);
  }
  for (const [name, space] of Object.entries(spaces.actions))
    step.actions[name] = readMask(`actions: ${name}`, space, actions[name], ranges, shown);
  return step;
}

function readMask(place, space, asked, ranges, shown) {
  if (asked === undefined) return { actors: [], actees: [], mask: [] };
  checkNames(place, keysOf(place, asked), MASK_FIELDS[space.kind]);
  const actors = isGlobal(space) ? [-1] : membersOf(place, "actor", asked.actors, asked.actor_types, ranges, shown);
  if (space.kind === "SelectEntity") {
    const actees = actors.length ? membersOf(place, "actee", asked.actees, asked.actee_types, ranges, shown) : [];
    const rows = maskRows(place, asked.mask, actors.length, actees.length, "actees");
    rows.forEach((row, i) => checkAllowed(`${place}: mask: row ${i}`, row, "actee"));
    return { actors, actees, mask: rows.flat() };
  }
  const columns = columnsOf(space);
  const given = space.kind === "GlobalCategorical" && asked.mask !== undefined ? [asked.mask] : asked.mask;
  const rows = maskRows(place, given, actors.length, columns.length, `choices (${columns.join(", ")})`);
  if (space.choices) rows.forEach((row, i) => checkAllowed(`${place}: mask: row ${i}`, row, "choice"));
  if (space.components) rows.forEach((row, i) => checkKinds(`${place}: mask: row ${i}`, row, space));
  return { actors, actees: [], mask: rows.flat() };
}

/** The entities that are named by index or by type; all where neither is given. */
function membersOf(place, role, indices, types, ranges, shown) {
  if (indices !== undefined && types !== undefined) throw new Error(`${place}: expected ${role}s or ${role}_types, got both`);
  let members = indices === undefined ? shown.map((_, i) => i) : indices;
  if (types !== undefined) {
    checkNames(`${place}: ${role}_types`, listOf(`${place}: ${role}_types`, types), Object.keys(ranges));
    members = types.flatMap((type) => Array.from({ length: ranges[type][1] - ranges[type][0] }, (_, i) => ranges[type][0] + i));
  }
  const seen = new Set();
  for (const index of listOf(`${place}: ${role}s`, members)) {
    if (!Number.isInteger(index) || index < 0 || index >= shown.length)
      throw new Error(`${place}: ${role}s: expected entities from 0 to ${shown.length - 1}, got ${say(index)}`);
    if (seen.has(index)) throw new Error(`${place}: ${role}s: expected each entity once, got ${index} twice`);
    if (!shown[index]) throw new Error(`${place}: ${role}s: expected entities that are visible, got ${index}`);
    seen.add(index);
  }
  return [...members];
}

function maskRows(place, given, count, width, what) {
  if (given === undefined || (count * width === 0 && given.flat?.().length === 0))
    return Array.from({ length: count }, () => Array(width).fill(1));
  const rows = listOf(`${place}: mask`, given);
  if (rows.length !== count) throw new Error(`${place}: mask: expected ${count} rows, one per actor, got ${rows.length}`);
  return rows.map((row, i) => flagsOf(`${place}: mask: row ${i}`, row, width, what));
}

/** Throw an Error unless a kind is allowed, and of each component that an allowed kind uses something. */
function checkKinds(place, row, { components, uses }) {
  let first = 0;
  const allowed = {};
  for (const [name, choices] of components) {
    allowed[name] = choices.filter((_, i) => row[first + i]);
    first += choices.length;
  }
  const [kind] = components[0];
  if (!allowed[kind].length) throw new Error(`${place}: expected an allowed ${kind}, got none`);
  for (const choice of allowed[kind])
    for (const name of uses[choice] ?? [])
      if (!allowed[name].length)
        throw new Error(`${place}: expected an allowed ${name}, which the allowed ${kind} ${choice} uses, got none`);
}

function checkAllowed(place, row, what) {
  if (!row.some((flag) => flag)) throw new Error(`${place}: expected an allowed ${what}, got none`);
}

function checkNames(place, given, known) {
  const unknown = given.find((name) => !known.includes(name));
  if (unknown !== undefined)
    throw new Error(`${place}: expected ${known.length ? `some of ${known.join(", ")}` : "none"}, got ${say(unknown)}`);
}

/** A score or a reward goes nowhere here, but a trainer would refuse a wrong one. */
function checkResult(observation) {
  const given = ["score", "reward"].filter((name) => observation[name] !== undefined);
  if (given.length > 1) throw new Error("observation: expected a score or a reward, got both");
  for (const name of given)
    if (typeof observation[name] === "boolean" || !isNumber(observation[name]))
      throw new Error(`${name}: expected a number up to ${LARGEST}, got ${say(observation[name])}`);
}

function isNumber(value) {
  return typeof value === "boolean" || (typeof value === "number" && Math.abs(value) <= LARGEST);
}

function keysOf(place, given) {
  if (given === null || typeof given !== "object" || Array.isArray(given) || ArrayBuffer.isView(given))
    throw new Error(`${place}: expected an object, got ${say(given)}`);
  return Object.keys(given).filter((name) => given[name] !== undefined);
}

function listOf(place, given) {
  if (!Array.isArray(given) && !ArrayBuffer.isView(given)) throw new Error(`${place}: expected a list, got ${say(given)}`);
  return Array.from(given);
}

function rowOf(place, given, names, what) {
  const row = listOf(place, given);
  if (row.length !== names.length)
    throw new Error(`${place}: expected ${names.length} ${what} (${names.join(", ")}), got ${row.length}`);
  const wrong = row.findIndex((number) => !isNumber(number));
  if (wrong >= 0) throw new Error(`${place}: ${names[wrong]}: expected a number up to ${LARGEST}, got ${say(row[wrong])}`);
  return row.map(Number);
}

function flagsOf(place, given, count, what) {
  const flags = listOf(place, given);
  if (flags.length !== count) throw new Error(`${place}: expected ${count} ${what}, got ${flags.length}`);
  const wrong = flags.findIndex((flag) => flag !== true && flag !== false && flag !== 0 && flag !== 1);
  if (wrong >= 0) throw new Error(`${place}: expected true or false, got ${say(flags[wrong])}`);
  return flags.map(Number);
}

/** A value in errors, short. */
function say(value) {
  const text = typeof value === "number" ? String(value) : (JSON.stringify(value) ?? String(value));
  return text.length > 60 ? `${text.slice(0, 60)}…` : text;
}
