// What the page knows: the records, their candidate parents, and what is chosen at the moment.
const data = JSON.parse(document.getElementById("data").textContent);
const T = data.ids.length;

// JSON has no infinity: Python writes it as text.
const number = (v) => (v === "inf" ? Infinity : v === "-inf" ? -Infinity : v);

// As the report has it: [child, parent, support, evidence], each child's best first.
const reported = data.edges.map(([child, parent, support, ...evidence]) => ({
  child, parent, support: Math.min(1, Math.max(0, support)), evidence: evidence.map(number),
}));
const reportedNumbers = { rootProbability: data.rootProbability, expectedChildren: data.expectedChildren };

// As it is at the moment: the same, unless something is supposed.
let edges, candidates, offspring;
function useEdges(list) {
  edges = list;
  candidates = d3.range(T).map(() => []); // of each child, best first
  offspring = d3.range(T).map(() => []); // of each parent, best first
  for (const edge of edges) {
    candidates[edge.child].push(edge);
    if (edge.parent >= 0) offspring[edge.parent].push(edge);
  }
  for (const part of [candidates, offspring]) for (const own of part) own.sort((a, b) => b.support - a.support || (b.was ?? 0) - (a.was ?? 0));
}
useEdges(reported);

function supportOf(child, parent) {
  const edge = candidates[child].find((e) => e.parent === parent);
  return edge ? edge.support : 0;
}

// Where the records of a tree stand: one row each, the branches of one record in adjacent rows, half
// of them above it and half below, small ones nearest. So no line crosses another, and the space to
// the right of every record is free for its name. The twin of Python's views/layout.py.
function treeRows(parents) {
  const children = d3.range(T).map(() => []), order = [];
  parents.forEach((parent, record) => parent >= 0 && children[parent].push(record));
  const roots = d3.range(T).filter((record) => parents[record] < 0);
  const depth = new Array(T).fill(0), size = new Int32Array(T).fill(1), first = new Int32Array(T), rows = new Array(T).fill(0);
  for (const stack = [...roots].reverse(); stack.length; ) {
    const record = stack.pop();
    order.push(record);
    if (parents[record] >= 0) depth[record] = depth[parents[record]] + 1;
    for (let i = children[record].length - 1; i >= 0; i--) stack.push(children[record][i]);
  }
  for (let i = order.length - 1; i >= 0; i--) if (parents[order[i]] >= 0) size[parents[order[i]]] += size[order[i]];
  let next = 0, before = 1;
  for (const root of roots) {
    if (next && Math.max(before, size[root]) > 1) next++; // an empty row parts trees
    first[root] = next;
    next += before = size[root];
  }
  for (const record of order) {
    const branches = children[record].sort((a, b) => size[a] - size[b] || a - b);
    let row = first[record];
    const above = branches.filter((_, i) => i % 2 === 0).reverse(), below = branches.filter((_, i) => i % 2 === 1);
    for (const member of [...above, record, ...below])
      if (member === record) rows[record] = row++;
      else {
        first[member] = row;
        row += size[member];
      }
  }
  return { rows, depth, order, below: size.map((n) => n - 1) };
}

// How far right: the date, or the depth; without a date where the parent is, or at the first of all.
function treeColumns(parents, depth, order) {
  if (!data.dates) return depth;
  const earliest = d3.min(data.dates) ?? 0, across = new Array(T);
  for (const record of order) across[record] = data.dates[record] ?? (parents[record] >= 0 ? across[parents[record]] : earliest);
  return across;
}

function makeTree(parents) {
  const { rows, depth, order, below } = treeRows(parents), nRows = 1 + d3.max(rows);
  const across = treeColumns(parents, depth, order), atRow = new Int32Array(nRows).fill(-1);
  rows.forEach((row, record) => (atRow[row] = record));
  return {
    parents, rows, depth, across, order, below, nRows, atRow,
    support: parents.map((parent, child) => supportOf(child, parent)),
    // Records with many descendants are named first where there is not room for every name.
    byWeight: d3.range(T).sort((a, b) => below[b] - below[a] || a - b),
    domain: d3.extent(across),
  };
}
const trees = { consensus: makeTree(data.consensus), mode: makeTree(data.mode) };

const state = {
  tree: trees.consensus, which: "consensus", chosen: -1, over: -1, threshold: 0, others: "chosen", colour: null,
  view: "tree", shown: new Uint8Array(T).fill(1), supposed: [],
};
const events = d3.dispatch("choose", "tree", "look", "theme", "filter", "view", "state", "numbers");

function choose(record, centre = false) {
  state.chosen = record;
  events.call("choose", null, record, centre);
  events.call("state");
}

const isShown = (record) => state.shown[record] === 1;
const shownRecords = () => d3.range(T).filter(isShown);

const percent = (p) => (p > 0.995 && p < 1 - 1e-9 ? ">\u00a099\u00a0%" : p > 0 && p < 0.005 ? "<\u00a01\u00a0%" : `${Math.round(100 * p)}\u00a0%`);
const short = d3.format(".4~g");
const many = d3.format(",");
const counted = (n, noun) => `${many(n)} ${noun}${n === 1 ? "" : "s"}`;
const dateText = d3.utcFormat("%-d\u00a0%b\u00a0%Y");
const isoText = d3.utcFormat("%Y-%m-%d");
const dayText = (v) => (data.calendar ? dateText(new Date(v * 864e5)) : `day\u00a0${short(v)}`);
const cut = (text, n) => (text.length > n ? text.slice(0, n - 1) + "…" : text);
const parentName = (parent) => (parent < 0 ? "no parent (a root)" : data.ids[parent]);
const FONT = "system-ui, 'Segoe UI', 'DejaVu Sans', sans-serif";

// Before the page is printed, and after.
const onPaper = () => matchMedia("print").matches;
function whenOnPaper(change) {
  matchMedia("print").addEventListener("change", (event) => change(event.matches));
  addEventListener("beforeprint", () => change(true));
  addEventListener("afterprint", () => change(false));
}

const pick = (record, length = 80) =>
  make("button", { class: "pick", type: "button", title: data.ids[record], onclick: () => choose(record, true) },
    make("bdi", {}, cut(data.ids[record], length)));

// Two records' sequences, site by site: each is a list of runs that differ from the reference.
function differences(column, record, other) {
  const spread = (runs) => new Map((runs ?? []).flatMap(([at, letters]) => [...letters].map((letter, i) => [at + i, letter])));
  if (!column.differences[record] || !column.differences[other]) return null;
  const mine = spread(column.differences[record]), theirs = spread(column.differences[other]), reference = column.reference;
  const sites = [...new Set([...mine.keys(), ...theirs.keys()])].sort((a, b) => a - b);
  const pairs = sites.map((site) => [site, theirs.get(site) ?? reference[site], mine.get(site) ?? reference[site]]);
  const changed = pairs.filter(([, a, b]) => a !== b);
  const read = changed.filter(([, a, b]) => a !== "?" && b !== "?");
  return { changes: read.map(([site, a, b]) => `${a}${site + 1}${b}`), unread: changed.length - read.length };
}
