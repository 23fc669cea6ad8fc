// Exact sums over all trees, by the elimination of Python's trees/elimination.py: nodes leave one by
// one, nothing is ever subtracted, so no digit is lost. Records that cannot form a cycle with others
// (dates) are no matrix at all: a component of one record is a plain sum over its choices.
const LIMIT = 1e140; // times and pivots must stay within this factor of one; see Python

class Impossible extends Error {}
class OutOfRange extends Error {}

// graph: {T, start (T+1), parent (E), groups, single}, edges sorted by child → {logZ, edge, root}
function sumOverTrees(graph, logWeight, logRoot) {
  const { T, start, parent } = graph;
  const edge = new Float64Array(parent.length), root = new Float64Array(T);
  const { component, members } = components(graph, logWeight);
  const sinks = graph.single ? onlySinks(graph, logWeight, component, members) : null;
  let logZ = 0;
  members.forEach((records, c) => {
    const rooted = !graph.single || sinks.has(c);
    const one = records.length === 1;
    const found = (one ? aloneIn : graph.single && rooted ? treesIn : forestsIn)(records, rooted);
    logZ += found;
  });
  return { logZ, edge, root };

  // A record whose parents all stand outside its component chooses among them.
  function aloneIn([u], rooted) {
    let top = rooted ? logRoot[u] : -Infinity, total = 0;
    for (let e = start[u]; e < start[u + 1]; e++) top = Math.max(top, logWeight[e]);
    if (top === -Infinity) throw new Impossible();
    for (let e = start[u]; e < start[u + 1]; e++) total += edge[e] = Math.exp(logWeight[e] - top);
    if (rooted) total += root[u] = Math.exp(logRoot[u] - top);
    for (let e = start[u]; e < start[u + 1]; e++) edge[e] /= total;
    root[u] /= total;
    return top + Math.log(total);
  }

  // Node 0 is what every tree of the component hangs from: parents outside it, or none at all.
  function forestsIn(records, rooted) {
    const n = records.length + 1, c = component[records[0]];
    const place = new Map(records.map((u, i) => [u, i + 1]));
    const q = new Float64Array(n * n), scale = new Float64Array(n);
    records.forEach((u, i) => {
      const row = (i + 1) * n;
      scale[i + 1] = best(u, rooted);
      for (let e = start[u]; e < start[u + 1]; e++)
        q[row + (component[parent[e]] === c ? place.get(parent[e]) : 0)] += Math.exp(logWeight[e] - scale[i + 1]);
      if (rooted) q[row] += Math.exp(logRoot[u] - scale[i + 1]);
    });
    const rho = new Float64Array(n);
    rho[0] = 1;
    const { M, logs } = eliminated(q, n, rho);
    records.forEach((u, i) => {
      const row = (i + 1) * n;
      for (let e = start[u]; e < start[u + 1]; e++)
        edge[e] = Math.exp(logWeight[e] - scale[i + 1]) * M[row + (component[parent[e]] === c ? place.get(parent[e]) : 0)];
      if (rooted) root[u] = Math.exp(logRoot[u] - scale[i + 1]) * M[row];
    });
    return logs + d3.fsum(scale);
  }

  // The component that holds the one root of its group; the likeliest root stays last.
  function treesIn(records) {
    const n = records.length, scales = records.map((u) => best(u, false));
    const first = d3.maxIndex(records, (u, i) => logRoot[u] - scales[i]);
    [records[0], records[first]] = [records[first], records[0]];
    [scales[0], scales[first]] = [scales[first], scales[0]];
    const place = new Map(records.map((u, i) => [u, i]));
    const q = new Float64Array(n * n), rho = new Float64Array(n), shift = logRoot[records[0]] - scales[0];
    if (shift === -Infinity) throw new Impossible();
    records.forEach((u, i) => {
      for (let e = start[u]; e < start[u + 1]; e++) q[i * n + place.get(parent[e])] = Math.exp(logWeight[e] - scales[i]);
      rho[i] = Math.exp(logRoot[u] - scales[i] - shift);
    });
    const { M, logs, x, rho0 } = eliminated(q, n, rho);
    records.forEach((u, i) => {
      for (let e = start[u]; e < start[u + 1]; e++) edge[e] = Math.exp(logWeight[e] - scales[i]) * M[i * n + place.get(parent[e])];
      root[u] = (rho[i] * x[i]) / rho0;
    });
    return logs + shift + d3.fsum(scales);
  }

  function best(u, rooted) {
    let top = rooted ? logRoot[u] : -Infinity;
    for (let e = start[u]; e < start[u + 1]; e++) top = Math.max(top, logWeight[e]);
    if (top === -Infinity) throw new Impossible();
    return top;
  }
}

