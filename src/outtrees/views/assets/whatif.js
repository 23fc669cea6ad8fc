// What if: supports of all records under suppositions, computed here from the weights in the page.
// A supposition: {kind: "parent" | "not", child, parent (−1: none, an introduction)}.
const whatIf = (() => {
  if (!data.weights) return null;
  const { weights, groups, single, share } = data.weights;
  const bytes = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0)).buffer;
  const child = new Uint16Array(bytes(data.weights.child)), parent = new Uint16Array(bytes(data.weights.parent));
  const all = new Float64Array(bytes(data.weights.logWeight)), allRoots = new Float64Array(bytes(data.weights.logRoot));
  const E = child.length, start = new Int32Array(T + 1);
  for (const u of child) start[u + 1]++;
  for (let u = 0; u < T; u++) start[u + 1] += start[u];
  const graph = { T, start, parent, groups, single };
  const member = (m) => ({ logWeight: all.slice(m * E, (m + 1) * E), logRoot: allRoots.slice(m * T, (m + 1) * T) });
  let before = null; // of each member: log Z, and all supports together

  function condition({ logWeight, logRoot }, supposed) {
    for (const { kind, child: u, parent: v } of supposed) {
      for (let e = start[u]; e < start[u + 1]; e++)
        if ((parent[e] === v) === (kind === "not")) logWeight[e] = -Infinity;
      if (kind === "parent" ? v >= 0 : v < 0) logRoot[u] = -Infinity;
    }
    return { logWeight, logRoot };
  }

  // Sums of the members; long work makes way for the page every now and then.
  async function mixture(supposed) {
    const found = [];
    let rest = performance.now();
    for (let m = 0; m < weights.length; m++) {
      const { logWeight, logRoot } = condition(member(m), supposed);
      try {
        found.push(sumOverTrees(graph, logWeight, logRoot));
      } catch (error) {
        if (!(error instanceof Impossible)) throw error;
        found.push(null); // this member excludes what is supposed
      }
      if (performance.now() - rest > 60) {
        await new Promise((done) => setTimeout(done, 0));
        rest = performance.now();
      }
    }
    return found;
  }

  function averaged(parts, logs) {
    const top = d3.max(logs), chances = logs.map((l) => Math.exp(l - top)), total = d3.fsum(chances);
    const edge = new Float64Array(E), root = new Float64Array(T);
    parts.forEach((part, m) => {
      const w = chances[m] / total;
      if (!part || !(w > 0)) return;
      for (let e = 0; e < E; e++) edge[e] += w * part.edge[e];
      for (let u = 0; u < T; u++) root[u] += w * part.root[u];
    });
    return { edge, root, logTotal: top + Math.log(total) };
  }

  const logMembers = weights.map(Math.log);
  // → {before, after: {edge, root}, probability: of what is supposed}; throws Impossible, OutOfRange
  async function answer(supposed) {
    if (!before) {
      const parts = await mixture([]);
      if (parts.includes(null)) throw new Impossible();
      before = { logZ: parts.map((p) => p.logZ), ...averaged(parts, logMembers) };
    }
    const parts = await mixture(supposed);
    const logs = parts.map((p, m) => (p ? logMembers[m] + p.logZ - before.logZ[m] : -Infinity));
    if (logs.every((l) => l === -Infinity)) throw new Impossible();
    const after = averaged(parts, logs);
    return { before, after, probability: Math.exp(after.logTotal) };
  }
  return { answer, child, parent, share, members: weights.length, single };
})();

const RARE = 1e-9; // a supposition that is rarer than this rests on edges that are not in the page

