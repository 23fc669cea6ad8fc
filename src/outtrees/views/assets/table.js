// All records as a table, sorted and searched; and the readings side by side.
function startTable() {
  const PAGE = 50, box = byId("table-body"), filter = byId("table-filter"), count = byId("table-count");
  let sort = { column: -1, up: true }, page = 0;
  const cells = [
    { name: "record", get: (i) => data.ids[i], show: (i) => pick(i, 60) },
    ...(data.dates ? [{ name: "date", get: (i) => data.dates[i], show: (i) => (data.dates[i] === null ? "" : data.calendar ? isoText(new Date(data.dates[i] * 864e5)) : short(data.dates[i])), number: true }] : []),
    { name: "parent", get: (i) => (state.tree.parents[i] < 0 ? "" : data.ids[state.tree.parents[i]]), show: (i) => (state.tree.parents[i] < 0 ? "—" : pick(state.tree.parents[i], 60)) },
    { name: "support", get: (i) => state.tree.support[i], show: (i) => percent(state.tree.support[i]), number: true },
    { name: "root probability", get: (i) => data.rootProbability[i], show: (i) => percent(data.rootProbability[i]), number: true },
    { name: "expected children", get: (i) => data.expectedChildren[i], show: (i) => data.expectedChildren[i].toFixed(2), number: true },
    ...data.columns.filter((c) => c.kind !== "sequence" && !(data.dates && c.kind === "date" && c.values.every((v, i) => v === data.dates[i]))).map((c) => ({
      name: c.name, get: (i) => number(c.values[i]), show: (i) => c.text[i], number: ["continuous", "count"].includes(c.kind),
    })),
  ];
  const texts = (i) => cells.map((cell) => { const shown = cell.show(i); return typeof shown === "string" ? shown : cell.get(i); });
  state.tableRows = () => {
    const want = filter.value.trim().toLowerCase();
    const rows = shownRecords().filter((i) => !want || texts(i).some((t) => String(t).toLowerCase().includes(want)));
    if (sort.column < 0) return rows; // in the order of the file
    const { get } = cells[sort.column], way = sort.up ? 1 : -1;
    const empty = (v) => v === null || v === undefined || v === "";
    const keys = new Map(rows.map((i) => [i, get(i)]));
    return rows.sort((a, b) => empty(keys.get(a)) - empty(keys.get(b)) || way * d3.ascending(keys.get(a), keys.get(b)) || a - b);
  };
  state.tableColumns = () => cells.map((c) => c.name);
  state.tableTexts = texts;

  // Paper is too narrow for many columns: parts of the table one below the other, each with the names.
  const BESIDE = 7;
  const parts = (paper) => (paper ? d3.range(1, cells.length, BESIDE).map((c) => [0, ...d3.range(c, Math.min(c + BESIDE, cells.length))]) : [d3.range(cells.length)]);
  whenOnPaper((paper) => draw(paper));

  function draw(paper = onPaper()) {
    if (state.view !== "table") return;
    const rows = state.tableRows(), pages = Math.max(1, Math.ceil(rows.length / PAGE));
    page = Math.min(page, pages - 1);
    const head = (columns) => make("tr", {}, ...columns.map((c) => [cells[c], c]).map(([cell, c]) => make("th", { scope: "col", class: cell.number ? "number" : null, "aria-sort": sort.column === c ? (sort.up ? "ascending" : "descending") : "none" },
      make("button", { type: "button", class: "sort", onclick: () => { sort = { column: c, up: sort.column === c ? !sort.up : true }; page = 0; draw(); events.call("state"); } },
        cell.name, sort.column === c ? (sort.up ? " ↑" : " ↓") : ""))));
    const body = (columns) => rows.slice(page * PAGE, (page + 1) * PAGE).map((i) =>
      make("tr", { class: i === state.chosen ? "chosen" : null }, ...columns.map((c) => cells[c]).map((cell) => make("td", { class: cell.number ? "number" : null }, make("bdi", {}, cell.show(i))))));
    box.replaceChildren(
      ...(paper && rows.length > PAGE ? [make("p", { class: "quiet" }, `Records ${many(page * PAGE + 1)} to ${many(Math.min((page + 1) * PAGE, rows.length))} of ${many(rows.length)}; “Records, CSV” has all.`)] : []),
      ...parts(paper).map((columns) => make("table", { class: "plain" }, make("thead", {}, head(columns)), make("tbody", {}, ...body(columns)))));
    count.textContent = rows.length === T ? `${many(T)} records` : `${many(rows.length)} of ${many(T)} records`;
    byId("table-pages").textContent = `${page + 1} of ${many(pages)}`;
    byId("table-before").disabled = page === 0;
    byId("table-after").disabled = page >= pages - 1;
  }
  byId("table-before").addEventListener("click", () => { page--; draw(); events.call("state"); });
  byId("table-after").addEventListener("click", () => { page++; draw(); events.call("state"); });
  filter.addEventListener("input", () => { page = 0; draw(); events.call("state"); });
  events.on("choose.table tree.table numbers.table filter.table view.table", () => draw());
  // Of the address.
  state.readTable = () => ({ ...(sort.column >= 0 && { sort: `${sort.up ? "" : "-"}${cells[sort.column].name}` }), ...(filter.value !== "" && { search: filter.value }), ...(page > 0 && { page: page + 1 }) });
  state.setTable = ({ sort: by, search, page: at }) => {
    const column = (name) => cells.findIndex((cell) => cell.name === name);
    if (by !== undefined) sort = column(by) >= 0 ? { column: column(by), up: true } : { column: column(by.slice(1)), up: !by.startsWith("-") };
    filter.value = search ?? "";
    page = Math.max(0, (Number(at) || 1) - 1);
    draw();
  };
}

