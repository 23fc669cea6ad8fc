// The tree on its canvas. Lines of equal strength and points of equal colour are drawn together:
// thousands of records stay smooth.
const LEVELS = 10;

function startTree() {
  const canvas = byId("canvas"), stage = byId("stage"), tip = byId("tip");
  let pen = canvas.getContext("2d");
  let waiting = 0, drawn = { edges: 0, names: 0 };
  const redraw = () => (waiting ||= requestAnimationFrame(draw));
  const view = makeView(canvas, redraw), axis = makeAxis(view);

  function resize() {
    const near = view.ky > 1.01 ? state.chosen : -1;
    const ratio = window.devicePixelRatio || 1;
    view.W = stage.clientWidth;
    if (!view.W) return; // another view is shown
    const room = Math.min(860, Math.max(380, window.innerHeight - 360));
    view.H = Math.min(room, Math.max(260, state.tree.nRows * ROW + AXIS + 24));
    canvas.width = view.W * ratio;
    canvas.height = view.H * ratio;
    canvas.style.height = `${view.H}px`;
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.font = `12px ${FONT}`;
    const longest = d3.max(data.ids, (id) => Math.min(28, id.length));
    view.fit(Math.min(view.W * 0.35, 74 + 7 * longest)); // names end before the buttons
    document.documentElement.style.setProperty("--tall", `${byId("tree").offsetHeight}px`);
    if (near >= 0) view.centre(near);
  }

  function draw() {
    waiting = 0;
    if (!view.W) return;
    const { W, H } = view, tree = state.tree;
    pen.clearRect(0, 0, W, H);
    drawn = { edges: 0, names: 0 };
    axis.grid(pen);
    pen.save();
    pen.beginPath();
    pen.rect(0, 0, W, H - AXIS);
    pen.clip();
    const xs = new Float32Array(T), ys = new Float32Array(T);
    for (let i = 0; i < T; i++) {
      xs[i] = view.x(tree.across[i]);
      ys[i] = view.y(tree.rows[i]);
    }
    lines(xs, ys);
    if (state.others === "all") otherParents(xs, ys);
    if (state.chosen >= 0) ancestry(state.chosen, xs, ys);
    points(xs, ys);
    names(xs, ys);
    pen.restore();
    axis.labels(pen);
  }

  const isOther = (e) =>
    e.parent >= 0 && state.tree.parents[e.child] !== e.parent && e.support >= Math.max(0.05, state.threshold);

  function lines(xs, ys) {
    const { parents, support } = state.tree;
    const levels = d3.range(LEVELS).map(() => []), faint = [];
    for (let i = 0; i < T; i++) {
      const p = parents[i];
      const left = p < 0 ? xs[i] - 20 : Math.min(xs[p], xs[i]), right = p < 0 ? xs[i] : Math.max(xs[p], xs[i]);
      const top = p < 0 ? ys[i] : Math.min(ys[p], ys[i]), bottom = p < 0 ? ys[i] : Math.max(ys[p], ys[i]);
      if (right < 0 || left > view.W || bottom < 0 || top > view.H) continue;
      drawn.edges++;
      if (support[i] < state.threshold || !isShown(i)) faint.push(i);
      else levels[Math.min(LEVELS - 1, Math.floor(support[i] * LEVELS))].push(i);
    }
    const slim = Math.min(1, 0.25 + view.row / 14);
    const mix = d3.interpolateRgb(theme["edge-weak"], theme["edge-strong"]);
    pen.globalAlpha = 0.35;
    stroke(faint, xs, ys, theme["edge-weak"], 0.8, [2, 3]);
    pen.globalAlpha = 1;
    // Where rows are closer than lines are wide, full ink would hide the shape of the tree.
    pen.globalAlpha = Math.min(1, 0.35 + view.row / 6);
    levels.forEach((group, level) => {
      const s = (level + 0.5) / LEVELS;
      stroke(group, xs, ys, mix(0.1 + 0.9 * s), Math.max(0.6, (0.6 + 3.2 * s) * slim), []);
    });
    pen.globalAlpha = 1;
  }

  function stroke(group, xs, ys, colour, width, dash) {
    if (!group.length) return;
    pen.beginPath();
    for (const i of group) elbow(xs, ys, i);
    pen.strokeStyle = colour;
    pen.lineWidth = width;
    pen.setLineDash(dash);
    pen.stroke();
    pen.setLineDash([]);
  }

  function elbow(xs, ys, i) {
    const p = state.tree.parents[i], x = xs[i], y = ys[i];
    if (p < 0) {
      pen.moveTo(x - 20, y);
      pen.lineTo(x, y);
      return;
    }
    const px = xs[p], py = ys[p], dx = x - px, dy = y - py;
    const r = view.row < 4 ? 0 : Math.min(7, Math.abs(dx), Math.abs(dy));
    pen.moveTo(px, py);
    pen.lineTo(px, y - Math.sign(dy) * r);
    if (r) pen.quadraticCurveTo(px, y, px + Math.sign(dx) * r, y);
    pen.lineTo(x, y);
  }

  function otherParents(xs, ys) {
    const inView = ({ child: c, parent: p }) =>
      Math.max(xs[c], xs[p]) > -60 && Math.min(xs[c], xs[p]) < view.W + 60 &&
      Math.max(ys[c], ys[p]) > 0 && Math.min(ys[c], ys[p]) < view.H;
    const shown = edges.filter((e) => isOther(e) && inView(e));
    if (shown.length <= 250) return shown.forEach((edge) => arc(edge, xs, ys));
    // Too many to follow one by one: the strongest, as a veil of plain lines.
    pen.beginPath();
    for (const { child: c, parent: p } of shown.sort((a, b) => b.support - a.support).slice(0, 2000)) {
      pen.moveTo(xs[p], ys[p]);
      pen.lineTo(xs[c], ys[c]);
    }
    pen.strokeStyle = theme.other;
    pen.globalAlpha = 0.3;
    pen.lineWidth = 0.6;
    pen.stroke();
    pen.globalAlpha = 1;
  }

  function arc({ child, parent, support }, xs, ys) {
    const x0 = xs[parent], y0 = ys[parent], x1 = xs[child], y1 = ys[child];
    const bend = x1 < x0 ? 40 : Math.max(24, (x1 - x0) * 0.5);
    pen.beginPath();
    pen.moveTo(x0, y0);
    pen.bezierCurveTo(x0 + bend, y0, x1 - bend, y1, x1, y1);
    pen.strokeStyle = theme.other;
    pen.globalAlpha = 0.55 + 0.45 * support;
    pen.lineWidth = 1 + 2.6 * support;
    pen.setLineDash([5, 4]);
    pen.stroke();
    pen.setLineDash([]);
    pen.globalAlpha = 1;
  }

  function ancestry(record, xs, ys) {
    const path = [];
    for (let i = record; i >= 0; i = state.tree.parents[i]) path.push(i);
    stroke(path, xs, ys, theme.accent, 2.6, []);
    if (state.others === "none") return;
    for (const edge of candidates[record])
      if (edge.parent >= 0 && edge.parent !== state.tree.parents[record] && edge.support >= 0.01) arc(edge, xs, ys);
  }

  const radius = () => Math.max(1.5, Math.min(5.5, 1.5 + view.row * 0.2));

  function points(xs, ys) {
    const { buckets, colours } = state.colour, r = radius();
    const groups = colours.map(() => []), missing = [], hidden = [];
    for (let i = 0; i < T; i++)
      if (xs[i] > -9 && xs[i] < view.W + 9 && ys[i] > -9 && ys[i] < view.H + 9)
        (!isShown(i) ? hidden : buckets[i] < 0 ? missing : groups[buckets[i]]).push(i);
    const trace = (group, size) => {
      pen.beginPath();
      for (const i of group) {
        if (size < 1.8) pen.rect(xs[i] - size, ys[i] - size, 2 * size, 2 * size);
        else {
          pen.moveTo(xs[i] + size, ys[i]);
          pen.arc(xs[i], ys[i], size, 0, 2 * Math.PI);
        }
      }
    };
    if (hidden.length) {
      trace(hidden, Math.max(1, 0.5 * r));
      pen.fillStyle = theme["edge-weak"];
      pen.fill();
    }
    pen.lineWidth = 1.3;
    groups.forEach((group, b) => {
      if (!group.length) return;
      trace(group, r);
      pen.fillStyle = colours[b];
      pen.fill();
      if (r < 3) return;
      pen.strokeStyle = theme.card; // parts the point from its lines
      pen.stroke();
    });
    if (missing.length) {
      trace(missing, Math.max(1.3, r - 0.6));
      pen.fillStyle = theme.card;
      pen.fill();
      pen.strokeStyle = theme.soft;
      pen.stroke();
    }
    const ring = (group, size, colour, width) => {
      trace(group, size);
      pen.strokeStyle = colour;
      pen.lineWidth = width;
      pen.stroke();
    };
    const roots = d3.range(T).filter((i) => state.tree.parents[i] < 0 && ys[i] > -9 && ys[i] < view.H + 9);
    if (r >= 2) ring(roots, r + 2.5, theme.ink, 1.2);
    if (state.over >= 0) ring([state.over], r + 3.5, theme.soft, 1.5);
    if (state.chosen >= 0) ring([state.chosen], r + 4, theme.choose, 2.4);
  }

  const nameAt = (i, xs) => xs[i] + radius() + 7;

  function names(xs, ys) {
    pen.textBaseline = "middle";
    const taken = new Set();
    const cells = (i, length) => {
      const keys = [], from = Math.floor(nameAt(i, xs) / 10), to = Math.floor((nameAt(i, xs) + 7 * length) / 10);
      const lines = view.row >= READABLE ? [state.tree.rows[i]] : d3.range(Math.round(ys[i] / 8) - 2, Math.round(ys[i] / 8) + 3);
      for (const line of lines) for (let c = from; c <= to; c++) keys.push(line * 4096 + c);
      return keys;
    };
    const write = (i, forced) => {
      if (xs[i] < -20 || xs[i] > view.W || ys[i] < 4 || ys[i] > view.H - AXIS) return;
      const text = cut(data.ids[i], forced ? 60 : 28), keys = cells(i, text.length);
      if (!forced && keys.some((key) => taken.has(key))) return;
      keys.forEach((key) => taken.add(key));
      drawn.names++;
      writeName(pen, text, nameAt(i, xs), ys[i], forced || (state.tree.support[i] >= state.threshold && isShown(i)) ? theme.ink : theme.soft);
    };
    if (state.chosen >= 0) write(state.chosen, true);
    // Far out, only the heads of large branches are named: names for all would hide the tree.
    const [most, least] = view.row >= READABLE ? [T, 0] : [24, 8 / view.row];
    for (const i of state.tree.byWeight) {
      if (drawn.names >= most || state.tree.below[i] < least) break;
      if (i !== state.chosen) write(i, false);
    }
  }

  function recordAt([px, py]) {
    if (py > view.H - AXIS) return -1;
    const { atRow, across, rows } = state.tree, reach = Math.max(0.5, 9 / view.row), middle = view.rowAt(py);
    let best = -1, nearest = Infinity;
    for (let row = Math.ceil(middle - reach); row <= middle + reach; row++) {
      const i = atRow[row];
      if (i === undefined || i < 0) continue;
      const x = view.x(across[i]), dy = Math.abs(view.y(rows[i]) - py);
      // The name counts as part of the point where rows are far enough apart to read it.
      const end = view.row >= READABLE ? x + 14 + 6.5 * Math.min(28, data.ids[i].length) : x;
      const dx = px < x ? x - px : px > end ? px - end : 0;
      if (dx < 11 && dx + dy < nearest) [best, nearest] = [i, dx + dy];
    }
    return best;
  }

  function hover(event) {
    const point = d3.pointer(event, canvas), record = event.type === "pointerleave" ? -1 : recordAt(point);
    canvas.classList.toggle("over", record >= 0);
    if (record !== state.over) {
      state.over = record;
      redraw();
    }
    tip.hidden = record < 0;
    if (record < 0) return;
    showTip(tip, recordText(record), point, view.W, view.H);
  }

  const step = (from, way) => {
    const { atRow, rows } = state.tree;
    for (let row = rows[from] + way; row >= 0 && row < atRow.length; row += way) if (atRow[row] >= 0) return atRow[row];
    return from;
  };
  const keys = {
    ArrowLeft: (i) => Math.max(state.tree.parents[i], -1),
    ArrowRight: (i) => state.tree.parents.indexOf(i),
    ArrowUp: (i) => step(i, -1),
    ArrowDown: (i) => step(i, 1),
  };
  canvas.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (keys[event.key]) {
      const next = state.chosen < 0 ? state.tree.atRow.find((i) => i >= 0) : keys[event.key](state.chosen);
      if (next >= 0) choose(next, true);
    } else if (event.key === "+" || event.key === "=") view.by(1.5);
    else if (event.key === "-") view.by(1 / 1.5);
    else if (event.key === "0") view.reset();
    else if (event.key === "Escape") choose(-1);
    else return;
    event.preventDefault();
  });
  canvas.addEventListener("pointermove", hover);
  canvas.addEventListener("pointerleave", hover);
  canvas.addEventListener("click", (event) => choose(recordAt(d3.pointer(event, canvas))));
  byId("zoom-in").addEventListener("click", () => view.by(1.6));
  byId("zoom-out").addEventListener("click", () => view.by(1 / 1.6));
  byId("zoom-fit").addEventListener("click", view.reset);
  events.on("choose.tree", (record, centre) => {
    if (centre && record >= 0) view.centre(record);
    redraw();
  });
  events.on("look.tree theme.tree filter.tree", redraw);
  pictures.tree = {
    size: () => [view.W, view.H],
    canvas,
    paint: (other) => {
      const own = pen;
      pen = other;
      pen.font = `12px ${FONT}`;
      draw();
      pen = own;
    },
  };
  events.on("tree.tree", resize);
  resize();
  whenWider(stage, (before) => {
    const looked = before && view.read(); // the same part of the tree, in a window of another width
    resize();
    if (looked) view.set(looked);
  });
  // For the console, and for tests that click where a record is drawn.
  Object.assign(window.outtrees, {
    where: (i) => [view.x(state.tree.across[i]), view.y(state.tree.rows[i])],
    view, draw, drawn: () => drawn, state,
  });
}