function startWhatIf() {
  const box = byId("what-if"), evidenceOf = new Map(reported.map((e) => [e.child * (T + 1) + e.parent, e.evidence]));
  let run = 0, changes = [];

  const words = ({ kind, child, parent }) => [
    make("bdi", {}, cut(data.ids[child], 40)),
    kind === "parent" ? (parent < 0 ? " is an introduction" : " came from ") : parent < 0 ? " has a parent here" : " did not come from ",
    parent < 0 ? null : make("bdi", {}, cut(data.ids[parent], 40)),
  ];

  state.suppose = (kind, child, parent) => {
    // One parent for each record; a parent that is ruled out cannot be supposed as well.
    const kept = state.supposed.filter((s) => s.child !== child || (kind === "not" && s.kind === "not" && s.parent !== parent));
    return supposeAll([...kept, { kind, child, parent }]);
  };
  state.supposeAll = supposeAll;

  async function supposeAll(list) {
    const mine = ++run;
    state.supposed = list;
    events.call("state");
    if (!list.length) {
      use(reported, reportedNumbers, trees.base ?? trees.consensus, []);
      box.hidden = true;
      return;
    }
    box.hidden = false;
    if (!whatIf) return show(tooLarge());
    show(make("p", { class: "quiet" }, "Summing over all trees …"));
    let found;
    try {
      found = await whatIf.answer(list);
    } catch (error) {
      if (!(error instanceof Impossible || error instanceof OutOfRange)) throw error;
      if (mine !== run) return;
      use(reported, reportedNumbers, trees.base ?? trees.consensus, []);
      return show(make("p", {}, error instanceof Impossible
        ? "No tree agrees with this: it contradicts itself, the dates, or what was ruled out. The supports shown are those of the report."
        : "These weights leave the range of the numbers in this page. The command below answers it."), error instanceof OutOfRange ? command() : null);
    }
    if (mine !== run) return; // something else was supposed meanwhile
    apply(found);
  }

  function apply({ before, after, probability }) {
    const list = [], { child, parent } = whatIf, expected = new Array(T).fill(0);
    const all = (visit) => {
      for (let e = 0; e < child.length; e++) visit(child[e], parent[e], before.edge[e], after.edge[e]);
      for (let u = 0; u < T; u++) visit(u, -1, before.root[u], after.root[u]);
    };
    changes = [];
    all((u, v, was, is) => {
      if (v >= 0) expected[v] += is;
      const evidence = evidenceOf.get(u * (T + 1) + v);
      if (is >= 1e-3 || evidence) list.push({ child: u, parent: v, support: Math.min(1, is), evidence: evidence ?? [], was });
      if (Math.abs(is - was) >= 0.01) changes.push({ child: u, parent: v, was, is });
    });
    changes.sort((a, b) => Math.abs(b.is - b.was) - Math.abs(a.is - a.was));
    const parents = bestTree(T, list.map((e) => [e.child, e.parent, e.support]), whatIf.single);
    use(list, { rootProbability: Array.from(after.root), expectedChildren: expected }, null, parents);
    const right = d3.fsum(state.tree.support), baseRight = d3.fsum((trees.base ?? trees.consensus).support);
    const moved = d3.range(T).filter((u) => state.tree.parents[u] !== trees.base.parents[u]).length;
    show(
      make("p", {}, "What is supposed had a probability of ", make("b", { id: "what-if-probability" }, probability < 0.005 ? probability.toExponential(1) : percent(probability)),
        `. If it is true, ${right.toFixed(1)} of ${many(T)} parents of the consensus are expected to be right (before: ${baseRight.toFixed(1)}); `
        + `${moved === 1 ? "1 record has" : `${many(moved)} records have`} another best parent.`),
      probability < RARE ? make("p", { class: "quiet" }, "So rare that edges too weak to be kept in this page may matter: the command below is exact.") : null,
      probability < RARE ? command() : null,
      whatIf.share < 1 - 1e-9 ? make("p", { class: "quiet" }, `By the ${whatIf.members} heaviest members of the mixture, which hold ${percent(whatIf.share)} of its weight: all would not fit into this page.`) : null,
      changed(15),
    );
  }

  function changed(most) {
    if (!changes.length) return make("p", { class: "quiet" }, "No support changes by 1 % or more.");
    const rows = changes.slice(0, most).map(({ child, parent, was, is }) => make("tr", {},
      make("td", {}, pick(child, 40)), make("td", {}, parent < 0 ? "no parent" : pick(parent, 40)),
      make("td", { class: "number" }, percent(was)), make("td", { class: "number" }, make("b", {}, percent(is)))));
    const box = make("div", { id: "what-if-changes" }, make("table", { class: "plain" },
      make("thead", {}, make("tr", {}, ...["record", "parent", "before", "if so"].map((h, i) => make("th", { scope: "col", class: i > 1 ? "number" : null }, h)))),
      make("tbody", {}, ...rows)));
    if (changes.length > most) {
      const more = make("button", { type: "button", onclick: () => box.replaceWith(changed(changes.length)) }, `all ${many(changes.length)} changes`);
      box.append(more);
    }
    return box;
  }

  function use(list, numbers, tree, parents) {
    useEdges(list);
    Object.assign(data, numbers);
    trees.base ??= trees.consensus;
    trees.consensus = tree ?? makeTree(parents);
    byId("which").disabled = !tree;
    if (!tree) byId("which").value = "consensus";
    state.which = byId("which").value;
    state.tree = trees[state.which];
    events.call("tree");
    events.call("numbers");
    if (state.chosen >= 0) events.call("choose", null, state.chosen, false);
  }

  function command() {
    const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;
    const options = state.supposed.map(({ kind, child, parent }) =>
      kind === "parent" && parent < 0 ? `--introduction ${quoted(data.ids[child])}`
      : `--${kind === "parent" ? "suppose" : "rule-out"} ${quoted(`${data.ids[child]}=${parent < 0 ? "" : data.ids[parent]}`)}`);
    return make("pre", { id: "what-if-command" }, `outtrees what-if RESULTS ${options.join(" ")}`);
  }

  const tooLarge = () => make("div", {},
    make("p", {}, data.drawn ? "Supports of the transmission model average over drawn trees, which this page does not hold. In the folder that holds the results, run"
      : "This table is too large to be summed inside a page. In the folder that holds the results, run"), command());

  function show(...content) {
    const chips = state.supposed.map((s) => make("span", { class: "chip" }, make("span", {}, ...words(s)),
      make("button", { type: "button", "aria-label": "Take this back", title: "Take this back", onclick: () => supposeAll(state.supposed.filter((x) => x !== s)) }, "✕")));
    box.replaceChildren(
      make("div", { class: "bar" }, make("h2", {}, "What if"), ...chips,
        make("button", { id: "what-if-undo", type: "button", onclick: () => supposeAll(state.supposed.slice(0, -1)) }, "Undo"),
        make("button", { id: "what-if-back", type: "button", onclick: () => supposeAll([]) }, "Back to the report")),
      ...content.filter((node) => node !== null));
  }
  window.outtrees.choose = choose;
  window.outtrees.supports = () => edges.map((e) => [e.child, e.parent, e.support]);
  window.outtrees.whatIf = whatIf;
  window.outtrees.supposeAll = supposeAll;
  window.outtrees.bestTree = bestTree;
}
