// Every record at its date, in a row for each value of a column: who was where when, and from whom.
function startTimeline() {
  const LEFT = 118, ROW_MIN = 24, MOST = 40, select = byId("timeline-rows");
  const usable = data.columns.filter((c) => ["categorical", "label"].includes(c.kind) || (c.kind === "count" && new Set(c.values).size <= 30));
  select.append(...[...usable.map((c) => c.name), "generation"].map((name, i) => make("option", { value: i }, name)));
  select.addEventListener("change", () => {
    chart.redraw();
    events.call("state");
  });
  state.rowsName = () => select.selectedOptions[0].textContent;
  state.setRows = (name) => {
    const found = [...select.options].find((o) => o.textContent === name);
    if (found) select.value = found.value;
  };

  function rowsOf() {
    const column = usable[select.value], values = column ? column.values.map((v) => (v === null || v === "" ? null : String(number(v)))) : state.tree.depth.map(String);
    const count = d3.rollup(shownRecords().map((i) => values[i]).filter((v) => v !== null), (g) => g.length, (v) => v);
    let names = [...count.keys()].sort((a, b) => (column && column.kind !== "count" ? count.get(b) - count.get(a) || d3.ascending(a, b) : a - b));
    const rest = names.length > MOST;
    if (rest) names = names.slice(0, MOST - 1);
    const place = new Map(names.map((name, i) => [name, i]));
    const row = values.map((v) => (v === null ? -1 : place.get(v) ?? names.length));
    if (rest) names.push(`${many(count.size - names.length)} others`);
    if (shownRecords().some((i) => row[i] === -1)) {
      row.forEach((r, i) => { if (r === -1) row[i] = names.length; });
      names.push("missing");
    }
    return { names: names.length ? names : ["none"], row };
  }

  const chart = makeChart("timeline", {
    height: () => Math.max(180, Math.min(rowsOf().names.length, MOST + 1) * Math.max(ROW_MIN, Math.min(64, 420 / rowsOf().names.length)) + 40),
    paint(pen, W, H) {
      const { names, row } = rowsOf(), left = Math.min(LEFT, 0.3 * W), bottom = H - 28, tall = (bottom - 8) / names.length;
      const scale = timeScale(left + 14, W - 20), across = state.tree.across;
      pen.clearRect(0, 0, W, H);
      names.forEach((name, i) => {
        const y = 8 + i * tall;
        if (i % 2 === 0) {
          pen.fillStyle = theme.page;
          pen.fillRect(0, y, W, tall);
        }
      });
      timeAxis(pen, scale, bottom, 8, W);
      names.forEach((name, i) => {
        writing(pen, 12, "left", theme.ink);
        pen.fillText(cut(name, Math.floor(left / 7)), 6, 8 + (i + 0.5) * tall);
      });
      // Records of one row that would cover each other stand above and below its middle.
      const shown = shownRecords().sort((a, b) => across[a] - across[b]), last = new Map(), at = new Array(T), r = shown.length > 800 ? 1.8 : Math.max(2, Math.min(5.5, tall / 5));
      const lanes = Math.max(1, Math.floor((tall - 4) / (2 * r + 1)));
      for (const i of shown) {
        const x = scale(across[i]), free = last.get(row[i]) ?? new Array(lanes).fill(-Infinity);
        last.set(row[i], free);
        let lane = free.findIndex((end) => end + 2 * r + 1 <= x);
        if (lane < 0) lane = d3.minIndex(free);
        free[lane] = x;
        const off = ((lane % 2 ? 1 : -1) * Math.ceil(lane / 2)) * (2 * r + 1);
        at[i] = [x, 8 + (row[i] + 0.5) * tall + off];
      }
      const way = ([x0, y0], [x1, y1]) => {
        pen.moveTo(x0, y0);
        pen.bezierCurveTo((x0 + x1) / 2, y0, (x0 + x1) / 2, y1, x1, y1);
      };
      const note = drawLinks(pen, shown, at, way);
      if (state.chosen >= 0 && at[state.chosen] && state.others !== "none")
        for (const e of candidates[state.chosen]) {
          if (e.parent < 0 || e.parent === state.tree.parents[state.chosen] || e.support < 0.01 || !at[e.parent]) continue;
          pen.beginPath();
          pen.setLineDash([5, 4]);
          way(at[e.parent], at[state.chosen]);
          pen.strokeStyle = theme.other;
          pen.lineWidth = 1 + 2 * e.support;
          pen.stroke();
          pen.setLineDash([]);
        }
      for (const i of shown) dot(pen, ...at[i], r, state.colour.buckets[i]);
      writing(pen, 12, "right");
      writeName(pen, note, W - 8, 12, theme.soft);
      if (at[state.chosen]) {
        ring(pen, ...at[state.chosen], r + 4, theme.choose, 2.4);
        pen.font = `600 12px ${FONT}`;
        const text = cut(data.ids[state.chosen], 30), wide = pen.measureText(text).width;
        const right = at[state.chosen][0] + r + 8, x = right + wide < W - 4 ? right : right - 2 * r - 16 - wide;
        pen.textAlign = "left";
        writeName(pen, text, x, at[state.chosen][1], theme.ink);
      }
      return shown.map((i) => ({ x: at[i][0], y: at[i][1], r, record: i }));
    },
  });
}
