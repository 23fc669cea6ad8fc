// The support of every listed candidate: children down, parents across, in the tree's order.
function startMatrix() {
  const canvas = byId("matrix"), stage = byId("matrix-stage"), tip = byId("matrix-tip");
  let pen = canvas.getContext("2d"), cell, side, edge0, names, place, order, size = [0, 0];

  function draw() {
    if (!stage.clientWidth) return; // another view is shown
    order = d3.range(T).sort((a, b) => state.tree.rows[a] - state.tree.rows[b]);
    place = new Int32Array(T);
    order.forEach((record, i) => (place[record] = i));
    const gap = 6, wide = Math.min(stage.clientWidth, 760) - gap;
    // Room for "root" at least.
    const named = 14 + 6.6 * d3.max(data.ids, (id) => Math.max(4, Math.min(14, id.length)));
    names = (wide - named) / (T + 1) >= 11;
    edge0 = names ? named : 22;
    const room = wide - edge0;
    cell = Math.min(26, room / (T + 1));
    side = cell * T;
    const width = edge0 + cell + gap + side + 2, height = edge0 + side + 2, ratio = window.devicePixelRatio || 1;
    canvas.width = width * ratio;
    canvas.height = height * ratio;
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    draw.left = edge0 + Math.max(cell, 3) + gap; // where the parents' columns begin
    size = [width, height];
    paint();
  }

  function paint() {
    pen.fillStyle = theme.page;
    pen.fillRect(draw.left, edge0, side, side);
    pen.fillRect(edge0, edge0, Math.max(cell, 3), side);
    const mark = Math.max(cell - (cell > 6 ? 1 : 0), 2);
    // Strong ones last, so that they stay on top where several share a pixel.
    for (const e of edges.slice().sort((a, b) => a.support - b.support)) {
      if (e.support < 0.001 || !isShown(e.child)) continue;
      pen.fillStyle = theme.shade(e.support);
      pen.fillRect(e.parent < 0 ? edge0 : draw.left + place[e.parent] * cell, edge0 + place[e.child] * cell,
        e.parent < 0 ? Math.max(mark, 3) : mark, mark);
    }
    if (state.chosen >= 0) {
      // Two thin bands: the candidates of the record across, its possible children down.
      pen.fillStyle = theme.choose;
      pen.globalAlpha = cell > 4 ? 0.25 : 0.7;
      const y = edge0 + place[state.chosen] * cell, x = draw.left + place[state.chosen] * cell, band = Math.max(cell, 1);
      pen.fillRect(edge0, y, draw.left + side - edge0, band);
      pen.fillRect(x, edge0, band, side);
      pen.globalAlpha = 1;
    }
    pen.fillStyle = theme.soft;
    pen.font = `11px ${FONT}`;
    pen.textBaseline = "middle";
    if (names) labels();
    else {
      pen.textAlign = "left";
      pen.fillText("parent →", draw.left, edge0 / 2);
      pen.save();
      pen.translate(edge0 / 2, edge0 + 8);
      pen.rotate(Math.PI / 2);
      pen.fillText("child →", 0, 0);
      pen.restore();
    }
  }

  function labels() {
    order.forEach((record, i) => {
      const at = edge0 + (i + 0.5) * cell, text = cut(data.ids[record], 14);
      pen.textAlign = "right";
      pen.fillText(text, edge0 - 6, at);
      up(text, draw.left + (i + 0.5) * cell);
    });
    up("root", edge0 + cell / 2);
  }

  function up(text, x) {
    pen.save();
    pen.translate(x, edge0 - 6);
    pen.rotate(-Math.PI / 2);
    pen.textAlign = "left";
    pen.fillText(cut(text, Math.floor((edge0 - 8) / 6)), 0, 0);
    pen.restore();
  }

  function edgeAt([x, y]) {
    const reach = Math.max(0.5, 4 / cell), row = (y - edge0) / cell - 0.5;
    const column = x < draw.left - 3 ? -1 : (x - draw.left) / cell - 0.5;
    if (x < edge0 || y < edge0 || y > edge0 + side) return null;
    let best = null, nearest = Infinity;
    for (let r = Math.max(0, Math.ceil(row - reach)); r <= Math.min(T - 1, row + reach); r++)
      for (const e of candidates[order[r]]) {
        if (e.support < 0.001 || (column === -1) !== (e.parent < 0)) continue;
        const off = e.parent < 0 ? 0 : Math.abs(place[e.parent] - column);
        if (off <= reach && off + Math.abs(r - row) < nearest) [best, nearest] = [e, off + Math.abs(r - row)];
      }
    return best;
  }

  canvas.addEventListener("pointermove", (event) => {
    const point = d3.pointer(event, canvas), found = edgeAt(point);
    tip.hidden = !found;
    canvas.classList.toggle("over", Boolean(found));
    if (!found) return;
    const from = found.parent < 0 ? "has no parent here" : `from ${cut(data.ids[found.parent], 60)}`;
    showTip(tip, `${cut(data.ids[found.child], 60)} ${from}: ${percent(found.support)}`, point, stage.clientWidth, size[1]);
  });
  canvas.addEventListener("pointerleave", () => (tip.hidden = true));
  canvas.addEventListener("click", (event) => {
    const found = edgeAt(d3.pointer(event, canvas));
    if (found) choose(found.child, true);
  });
  const key = () => byId("matrix-key").replaceChildren(make("span", { class: "title" }, "support"), make("span", {}, "0 %", gradient(theme.shade), "100 %"));
  events.on("choose.matrix tree.matrix filter.matrix view.matrix", draw);
  pictures.matrix = {
    size: () => size,
    canvas,
    paint: (other) => {
      const own = pen;
      pen = other;
      paint();
      pen = own;
    },
  };
  events.on("theme.matrix", () => { key(); draw(); });
  whenWider(stage, draw);
  key();
  draw();
  // For tests that click on a pair.
  window.outtrees.cell = (child, parent) => [
    parent < 0 ? edge0 + 1 : draw.left + (place[parent] + 0.5) * cell, edge0 + (place[child] + 0.5) * cell,
  ];
}
