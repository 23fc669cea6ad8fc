// The rest of the page, and the start.
function startSureness() {
  const paint = () => {
    const groups = [
      ["sure (90 % or more)", (s) => s >= 0.9, 1],
      ["likely (50 to 90 %)", (s) => s >= 0.5 && s < 0.9, 0.55],
      ["open (below 50 %)", (s) => s < 0.5, 0.15],
    ].map(([name, test, shade]) => ({ name, shade, count: trees.consensus.support.filter(test).length }));
    const strip = byId("sureness"), key = byId("sureness-key");
    const text = groups.map((g) => `${d3.format(",")(g.count)} ${g.name}`);
    strip.replaceChildren(...groups.filter((g) => g.count).map((g) => make("span", { "width%": (100 * g.count) / T, colour: theme.shade(g.shade) })));
    strip.setAttribute("aria-label", `Support of the records' parents: ${text.join(", ")}`);
    key.replaceChildren("Parents: ", ...groups.map((g, i) => make("span", {}, make("i", { colour: theme.shade(g.shade) }), text[i])));
  };
  events.on("theme.sureness tree.sureness", paint);
  paint();
}

function startSearch() {
  const input = byId("search"), list = byId("found"), lower = data.ids.map((id) => id.toLowerCase());
  let found = [], active = 0;

  const close = () => {
    list.hidden = true;
    input.setAttribute("aria-expanded", "false");
    input.removeAttribute("aria-activedescendant");
  };
  function show() {
    const text = input.value.trim().toLowerCase();
    if (!text) return close();
    const rank = (i) => (lower[i] === text ? 0 : lower[i].startsWith(text) ? 1 : 2);
    const all = d3.range(T).filter((i) => lower[i].includes(text)).sort((a, b) => rank(a) - rank(b) || a - b);
    found = all.slice(0, 12);
    active = 0;
    const rest = all.length > 12 ? `and ${all.length - 12} more` : all.length ? null : "no record has this in its name";
    list.replaceChildren(
      ...found.map((i, n) => {
        const item = make("li", { role: "option", id: `found-${n}` }, make("bdi", {}, cut(data.ids[i], 80)));
        item.addEventListener("pointerdown", (event) => {
          event.preventDefault();
          take(n);
        });
        return item;
      }),
      ...(rest ? [make("li", { class: "quiet", role: "presentation" }, rest)] : []),
    );
    list.hidden = false;
    input.setAttribute("aria-expanded", "true");
    mark();
  }
  function mark() {
    found.forEach((_, n) => byId(`found-${n}`).setAttribute("aria-selected", String(n === active)));
    if (found.length) input.setAttribute("aria-activedescendant", `found-${active}`);
  }
  function take(n) {
    if (found[n] === undefined) return;
    close();
    choose(found[n], true);
  }
  input.addEventListener("input", show);
  input.addEventListener("blur", close);
  input.addEventListener("keydown", (event) => {
    if (event.key === "Escape") close();
    if (event.key === "Enter") take(active);
    if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
    event.preventDefault();
    if (list.hidden) return show();
    active = (active + (event.key === "ArrowDown" ? 1 : -1) + found.length) % Math.max(1, found.length);
    mark();
  });
}

function startControls() {
  const slider = byId("support"), value = byId("support-value");
  const slide = () => {
    state.threshold = slider.value / 100;
    const kept = state.tree.support.filter((s) => s >= state.threshold).length;
    value.textContent = state.threshold > 0 ? `${slider.value} %: ${kept} of ${T}` : "0 %";
    events.call("look");
    events.call("state");
  };
  slider.addEventListener("input", slide);
  byId("others").addEventListener("change", (event) => {
    state.others = event.target.value;
    events.call("look");
    events.call("state");
  });
  byId("which").addEventListener("change", (event) => {
    state.which = event.target.value;
    state.tree = trees[state.which];
    events.call("tree");
    slide();
    if (state.chosen >= 0) choose(state.chosen);
  });
}

function startTrace() {
  const values = data.trace.map(number), box = byId("trace");
  const points = values.map((v, i) => [i, v]).filter(([, v]) => Number.isFinite(v));
  if (!points.length) return box.replaceChildren(make("p", { class: "quiet" }, "No iterations were recorded."));
  const [low, high] = d3.extent(points, (p) => p[1]);
  if (high - low < 0.1) return; // a flat line says nothing
  const W = Math.max(240, Math.min(box.clientWidth, 560)), H = 170, bottom = 34;
  const y = d3.scaleLinear([low, high], [H - bottom, 12]).nice(4);
  const left = 16 + 7 * d3.max(y.ticks(4).map(y.tickFormat(4)), (text) => text.length); // no number is cut
  const x = d3.scaleLinear([0, Math.max(1, values.length - 1)], [left, W - 14]);
  const svg = d3.select(box).append("svg").attr("width", W).attr("height", H).attr("role", "img")
    .attr("aria-label", `Penalised log-likelihood by iteration, from ${short(points[0][1])} to ${short(points.at(-1)[1])}`);
  const whole = Math.min(values.length - 1, 6);
  svg.append("g").attr("transform", `translate(0,${H - bottom})`)
    .call(d3.axisBottom(x).ticks(Math.max(1, whole)).tickFormat((v) => (Number.isInteger(v) ? v : "")).tickSizeOuter(0));
  svg.append("g").attr("transform", `translate(${left},0)`).call(d3.axisLeft(y).ticks(4).tickSizeOuter(0));
  svg.append("path").attr("class", "line").attr("d", d3.line((p) => x(p[0]), (p) => y(p[1]))(points));
  if (points.length <= 40)
    svg.selectAll("circle").data(points).join("circle").attr("cx", (p) => x(p[0])).attr("cy", (p) => y(p[1])).attr("r", 2.6);
  svg.append("text").attr("x", W - 14).attr("y", H - 4).attr("text-anchor", "end").text("iteration");
  svg.append("text").attr("class", "title").attr("x", left + 8).attr("y", 12).text("penalised log-likelihood");
}

