// What if: supports of all records under suppositions, computed here from the weights in the page.
// A supposition: {kind: "parent" | "not", child, parent (−1: none, an introduction)}.
const bytes = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0)).buffer;

class TooFew extends Error {}

// Where supports are shares of drawn trees: the shares among those that agree with what is supposed.
function byDraws() {
  const drawn = new Int16Array(bytes(data.draws)), K = drawn.length / T;
  const pairs = d3.sort(new Set(d3.range(K * T).filter((i) => drawn[i] >= 0).map((i) => (i % T) * T + drawn[i])));
  const place = new Map(pairs.map((pair, e) => [pair, e]));
  const shares = (lines) => {
    const edge = new Float64Array(pairs.length), root = new Float64Array(T);
    for (const line of lines)
      for (let u = 0; u < T; u++) {
        const v = drawn[line * T + u];
        if (v < 0) root[u]++;
        else edge[place.get(u * T + v)]++;
      }
    return { edge: edge.map((n) => n / lines.length), root: root.map((n) => n / lines.length) };
  };
  async function answer(supposed) {
    const lines = d3.range(K).filter((line) => supposed.every(({ kind, child, parent }) => (drawn[line * T + child] === parent) === (kind === "parent")));
    if (lines.length < data.enough) throw new TooFew(`Of ${many(K)} drawn trees ${many(lines.length)} agree with this, too few to tell what follows. The command draws others. In a terminal, in the folder that holds the results (from the app: where “Download everything” was unpacked), run`);
    const how = `By the ${many(lines.length)} of ${many(K)} drawn trees that agree with it; supports have errors of sampling of up to ${percent(0.5 / Math.sqrt(lines.length))}, or more, since each tree is drawn from the one before it.`;
    return { before: shares(d3.range(K)), after: shares(lines), probability: lines.length / K, how };
  }
  return { answer, child: pairs.map((pair) => Math.floor(pair / T)), parent: pairs.map((pair) => pair % T), share: 1, single: false };
}

const whatIf = data.draws ? byDraws() : !data.weights ? null : (() => {
  const { weights, groups, single, share, beside } = data.weights;
  const child = new Uint16Array(bytes(data.weights.child)), parent = new Uint16Array(bytes(data.weights.parent));
  const weighed = new Uint32Array(bytes(data.weights.weighed));
  const all = new Float64Array(bytes(data.weights.logWeight)), allRoots = new Float64Array(bytes(data.weights.logRoot));
  const allDirect = beside && new Float64Array(bytes(beside.direct));
  const E = child.length, start = new Int32Array(T + 1), place = new Int32Array(beside ? T * T : 0).fill(-1);
  for (const u of child) start[u + 1]++;
  for (let u = 0; u < T; u++) start[u + 1] += start[u];
  if (beside) child.forEach((u, e) => (place[u * T + parent[e]] = e));
  const graph = { T, start, parent, groups, single, place };
  const logMembers = weights.map(Math.log);
  let before = null; // of each member: log Z, and all supports together

  const ofEdges = (values, m, otherwise) => {
    const row = new Float64Array(E).fill(otherwise);
    weighed.forEach((e, i) => (row[e] = values[m * weighed.length + i]));
    return row;
  };

  // A member under suppositions; an edge that is supposed means descent from the record itself.
  function conditioned(m, supposed) {
    const logWeight = ofEdges(all, m, -Infinity), logRoot = allRoots.slice(m * T, (m + 1) * T);
    const direct = beside && ofEdges(allDirect, m, 1);
    let logDirect = 0;
    for (const { kind, child: u, parent: v } of supposed) {
      for (let e = start[u]; e < start[u + 1]; e++) {
        if ((parent[e] === v) === (kind === "not")) logWeight[e] = -Infinity;
        else if (beside && kind === "parent") {
          logDirect += Math.log(direct[e]);
          direct[e] = 1;
        }
      }
      if (kind === "parent" ? v >= 0 : v < 0) logRoot[u] = -Infinity;
    }
    if (logDirect === -Infinity) throw new Impossible();
    return { logWeight, logRoot, direct, logDirect };
  }

  // What f says of each member, null where it excludes what is supposed; long work makes way for
  // the page every now and then.
  async function eachMember(f) {
    const found = [];
    let rest = performance.now();
    for (let m = 0; m < weights.length; m++) {
      try {
        found.push(f(m));
      } catch (error) {
        if (!(error instanceof Impossible)) throw error;
        found.push(null);
      }
      if (performance.now() - rest > 60) {
        await new Promise((done) => setTimeout(done, 0));
        rest = performance.now();
      }
    }
    return found;
  }

  // Supports under suppositions, averaged over the members: those that foresaw them gain weight.
  async function supports(supposed, logZ) {
    const sums = await eachMember((m) => {
      const { logWeight, logRoot, logDirect } = conditioned(m, supposed), found = sumOverTrees(graph, logWeight, logRoot);
      return { ...found, log: logMembers[m] + logDirect + (logZ ? found.logZ - logZ[m] : 0) };
    });
    const possible = sums.filter((s) => s);
    if (!possible.length || (!logZ && sums.includes(null))) throw new Impossible();
    const top = d3.max(possible, (s) => s.log), total = d3.fsum(possible, (s) => Math.exp(s.log - top));
    const edge = new Float64Array(E), root = new Float64Array(T);
    let number = 0;
    await eachMember((m) => {
      if (!sums[m]) return;
      const w = Math.exp(sums[m].log - top) / total;
      let found = sums[m];
      if (beside) {
        const { logWeight, logRoot, direct } = conditioned(m, supposed), count = Math.max(2, Math.ceil(beside.trees * w - 1e-6));
        const drawn = drawnTrees(graph, logWeight, logRoot, found.root, beside.order, count, number);
        found = nearestSampled(graph, found, direct, drawn.trees, beside.least);
        number = drawn.number;
      }
      for (let e = 0; e < E; e++) edge[e] += w * found.edge[e];
      for (let u = 0; u < T; u++) root[u] += w * found.root[u];
    });
    return { edge, root, logZ: sums.map((s) => s && s.logZ), logTotal: top + Math.log(total) };
  }

  // → {before, after: {edge, root}, probability: of what is supposed}; throws Impossible, OutOfRange
  async function answer(supposed) {
    before ??= await supports([], null);
    const after = await supports(supposed, before.logZ);
    const how = beside && `Descent from a record is summed over all trees; from beside one it is averaged over ${many(beside.trees)} trees drawn as supposed, by the numbers that Python draws as well.`;
    return { before, after, probability: Math.exp(after.logTotal), how };
  }
  return { answer, child, parent, share, members: weights.length, single };
})();

