// How many records each day, week or longer, in the colours of the legend; and where records were.
function startCurve() {
  const DAYS = [1, 2, 7, 14, 28, 91, 182, 365, 730, 1826, 3652];
  makeChart("curve", {
    height: (W) => Math.min(430, Math.max(240, 0.45 * W)),
    paint(pen, W, H) {
      pen.clearRect(0, 0, W, H);
      const left = 46, bottom = H - 28, shown = shownRecords(), across = data.dates ?? state.tree.depth;
      const dated = shown.filter((i) => across[i] !== null), scale = timeScale(left, W - 16), [low, high] = scale.domain();
      const want = (high - low) / Math.min(60, (W - left) / 12);
      const step = data.dates && data.calendar ? DAYS.find((d) => d >= want) ?? DAYS.at(-1) : data.dates ? d3.tickStep(0, high - low, Math.min(60, (W - left) / 12)) : 1;
      const first = Math.floor(low / step + 1e-9) * step, end = Math.max(high, first + step * (Math.floor((high - first) / step) + 1));
      scale.domain([first, end]);
      const { buckets, colours } = state.colour, bins = d3.group(dated, (i) => Math.floor((across[i] - first) / step + 1e-9));
      const most = d3.max(bins.values(), (g) => g.length) ?? 1, y = d3.scaleLinear([0, most], [bottom, 34]).nice(5);
      timeAxis(pen, scale, bottom, bottom, W);
      writing(pen, 12, "right");
      for (const v of y.ticks(5).filter(Number.isInteger)) {
        line(pen, [[left, Math.round(y(v)) + 0.5], [W - 16, Math.round(y(v)) + 0.5]], theme.line, 1);
        pen.fillText(many(v), left - 8, y(v));
      }
      const span = step === 1 && (data.calendar || !data.dates) ? "" : data.calendar && data.dates ? (step === 7 ? "week" : step === 365 ? "year" : `${step} days`) : short(step);
      writing(pen, 12, "left");
      pen.fillText(data.dates && data.calendar && step === 1 ? "records a day" : !data.dates ? "records of each generation" : `records in each ${span || "unit of time"}`, left + 4, 14);
      const marks = [], gap = scale(first + step) - scale(first) > 5 ? 1 : 0;
      for (const [bin, group] of bins) {
        const x0 = scale(first + bin * step), wide = scale(first + (bin + 1) * step) - x0 - gap;
        const parts = d3.rollups(group, (g) => g, (i) => buckets[i]).sort((a, b) => (a[0] < 0 ? 1e9 : a[0]) - (b[0] < 0 ? 1e9 : b[0]));
        let below = 0;
        for (const [bucket, records] of parts) {
          const top = y(below + records.length), tall = y(below) - top;
          pen.fillStyle = bucket < 0 ? theme.line : colours[bucket];
          pen.fillRect(x0, top, wide, tall);
          const when = data.dates ? (step === 1 ? dayText(first + bin * step) : `${dayText(first + bin * step)} to ${dayText(first + (bin + 1) * step - (data.calendar ? 1 : 0))}`) : `generation ${bin}`;
          const named = records.length <= 4 ? `: ${records.map((i) => cut(data.ids[i], 24)).join(", ")}` : "";
          marks.push({ x: x0, y: top, w: wide, h: tall, record: records.length === 1 ? records[0] : -1, text: `${when} · ${many(records.length)} of ${many(group.length)}${named}` });
          below += records.length;
        }
        if (group.includes(state.chosen)) {
          pen.beginPath();
          pen.rect(x0 - 0.5, y(group.length) - 1, wide + 1, bottom - y(group.length) + 1);
          pen.strokeStyle = theme.choose;
          pen.lineWidth = 2;
          pen.stroke();
        }
      }
      if (dated.length < shown.length) {
        writing(pen, 12, "right");
        pen.fillText(`${many(shown.length - dated.length)} without a date`, W - 16, 14);
      }
      return marks;
    },
  });
}

const NAMED = 60; // records in view of a map, up to which they are named

