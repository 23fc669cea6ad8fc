// Descent from beside records, as Python's ancestry/nearest_kernels.py has it: trees are drawn by the
// elimination run backwards, with the same random numbers, so that answers are the same.
function uniform(n) {
  let word = Math.imul(n, 0x9e3779b9);
  word = Math.imul(word ^ (word >>> 16), 0x85ebca6b);
  word = Math.imul(word ^ (word >>> 13), 0xc2b2ae35);
  return ((word ^ (word >>> 16)) >>> 0) / 2 ** 32;
}

// Nodes n − 1 … 1 leave. q (n, n + 1) [child, parent]: weights of edges and, last, of being the root.
function eliminateNodes(q, n, pivots) {
  const wide = n + 1;
  for (let k = n - 1; k > 0; k--) {
    const row = k * wide;
    let pivot = 0;
    for (let j = 0; j < k; j++) pivot += q[row + j];
    if (!(pivot * LIMIT >= 1)) throw new OutOfRange();
    pivots[k] = pivot;
    for (let j = 0; j < k; j++) q[row + j] /= pivot;
    q[row + n] /= pivot;
    for (let i = 0; i < k; i++) {
      const own = i * wide, rate = q[own + k];
      if (rate === 0) continue;
      for (let j = 0; j < k; j++) q[own + j] += rate * q[row + j];
      q[own + n] += rate * q[row + n];
    }
  }
}

// count trees, whose parents go to found(line, node, parent; n for the root's) → last random number's number
function drawTrees(weight, n, number, count, found) {
  const q = weight.slice(), pivots = new Float64Array(n).fill(1), wide = n + 1;
  eliminateNodes(q, n, pivots);
  const first = new Int32Array(n + 1), after = new Int32Array(n), turns = new Int32Array(n), own = new Int32Array(n);
  // The node through which the edge i → own[i] leads, n if through none: noted for its return.
  const turn = (i) => {
    const j = own[i], whole = q[i * wide + j] * (j === n || j < i ? pivots[i] : 1);
    let x = uniform(++number) * whole - weight[i * wide + j], through = n;
    for (let k = (j === n ? i : Math.max(i, j)) + 1; x >= 0 && k < n; k++) {
      const part = q[i * wide + k] * q[k * wide + j];
      if (part > 0) through = k;
      x -= part;
    }
    turns[i] = through;
    after[i] = first[through];
    first[through] = i;
  };
  for (let line = 0; line < count; line++) {
    first.fill(-1);
    own[0] = n;
    turn(0);
    for (let m = 1; m < n; m++) {
      number++;
      if (first[m] < 0) {
        let x = uniform(number);
        for (let k = 0; x >= 0 && k < m; k++) {
          if (q[m * wide + k] > 0) own[m] = k;
          x -= q[m * wide + k];
        }
      } else {
        let v = first[m], top;
        for (let i = v; i >= 0; i = after[i]) v = Math.min(v, i);
        for (; v !== n; v = own[v]) if (turns[v] === m) top = v;
        own[m] = own[top];
        for (let i = first[m], following; i >= 0; i = following) {
          following = after[i];
          own[i] = m;
          turn(i);
        }
      }
      turn(m);
    }
    for (let m = 0; m < n; m++) found(line, m, own[m]);
  }
  return number;
}

// count trees of all records → {trees (count · T), number}
function drawnTrees({ T, start, parent, groups, single }, logWeight, logRoot, roots, order, count, number) {
  const trees = new Int32Array(count * T).fill(-1);
  for (const g of single ? d3.sort(new Set(groups)) : [0]) {
    const nodes = single ? order.filter((u) => groups[u] === g) : [T, ...order];
    if (single) {
      // The likeliest root stays last; of equal ones, however rounded, the first does.
      const least = d3.max(nodes, (u) => roots[u]) - 1e-6, likely = nodes.findIndex((u) => roots[u] > least);
      [nodes[0], nodes[likely]] = [nodes[likely], nodes[0]];
    }
    const n = nodes.length, at = new Int32Array(T + 1), weight = new Float64Array(n * (n + 1));
    nodes.forEach((u, i) => (at[u] = i));
    nodes.forEach((u, i) => {
      if (u === T) return (weight[n] = 1); // the parent of all roots, and the only root
      let top = single ? -Infinity : logRoot[u];
      for (let e = start[u]; e < start[u + 1]; e++) top = Math.max(top, logWeight[e]);
      if (top === -Infinity) top = 0;
      for (let e = start[u]; e < start[u + 1]; e++) weight[i * (n + 1) + at[parent[e]]] = Math.exp(logWeight[e] - top);
      weight[i * (n + 1) + (single ? n : 0)] = Math.exp(logRoot[u] - top);
    });
    number = drawTrees(weight, n, number, count, (line, i, j) => {
      if (nodes[i] < T) trees[line * T + nodes[i]] = j === n || nodes[j] === T ? -1 : nodes[j];
    });
  }
  return { trees, number };
}

// Supports of nearest sampled ancestors, from those of edges and roots (found) and drawn trees.
function nearestSampled({ T, start, parent, single, place }, found, direct, trees, least) {
  const moreEdges = new Float64Array(parent.length), moreRoots = new Float64Array(T), chance = new Float64Array(T);
  for (let line = 0; line < trees.length; line += T) {
    const own = trees.subarray(line, line + T);
    for (let u = 0; u < T; u++) chance[u] = own[u] < 0 || (single && own[own[u]] < 0) ? 1 : direct[place[u * T + own[u]]];
    for (let u = 0; u < T; u++) {
      let here = own[u], weight = 1 - chance[u], last = here;
      while (weight > least) {
        const next = own[here], e = next < 0 ? -1 : place[u * T + next];
        if (next < 0) moreRoots[u] += weight;
        else if (e < 0) moreEdges[place[u * T + last]] += weight;
        if (e < 0) break;
        moreEdges[e] += weight * chance[here];
        weight *= 1 - chance[here];
        here = last = next;
      }
    }
  }
  const edge = new Float64Array(parent.length), root = new Float64Array(T);
  for (let u = 0; u < T; u++) {
    let aside = 0, drawn = moreRoots[u];
    for (let e = start[u]; e < start[u + 1]; e++) {
      aside += found.edge[e] * (1 - direct[e]);
      drawn += moreEdges[e];
    }
    const scale = drawn > 0 ? aside / drawn : 0;
    for (let e = start[u]; e < start[u + 1]; e++) edge[e] = found.edge[e] * (drawn > 0 ? direct[e] : 1) + moreEdges[e] * scale;
    root[u] = found.root[u] + moreRoots[u] * scale;
  }
  return { edge, root };
}