const SOME = 15; // changes that are listed at once; more unfold
const RARE = 1e-9; // a supposition that is rarer than this rests on edges that are not in the page

function startWhatIf() {
  const box = byId("what-if"), evidenceOf = new Map(reported.map((e) => [e.child * (T + 1) + e.parent, e.evidence]));
  const lead = byId("lead"), reportedLead = lead.textContent;
  let run = 0, changes = [];

  // The first sentence of the page is of what is supposed, as all numbers are. The twin of Python's main_sentence.
  function sayLead(right) {
    const roots = d3.fsum(data.rootProbability);
    lead.textContent = right === null ? reportedLead
      : `${counted(T, "record")}: if what is supposed is true, the consensus tree is expected to name ${d3.format(",.1f")(right)} of ${many(T)} parents correctly `
        + `(${Math.round((100 * right) / T)}\u00a0%), given the model.${roots > 1.0005 ? ` About ${roots.toFixed(1)} records have no parent among the others.` : ""}`;
  }

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
      const why = error instanceof TooFew ? error.message
        : error instanceof OutOfRange ? "These weights leave the range of the numbers in this page. The command below answers it."
        : error instanceof Impossible ? "No tree agrees with this: it contradicts itself, the dates, or what was ruled out. The supports shown are those of the report." : null;
      const held = new Set(d3.range(whatIf.child.length).map((e) => whatIf.child[e] * T + whatIf.parent[e]));
      const absent = list.some(({ kind, child, parent }) => kind === "parent" && parent >= 0 && !held.has(child * T + parent));
      if (!why) throw error;
      if (mine !== run) return;
      use(reported, reportedNumbers, trees.base ?? trees.consensus, []);
      return show(make("p", {}, why), absent && error instanceof Impossible ? make("p", {}, "Or it is too improbable for this page to hold: the command below tells.") : null,
        absent || !(error instanceof Impossible) ? command() : null);
    }
    if (mine !== run) return; // something else was supposed meanwhile
    apply(found);
  }

  function apply({ before, after, probability, how }) {
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
    const right = d3.fsum(state.tree.support);
    sayLead(right);
    const baseRight = d3.fsum((trees.base ?? trees.consensus).support);
    const moved = d3.range(T).filter((u) => state.tree.parents[u] !== trees.base.parents[u]).length;
    show(
      make("p", {}, "What is supposed had a probability of ", make("b", { id: "what-if-probability" }, probability < 0.005 ? probability.toExponential(1) : percent(probability)),
        `. If it is true, ${right.toFixed(1)} of ${many(T)} parents of the consensus are expected to be right (before: ${baseRight.toFixed(1)}); `
        + `${moved === 1 ? "1 record has" : `${many(moved)} records have`} another best parent.`),
      probability < RARE ? make("p", { class: "quiet" }, "So rare that edges too weak to be kept in this page may matter: the command below is exact.") : null,
      probability < RARE ? command() : null,
      whatIf.share < 1 - 1e-9 ? make("p", { class: "quiet" }, `By the ${whatIf.members} heaviest members of the mixture, which hold ${percent(whatIf.share)} of its weight: all would not fit into this page.`) : null,
      how ? make("p", { class: "quiet" }, how) : null,
      data.fitted ? make("p", { class: "quiet" }, "Like the report, this takes the fitted parameters for granted: that they are uncertain is left out.") : null,
      changed(onPaper() ? Infinity : SOME),
    );
  }

  // On paper nothing can be unfolded: all changes are listed.
  whenOnPaper((paper) => {
    if (changes.length > SOME) byId("what-if-changes")?.replaceWith(changed(paper ? Infinity : SOME));
  });

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
    sayLead(null);
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
    make("p", {}, "This table is too large to be summed inside a page. In a terminal, in the folder that holds the results (from the app: where “Download everything” was unpacked), run"), command());

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