function startReadings() {
  const box = byId("readings"), button = byId("view-readings");
  button.hidden = data.readings.length < 2;
  if (data.readings.length < 2) return;
  const differs = (i) => data.readings.some((r) => r.parents[i] !== data.readings[0].parents[i]);
  function draw() {
    if (state.view !== "readings") return;
    const others = d3.range(T).filter((i) => isShown(i) && differs(i));
    if (state.chosen >= 0 && !others.includes(state.chosen)) others.unshift(state.chosen);
    const top = data.readings.map((r, n) => make("th", { scope: "col" }, r.name, make("span", { class: "quiet block" },
      `weight ${percent(r.weight)}`, n ? `, ${counted(r.parents.filter((p, i) => p !== data.readings[0].parents[i]).length, "other parent")}` : ""),
      make("div", { class: "meter" }, make("span", { "width%": 100 * r.weight }))));
    const rows = others.slice(0, 200).map((i) => make("tr", { class: i === state.chosen ? "chosen" : null }, make("th", { scope: "row" }, pick(i, 40)),
      ...data.readings.map((r) => make("td", { class: r.parents[i] !== data.readings[0].parents[i] ? "other" : null },
        r.parents[i] < 0 ? "no parent" : make("bdi", {}, cut(data.ids[r.parents[i]], 40)), " ", make("span", { class: "quiet" }, percent(r.supports[i]))))));
    box.replaceChildren(
      make("p", { class: "help" }, others.length
        ? `${others.length === 1 ? "1 record has" : `${many(others.length)} records have`} different best parents in different readings. Supports elsewhere on this page average over all readings by their weights.`
        : "All readings agree on every record's best parent."),
      make("div", { class: "scroll" }, make("table", { class: "plain" }, make("thead", {}, make("tr", {}, make("th", { scope: "col" }, "record"), ...top)), make("tbody", {}, ...rows))),
      ...(others.length > 200 ? [make("p", { class: "quiet" }, `and ${many(others.length - 200)} more`)] : []));
  }
  events.on("choose.readings filter.readings view.readings", draw);
}