// q (n, n) is replaced by its factors: U above the diagonal, P below. M is the derivative of log Z.
function eliminated(q, n, rho) {
  const s = new Float64Array(n).fill(1), x = new Float64Array(n), time = new Float64Array(n), y = new Float64Array(n);
  for (let k = n - 1; k > 0; k--) {
    const row = k * n;
    let pivot = 0;
    for (let j = 0; j < k; j++) pivot += q[row + j];
    if (!(pivot > 0)) throw new Impossible();
    if (!(pivot * LIMIT >= 1)) throw new OutOfRange();
    s[k] = pivot;
    for (let j = 0; j < k; j++) q[row + j] /= pivot;
    for (let i = 0; i < k; i++) {
      const rate = q[i * n + k], own = i * n;
      if (rate !== 0) for (let j = 0; j < k; j++) q[own + j] += rate * q[row + j];
    }
  }
  x[0] = 1;
  let rho0 = rho[0], wait = 0;
  for (let k = 1; k < n; k++) {
    let inflow = 0, spent = 1;
    for (let i = 0; i < k; i++) {
      inflow += x[i] * q[i * n + k];
      spent += time[i] * q[i * n + k];
    }
    x[k] = inflow / s[k];
    time[k] = spent / s[k];
    rho0 += rho[k] * x[k];
    wait += rho[k] * time[k];
    if (!(x[k] <= LIMIT && time[k] <= LIMIT)) throw new OutOfRange();
  }
  if (!(rho0 > 0)) throw new Impossible();
  if (!(d3.max(x) * wait <= LIMIT * rho0)) throw new OutOfRange();
  for (let k = n - 1; k > 0; k--) {
    let sum = rho[k] / rho0;
    for (let i = k + 1; i < n; i++) sum += q[k * n + i] * y[i];
    y[k] = sum / s[k];
  }
  const M = new Float64Array(n * n), flow = new Float64Array(n);
  for (let k = 1; k < n; k++) {
    const row = k * n;
    flow.fill(0);
    for (let i = 0; i < k; i++) {
      const own = i * n, rate = q[own + k];
      let sum = 0;
      for (let j = 0; j < k; j++) {
        sum += M[own + j] * q[row + j];
        flow[j] += rate * M[own + j];
      }
      M[own + k] = sum + y[k] * x[i];
    }
    let rest = 1 - y[k] * s[k] * x[k];
    for (let j = 0; j < k; j++) rest -= flow[j] * q[row + j];
    for (let j = 0; j < k; j++) M[row + j] = (flow[j] + rest) / s[k];
  }
  return { M, x, rho0, logs: d3.fsum([...s.map(Math.log), Math.log(rho0)]) };
}