function startMap() {
  const places = data.columns.filter((c) => c.points && c.points.some((p) => p !== null)), select = byId("map-place");
  byId("view-map").hidden = !places.length;
  if (!places.length) return;
  select.append(...places.map((c, i) => make("option", { value: i }, c.name)));
  select.closest("label").hidden = places.length < 2;
  const canvas = byId("map-canvas");
  let moved = d3.zoomIdentity, frame = null, wanted = null;
  const zoom = d3.zoom().scaleExtent([1, 400]).clickDistance(4).on("zoom", ({ transform }) => {
    moved = transform;
    // A finger on the whole map scrolls the page; inside an enlarged one it moves the map.
    canvas.style.touchAction = moved.k > 1.01 ? "none" : "pan-y";
    chart.redraw();
  }).on("end", () => events.call("state"));
  const hand = d3.select(canvas).call(zoom).on("dblclick.zoom", null);
  byId("map-in").addEventListener("click", () => hand.call(zoom.scaleBy, 1.6));
  byId("map-out").addEventListener("click", () => hand.call(zoom.scaleBy, 1 / 1.6));
  byId("map-fit").addEventListener("click", () => hand.call(zoom.transform, d3.zoomIdentity));
  events.on("choose.map-centre", (record, centre) => {
    const mark = centre && moved.k > 1 && window.outtrees.mapMarks().find((m) => m.record === record);
    if (mark) hand.call(zoom.translateTo, ...moved.invert([mark.x, mark.y]));
  });
  select.addEventListener("change", () => {
    hand.call(zoom.transform, d3.zoomIdentity);
    chart.redraw();
    events.call("state");
  });
  // Of the address: the place, how far it is enlarged, and what lies in the middle, in units of the map.
  state.readMap = () => {
    const found = select.value === "0" ? {} : { place: places[select.value].name };
    if (wanted) return { ...found, zoom: wanted.join(" ") };
    if (!frame || moved.k < 1.001) return found;
    const [x, y] = moved.invert([frame.W / 2, frame.H / 2]);
    return { ...found, zoom: [moved.k, frame.x + (x - frame.W / 2) / frame.k, frame.y - (y - frame.H / 2) / frame.k].map((v) => +v.toPrecision(9)).join(" ") };
  };
  state.setMap = ({ place, zoom: text }) => {
    const at = places.findIndex((c) => c.name === place), numbers = (text ?? "").split(" ").map(Number);
    if (at >= 0) select.value = at;
    if (numbers.length === 3 && numbers.every(Number.isFinite) && numbers[0] >= 1 && numbers[0] <= 400) wanted = numbers;
    chart.redraw();
  };
  const chart = makeChart("map", {
    height: (W) => Math.max(280, Math.min(560, 0.75 * W)),
    paint(pen, W, H) {
      const column = places[select.value || 0], shown = shownRecords().filter((i) => column.points[i]);
      pen.clearRect(0, 0, W, H);
      const all = column.points.filter((p) => p), [x0, x1] = d3.extent(all, (p) => p[0]), [y0, y1] = d3.extent(all, (p) => p[1]);
      const room = 34, k = Math.min((W - 2 * room) / (x1 - x0 || 1), (H - 2 * room) / (y1 - y0 || 1));
      const px = (x) => moved.applyX(W / 2 + k * (x - (x0 + x1) / 2)), py = (y) => moved.applyY(H / 2 - k * (y - (y0 + y1) / 2));
      zoom.translateExtent([[0, 0], [W, H]]);
      frame = { W, H, k, x: (x0 + x1) / 2, y: (y0 + y1) / 2 };
      if (wanted) {
        const [far, x, y] = wanted, bx = W / 2 + k * (x - frame.x), by = H / 2 - k * (y - frame.y);
        wanted = null;
        moved = d3.zoomIdentity.translate(W / 2 - far * bx, H / 2 - far * by).scale(far);
        hand.property("__zoom", moved); // as if it had been zoomed so
        canvas.style.touchAction = far > 1.01 ? "none" : "pan-y";
      }
      // Records at one place stand in a spiral around it.
      const r = shown.length > 800 ? 2.5 : 5, at = new Array(T), taken = new Map();
      for (const i of shown) {
        const [x, y] = column.points[i], key = `${x} ${y}`, n = taken.get(key) ?? 0, turn = 2.39996 * n;
        taken.set(key, n + 1);
        at[i] = [px(x) + 1.9 * r * Math.sqrt(n) * Math.cos(turn), py(y) + 1.9 * r * Math.sqrt(n) * Math.sin(turn)];
      }
      const note = drawLinks(pen, shown, at, ([ax, ay], [bx, by]) => {
        pen.moveTo(ax, ay);
        pen.quadraticCurveTo((ax + bx) / 2 + 0.12 * (by - ay), (ay + by) / 2 - 0.12 * (bx - ax), bx, by);
      });
      for (const i of shown) dot(pen, ...at[i], r, state.colour.buckets[i]);
      if (at[state.chosen]) ring(pen, ...at[state.chosen], r + 4, theme.choose, 2.4);
      names(pen, W, H, shown, at, r);
      scaleBar(pen, W, H, k * moved.k, column.unit);
      writing(pen, 12, "left");
      const without = shownRecords().length - shown.length;
      pen.fillText([without ? `${many(without)} without a place` : "", note].filter(Boolean).join("; "), 8, 10);
      return shown.map((i) => ({ x: at[i][0], y: at[i][1], r, record: i }));
    },
  });

  // The chosen record's name, and those of all in view if they are few, none over another or a point.
  function names(pen, W, H, shown, at, r) {
    const inView = shown.filter((i) => at[i][0] > 0 && at[i][0] < W && at[i][1] > 0 && at[i][1] < H), boxes = [];
    const points = inView.length > NAMED ? [] : inView;
    for (const i of new Set([...(at[state.chosen] ? [state.chosen] : []), ...points])) {
      writing(pen, 12, "left", theme.ink);
      const text = cut(data.ids[i], 28), x = at[i][0] + r + 4, y = at[i][1], wide = pen.measureText(text).width;
      const box = [x, y - 7, x + wide, y + 7], hit = (b) => b[0] < box[2] && box[0] < b[2] && b[1] < box[3] && box[1] < b[3];
      const covered = points.some((j) => j !== i && hit([at[j][0] - r, at[j][1] - r, at[j][0] + r, at[j][1] + r]));
      if (i !== state.chosen && (covered || boxes.some(hit) || box[2] > W)) continue;
      boxes.push(box);
      writeName(pen, text, x, y, theme.ink, 3);
    }
  }

  function scaleBar(pen, W, H, k, unit) {
    const length = d3.tickStep(0, W / 4 / k, 1), wide = length * k;
    if (!(wide > 4 && wide < W)) return;
    line(pen, [[12, H - 18], [12, H - 12], [12 + wide, H - 12], [12 + wide, H - 18]], theme.soft, 1.5);
    writing(pen, 11, "left");
    pen.fillText(`${short(length)} ${unit || "units"}`, 18, H - 22);
  }
}
