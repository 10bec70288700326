"use strict";
// The panel about one entity, and the table of all.

function heading(entity) {
  const dot = element("span", { className: "dot" });
  dot.style.background = colourOf(entity);
  const note = decision().hidden.includes(entity.index) ? " (hidden from the policy)" : "";
  return element("h2", { id: "chosen" }, dot, nameOf(entity) + note);
}

function featureList(entity) {
  const names = data.types[entity.type].features;
  if (!names.length) return element("p", {}, "no features");
  return element("div", { className: "features" }, ...names.map((name, column) =>
    element("div", {}, element("span", { title: name }, name), element("span", {}, format(entity.features[column])))));
}

function actionPanels(shown, entity) {
  const panels = [];
  data.actions.forEach((about, number) => {
    const choice = choiceOf(shown, number, entity);
    if (!choice) return;
    panels.push(element("h2", {}, `${about.name}: ${choice.words}`));
    const given = shown.actions[number].distribution;
    if (!given) { panels.push(element("p", {}, "This policy gives no probabilities.")); return; }
    panels.push(...distribution(shown, about, shown.actions[number], choice.actor, given[choice.actor]));
  });
  return panels;
}

function distribution(shown, about, action, actor, row) {
  const choices = (names, shares, chosen) => names.map((name, i) => shares[i] === null
    ? bar(name, 0, "masked", "masked") : bar(name, shares[i], percent(shares[i]), i === chosen ? "chosen" : ""));
  const chosen = action.chosen[actor];
  if (about.kind === "discrete") return choices(about.choices, row, chosen);
  if (about.kind === "select-entity") {
    const list = entitiesOf(shown), order = row.map((_, i) => i).filter((i) => row[i] !== null);
    order.sort((a, b) => row[b] - row[a]);
    const first = order.filter((i, rank) => rank < 12 || action.actees[i] === chosen);
    const bars = first.map((i) =>
      bar(nameOf(list[action.actees[i]]), row[i], percent(row[i]), action.actees[i] === chosen ? "chosen" : ""));
    if (order.length > first.length) bars.push(element("p", {}, `and ${order.length - first.length} others`));
    return bars;
  }
  if (about.kind === "multi-discrete") {
    const made = [];
    let start = 0;
    about.components.forEach((component, m) => {
      const stop = start + component.choices.length, shares = row.slice(start, stop);
      start = stop;
      if (!about.used[chosen[0]][m]) return;
      made.push(element("p", {}, component.name));
      const shown = component.choices.map((_, i) => i).filter((i) => shares[i] !== null || component.choices.length <= 12);
      made.push(...choices(shown.map((i) => component.choices[i]), shown.map((i) => shares[i]), shown.indexOf(chosen[m])));
    });
    return made;
  }
  const [below, mean, above] = row; // one standard deviation around the mean
  return mean.map((middle, i) => {
    const [low, high] = [about.low[i], about.high[i]].map((bound) => (bound === null || Math.abs(bound) > 1e30 ? null : bound));
    const least = low ?? Math.min(below[i], chosen[i]) - 1, most = high ?? Math.max(above[i], chosen[i]) + 1;
    const share = (value) => (value - least) / (most - least || 1);
    const made = bar(`number ${i}`, share(above[i]) - share(below[i]), format(chosen[i]));
    made.querySelector(".fill").style.left = `${100 * share(below[i])}%`;
    const sign = element("div", { className: "sign" });
    sign.style.left = `${100 * share(chosen[i])}%`;
    made.querySelector(".track").append(sign);
    made.title = `mean ${format(middle)}, one standard deviation from ${format(below[i])} to ${format(above[i])}`;
    return made;
  });
}

function attentionPanel(shown, weights) {
  if (!weights) {
    const why = data.attention[0] ? "This entity is not in the policy's input." : `${data.policy || "This policy"} has no attention to show.`;
    return [element("h2", {}, "Attends to"), element("p", { id: "without" }, why)];
  }
  const list = entitiesOf(shown), order = [...weights].filter(([, weight]) => weight > 0).sort((a, b) => b[1] - a[1]);
  const rest = 1 - order.slice(0, 12).reduce((sum, [, weight]) => sum + weight, 0);
  const bars = order.slice(0, 12).map(([index, weight]) => bar(nameOf(list[index]), weight, percent(weight)));
  if (rest > 0.005 && list.length > 12) bars.push(bar("all others", rest, percent(rest), "masked"));
  return [element("h2", {}, "Attends to"), ...bars];
}

function drawPanel(entity, weights) {
  const shown = decision(), parts = [heading(entity), featureList(entity)];
  if (!shown.active) parts.push(element("p", {}, "Inactive: nothing to decide at this step."));
  parts.push(...actionPanels(shown, entity), ...attentionPanel(shown, weights));
  $("right").replaceChildren(...parts);
}

function drawTable(chosen, weights) {
  if (!$("tables").open) return;
  const shown = decision(), list = entitiesOf(shown), tables = [];
  data.types.forEach((type, number) => {
    const rows = list.filter((entity) => entity.type === number);
    if (!rows.length || (number === data.types.length - 1 && !hasWhole())) return;
    const head = element("tr", {}, ...["", "attention", "chooses", ...type.features].map((name) => element("th", {}, name)));
    const body = rows.map((entity) => {
      const weight = weights ? weights.get(entity.index) || 0 : null;
      const chooses = data.actions.map((_, i) => choiceOf(shown, i, entity)).filter(Boolean).map((choice) => choice.words);
      const cells = [nameOf(entity), weight === null ? "" : percent(weight), chooses.join(", "), ...entity.features.map(format)];
      const row = element("tr", { className: entity.index === chosen.index ? "selected" : "" }, ...cells.map((text) => element("td", {}, text)));
      if (weight) row.style.background = `rgba(86, 180, 233, ${0.7 * weight / Math.max(...weights.values())})`;
      row.onmouseenter = () => hover(entity);
      row.onclick = () => hold(entity);
      return row;
    });
    tables.push(element("table", {}, element("caption", {}, type.name), element("thead", {}, head), element("tbody", {}, ...body)));
  });
  $("table").replaceChildren(...tables);
}