// Parameters with their intervals, each on an axis of its own that begins at 0 and says where it ends; and
// quantities over time.
function startEstimates() {
  const box = byId("estimates"), rows = data.intervals, text = (v) => (typeof v === "number" ? short(v) : String(v));
  byId("estimates-card").hidden = !rows.length && !data.series.length;
  if (rows.length) {
    box.append(make("table", { class: "plain" },
      make("thead", {}, make("tr", {}, ...["parameter", "estimate", "95 % interval", ""].map((h, i) => make("th", { scope: "col", class: i === 1 || i === 2 ? "number" : null }, h)))),
      make("tbody", {}, ...rows.map((row) => {
        const [e, lo, hi] = [row.estimate, row.lower, row.upper].map(number), bar = make("div", { class: "interval", role: "presentation" });
        if (!row.given && [e, lo, hi].every((v) => typeof v === "number") && hi > lo) {
          const scale = d3.scaleLinear([Math.min(0, lo, e), Math.max(0, hi, e)], [0, 100]).nice(4), ends = scale.domain();
          const part = make("span", { class: "whisker" }), point = make("span", { class: "point" });
          part.style.left = `${scale(lo)}%`;
          part.style.width = `${scale(hi) - scale(lo)}%`;
          point.style.left = `${scale(e)}%`;
          bar.append(part, point, make("span", { class: "from" }, short(ends[0])), make("span", { class: "to" }, short(ends[1])));
          if (ends[0] < 0 && ends[1] > 0) {
            const zero = make("span", { class: "zero", title: "0" });
            zero.style.left = `${scale(0)}%`;
            bar.append(zero);
          }
        }
        return make("tr", {}, make("th", { scope: "row" }, row.name), make("td", { class: "number" }, text(e)),
          make("td", { class: "number" }, row.given ? "given" : typeof lo === "number" && lo === hi ? "fixed" : `${text(lo)} to ${text(hi)}`), make("td", {}, bar));
      }))), make("p", { class: "help" }, data.intervalNote));
  }
  for (const series of data.series) {
    const figure = make("figure", {}), W = Math.max(240, Math.min(box.clientWidth || 560, 640)), H = 190, left = 40, bottom = 30;
    const points = series.points.map((p) => p.map(number)), [low, high] = d3.extent(points, (p) => p[0]);
    const x = data.calendar ? d3.scaleUtc([new Date(low * 864e5), new Date(high * 864e5)], [left, W - 26]) : d3.scaleLinear([low, high], [left, W - 26]);
    const y = d3.scaleLinear([0, d3.max(points, (p) => p[3])], [H - bottom, 22]).nice(4), at = (p) => x(data.calendar ? new Date(p[0] * 864e5) : p[0]);
    const svg = d3.select(figure).append("svg").attr("width", W).attr("height", H).attr("role", "img").attr("aria-label", series.name);
    svg.append("g").attr("transform", `translate(0,${H - bottom})`).call(d3.axisBottom(x).ticks(Math.max(2, W / 110)).tickFormat(data.calendar ? d3.utcFormat(high - low > 700 ? "%b %Y" : "%-d %b") : short).tickSizeOuter(0));
    svg.append("g").attr("transform", `translate(${left},0)`).call(d3.axisLeft(y).ticks(4).tickSizeOuter(0));
    if (y.domain()[1] > 1) svg.append("line").attr("class", "one").attr("x1", left).attr("x2", W - 26).attr("y1", y(1)).attr("y2", y(1));
    svg.append("path").attr("class", "band").attr("d", d3.area(at, (p) => y(p[2]), (p) => y(p[3]))(points));
    svg.append("path").attr("class", "line").attr("d", d3.line(at, (p) => y(p[1]))(points));
    svg.selectAll("circle").data(points).join("circle").attr("cx", at).attr("cy", (p) => y(p[1])).attr("r", 2.6);
    svg.append("text").attr("class", "title").attr("x", left).attr("y", 12).text(series.name);
    figure.append(make("figcaption", { class: "help" }, series.note));
    box.append(figure);
  }
}

window.outtrees = {};
readTheme();
startSureness();
startColours();
startViews();
startTree();
startWhatIf();
startPanel();
startMatrix();
startTimeline();
startCurve();
startMap();
startTable();
startReadings();
startFilter();
startSearch();
startControls();
startSaving();
startOutline();
startTrace();
startEstimates();
window.outtrees.ready = startAddress().then(() => true);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  readTheme();
  events.call("theme");
});
