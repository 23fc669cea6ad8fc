// Which colour a record has, and the legend that says so.
const HUES = ["#3b7dd8", "#e07b39", "#3a9d6e", "#b65fcf", "#d9a514", "#d14a61", "#4fa3b5", "#8c6d4f", "#7f9130", "#7474bd"];
const REST = "#8f969e";
const STEPS = 32;
const ramp = (t) => d3.interpolateViridis(0.06 + 0.86 * t);
const MEASURES = ["continuous", "count", "date", "place"];

const theme = {};
function readTheme() {
  const style = getComputedStyle(document.documentElement);
  for (const name of ["card", "ink", "soft", "line", "accent", "edge-weak", "edge-strong", "other", "choose", "page"])
    theme[name] = style.getPropertyValue(`--${name}`).trim();
  theme.dark = matchMedia("(prefers-color-scheme: dark)").matches;
  theme.shade = d3.interpolateRgb(...(theme.dark ? ["#2c3d4b", "#9bd0f7"] : ["#cbdcea", "#0c457a"]));
}

function colourings() {
  const parentSupport = () => state.tree.support;
  const all = data.columns.filter((c) => c.kind !== "sequence").map((c) => ({ name: c.name, kind: c.kind, get: () => c.values }));
  all.push({ name: "generation", kind: "count", get: () => state.tree.depth });
  all.push({ name: "support of the parent", kind: "share", get: parentSupport });
  all.push({ name: "root probability", kind: "share", get: () => data.rootProbability });
  all.push({ name: "expected children", kind: "continuous", get: () => data.expectedChildren });
  all.push({ name: "log-density (low: unusual)", kind: "continuous", get: () => data.logDensity });
  return all;
}

// → {buckets: records' bucket numbers (−1: missing), colours: of the buckets, legend}
function colouring(choice) {
  const values = choice.get().map(number);
  const known = values.filter((v) => v !== null && v !== "");
  const missing = known.length < values.length;
  if (choice.kind === "share" || (MEASURES.includes(choice.kind) && known.every((v) => typeof v === "number"))) {
    const finite = known.filter(Number.isFinite);
    const [low, high] = choice.kind === "share" ? [0, 1] : finite.length ? d3.extent(finite) : [0, 0];
    const scale = d3.scaleQuantize([low, high], d3.range(STEPS)); // clamps what is infinite to its end
    const bucket = (v) => (low < high ? scale(v) : STEPS >> 1);
    const text = choice.kind === "share" ? percent : choice.kind === "date" ? dayText : short;
    const ends = !finite.length ? ["no known value"] : low < high ? [text(low), text(high)] : [text(low)];
    return {
      buckets: values.map((v) => (v === null || v === "" ? -1 : bucket(v))),
      colours: d3.range(STEPS).map((i) => ramp((i + 0.5) / STEPS)),
      legend: { ends, missing },
    };
  }
  const count = d3.rollup(known, (group) => group.length, (v) => String(v));
  const names = [...count.keys()].sort((a, b) => count.get(b) - count.get(a) || d3.ascending(a, b));
  const shown = names.length > HUES.length ? names.slice(0, HUES.length - 1) : names;
  const place = new Map(shown.map((name, i) => [name, i]));
  const rest = names.length - shown.length;
  return {
    buckets: values.map((v) => (v === null || v === "" ? -1 : place.get(String(v)) ?? shown.length)),
    colours: [...shown.map((_, i) => HUES[i]), REST],
    legend: { names: shown, rest, missing },
  };
}

function drawLegend(node, title, { ends, names, rest, missing }) {
  node.replaceChildren(make("span", { class: "title", title }, title));
  if (ends) node.append(make("span", {}, ends[0], gradient(ramp), ends[1] ?? ""));
  else {
    names.forEach((name, i) => node.append(make("span", { title: name }, make("i", { colour: HUES[i] }), make("b", {}, name))));
    if (rest > 0) node.append(make("span", {}, make("i", { colour: REST }), `${rest} others`));
    if (!names.length) node.append(make("span", {}, "no known value"));
  }
  if (missing) node.append(make("span", {}, make("i", { class: "none" }), "missing"));
}

function gradient(shade) {
  const canvas = make("canvas", { width: "140", height: "1", "aria-hidden": "true" });
  const pen = canvas.getContext("2d");
  for (let x = 0; x < 140; x++) {
    pen.fillStyle = shade(x / 139);
    pen.fillRect(x, 0, 1, 1);
  }
  return canvas;
}

function startColours() {
  const choices = colourings();
  const select = byId("colour");
  choices.forEach((choice, i) => select.append(make("option", { value: i }, choice.name)));
  const few = choices.findIndex((c) => {
    const different = new Set(c.get().filter((v) => v !== null)).size;
    return ["categorical", "label", "place"].includes(c.kind) && different > 1 && different <= HUES.length;
  });
  select.value = few >= 0 ? few : choices.findIndex((c) => c.kind === "share");
  const paint = () => {
    state.colour = colouring(choices[select.value]);
    state.colourName = choices[select.value].name;
    drawLegend(byId("legend"), state.colourName, state.colour.legend);
    events.call("look");
  };
  select.addEventListener("change", () => {
    paint();
    events.call("state");
  });
  events.on("tree.colour numbers.colour", paint);
  state.setColour = (name) => {
    const found = choices.findIndex((c) => c.name === name);
    if (found < 0) return;
    select.value = found;
    paint();
  };
  paint();
}
