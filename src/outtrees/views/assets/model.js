// What the page knows: the records, their candidate parents, and what is chosen at the moment.
const data = JSON.parse(document.getElementById("data").textContent);
const T = data.ids.length;
const byId = (id) => document.getElementById(id);

// JSON has no infinity: Python writes it as text.
const number = (v) => (v === "inf" ? Infinity : v === "-inf" ? -Infinity : v);

const candidates = d3.range(T).map(() => []); // of each child, best first
const offspring = d3.range(T).map(() => []); // of each parent, best first
const edges = data.edges.map(([child, parent, support, ...evidence]) => {
  const edge = { child, parent, support: Math.min(1, Math.max(0, support)), evidence: evidence.map(number) };
  candidates[child].push(edge);
  if (parent >= 0) offspring[parent].push(edge);
  return edge;
});
for (const list of candidates) list.sort((a, b) => b.support - a.support);
for (const list of offspring) list.sort((a, b) => b.support - a.support);

function supportOf(child, parent) {
  const edge = candidates[child].find((e) => e.parent === parent);
  return edge ? edge.support : 0;
}

// The two trees: parents and places from Python; here their supports and sizes.
function makeTree({ parents, rows, depth, across }) {
  const order = d3.range(T).sort((a, b) => depth[a] - depth[b]);
  const below = new Int32Array(T);
  for (let i = T - 1; i >= 0; i--) {
    const record = order[i];
    if (parents[record] >= 0) below[parents[record]] += 1 + below[record];
  }
  const nRows = 1 + d3.max(rows);
  const atRow = new Int32Array(nRows).fill(-1);
  rows.forEach((row, record) => (atRow[row] = record));
  return {
    parents, rows, depth, across, below, nRows, atRow,
    support: parents.map((parent, child) => supportOf(child, parent)),
    // Records with many descendants are named first where there is not room for every name.
    byWeight: d3.range(T).sort((a, b) => below[b] - below[a] || a - b),
    domain: d3.extent(across),
  };
}
const trees = { consensus: makeTree(data.consensus), mode: makeTree(data.mode) };

const state = { tree: trees.consensus, chosen: -1, over: -1, threshold: 0, others: false, colour: null };
const events = d3.dispatch("choose", "tree", "look", "theme");

function choose(record, centre = false) {
  state.chosen = record;
  events.call("choose", null, record, centre);
}

const percent = (p) => (p > 0.995 && p < 1 ? ">\u00a099\u00a0%" : p > 0 && p < 0.005 ? "<\u00a01\u00a0%" : `${Math.round(100 * p)}\u00a0%`);
const short = d3.format(".4~g");
const dateText = d3.utcFormat("%-d\u00a0%b\u00a0%Y");
const dayText = (v) => (data.calendar ? dateText(new Date(v * 864e5)) : `day\u00a0${short(v)}`);
const cut = (text, n) => (text.length > n ? text.slice(0, n - 1) + "…" : text);
const parentName = (parent) => (parent < 0 ? "no parent (a root)" : data.ids[parent]);

// Text only ever enters the page as text.
function make(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "class") node.className = value;
    else if (name === "onclick") node.addEventListener("click", value);
    else if (name === "width%") node.style.width = `${value}%`;
    else if (name === "colour") node.style.background = value;
    else node.setAttribute(name, value);
  }
  node.append(...children.filter((child) => child !== null));
  return node;
}