// Strongly connected components of child → parent (Tarjan, without recursion): parents' come first.
function components({ T, start, parent }, logWeight) {
  const index = new Int32Array(T).fill(-1), low = new Int32Array(T), next = start.slice(0, T);
  const component = new Int32Array(T).fill(-1), members = [], stack = [], path = [];
  let count = 0;
  for (let first = 0; first < T; first++) {
    if (index[first] >= 0) continue;
    path.push(first);
    while (path.length) {
      const u = path[path.length - 1];
      if (index[u] < 0) {
        index[u] = low[u] = count++;
        stack.push(u);
      }
      let deeper = -1;
      while (next[u] < start[u + 1] && deeper < 0) {
        const e = next[u]++, v = parent[e];
        if (logWeight[e] === -Infinity) continue;
        if (index[v] < 0) deeper = v;
        else if (component[v] < 0) low[u] = Math.min(low[u], index[v]);
      }
      if (deeper >= 0) {
        path.push(deeper);
        continue;
      }
      path.pop();
      if (path.length) low[path[path.length - 1]] = Math.min(low[path[path.length - 1]], low[u]);
      if (low[u] !== index[u]) continue;
      const records = [];
      for (let v = -1; v !== u; ) {
        v = stack.pop();
        component[v] = members.length;
        records.push(v);
      }
      members.push(records.sort((a, b) => a - b));
    }
  }
  return { component, members };
}

// Where each group has one root, it is in the one component from which no edge leads out.
function onlySinks({ start, parent, groups }, logWeight, component, members) {
  const found = new Map();
  members.forEach((records, c) => {
    const leaves = records.some((u) => {
      for (let e = start[u]; e < start[u + 1]; e++)
        if (logWeight[e] > -Infinity && component[parent[e]] !== c) return true;
      return false;
    });
    if (leaves) return;
    const group = groups[records[0]];
    if (found.has(group)) throw new Impossible();
    found.set(group, c);
  });
  return new Set(found.values());
}

// The tree with the largest sum of supports (Chu and Liu, Edmonds): each record's best choice, and
// where choices go in a circle, the circle becomes one record and is asked again.
function bestTree(T, choices /* [child, parent or −1, support] */, single) {
  // Roots cost more than any support where there should be one alone.
  const list = choices.map(([u, v, s], i) => ({ u: u + 1, v: v + 1, s: v < 0 && single ? s - T - 1 : s, from: i }));
  const chosen = arborescence(T + 1, list), parents = new Array(T).fill(-1);
  for (const i of chosen) parents[choices[i][0]] = choices[i][1];
  return parents;
}

function arborescence(n, list) {
  const best = new Array(n).fill(null);
  for (const e of list) if (e.u !== 0 && e.u !== e.v && (!best[e.u] || e.s > best[e.u].s)) best[e.u] = e;
  const seen = new Int32Array(n), ring = new Int32Array(n).fill(-1);
  let rings = 0;
  for (let first = 1; first < n; first++) {
    let u = first;
    while (u !== 0 && best[u] && !seen[u]) {
      seen[u] = first;
      u = best[u].v;
    }
    if (u === 0 || !best[u] || seen[u] !== first || ring[u] >= 0) continue;
    for (let v = u; ring[v] < 0; v = best[v].v) ring[v] = rings;
    rings++;
  }
  if (!rings) return best.filter((e) => e !== null).map((e) => e.from);
  const name = new Int32Array(n);
  let names = 1;
  const ringName = new Int32Array(rings).fill(-1);
  for (let u = 1; u < n; u++) {
    if (ring[u] < 0) name[u] = names++;
    else if (ringName[ring[u]] < 0) name[u] = ringName[ring[u]] = names++;
    else name[u] = ringName[ring[u]];
  }
  const smaller = list.filter((e) => e.u !== 0 && name[e.u] !== name[e.v]).map((e, i) => ({
    u: name[e.u], v: name[e.v], s: ring[e.u] < 0 ? e.s : e.s - best[e.u].s, from: i, whole: e,
  }));
  const kept = arborescence(names, smaller).map((i) => smaller[i].whole), entered = new Set(kept.map((e) => e.u));
  for (let u = 1; u < n; u++) if (ring[u] >= 0 && best[u] && !entered.has(u)) kept.push(best[u]);
  return kept.map((e) => e.from);
}
