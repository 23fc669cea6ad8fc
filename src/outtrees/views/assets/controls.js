// Views, filters, downloads, the address, the outline: what stands around the pictures.
function startViews() {
  const buttons = [...document.querySelectorAll("#views [role=tab]")];
  state.show = (view) => {
    const button = byId(`view-${view}`);
    if (!button || button.hidden) return;
    state.view = view;
    for (const b of buttons) {
      const on = b.id === `view-${view}`;
      b.setAttribute("aria-selected", String(on));
      b.tabIndex = on ? 0 : -1;
      byId(b.getAttribute("aria-controls")).hidden = !on;
    }
    document.body.dataset.view = view; // the style sheet leaves out controls that this view lacks
    const strip = byId("views");
    strip.scrollLeft = Math.max(0, button.offsetLeft + button.offsetWidth - strip.clientWidth);
    events.call("view");
    events.call("state");
  };
  for (const button of buttons) {
    button.addEventListener("click", () => state.show(button.id.slice(5)));
    button.addEventListener("keydown", (event) => {
      const seen = buttons.filter((b) => !b.hidden), way = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!way) return;
      const next = seen[(seen.indexOf(button) + way + seen.length) % seen.length];
      next.focus();
      next.click();
    });
  }
}

function startFilter() {
  const column = byId("filter-column"), value = byId("filter-value"), range = byId("filter-range"), note = byId("filter-note");
  const low = byId("filter-low"), high = byId("filter-high"), from = byId("filter-from"), to = byId("filter-to");
  const usable = data.columns.filter((c) => c.kind !== "sequence" && c.kind !== "date" && c.kind !== "place");
  column.append(make("option", { value: -1 }, "no column"), ...usable.map((c, i) => make("option", { value: i }, c.name)));
  const numeric = (c) => ["continuous", "count"].includes(c.kind) && c.values.every((v) => v === null || typeof number(v) === "number");
  byId("filter-dates").hidden = !data.dates;
  if (data.dates) for (const input of [from, to]) input.type = data.calendar ? "date" : "number";
  if (data.dates && !data.calendar) for (const input of [from, to]) input.step = "any";
  const day = (input) => (input.value === "" ? null : data.calendar ? Date.parse(`${input.value}T00:00:00Z`) / 864e5 : Number(input.value));

  function fields() {
    const c = usable[column.value];
    value.closest("label").hidden = !c || numeric(c);
    range.hidden = !c || !numeric(c);
    low.value = high.value = "";
    if (!c || numeric(c)) return;
    const names = [...new Set(c.values.filter((v) => v !== null).map(String))].sort(d3.ascending);
    value.replaceChildren(make("option", { value: "*" }, "any value"), ...names.slice(0, 500).map((name, i) => make("option", { value: i }, name)), make("option", { value: "-" }, "missing"));
    value.names = names;
  }
  function apply() {
    const c = usable[column.value], a = day(from), b = day(to);
    const least = low.value === "" ? -Infinity : Number(low.value), most = high.value === "" ? Infinity : Number(high.value);
    for (let i = 0; i < T; i++) {
      const v = c ? number(c.values[i]) : null, when = data.dates ? data.dates[i] : null;
      const inColumn = !c || (numeric(c) ? (low.value === "" && high.value === "") || (v !== null && v >= least && v <= most)
        : value.value === "*" || (value.value === "-" ? v === null : String(v) === value.names[value.value]));
      const inTime = (a === null || (when !== null && when >= a)) && (b === null || (when !== null && when < b + (data.calendar ? 1 : 1e-12)));
      state.shown[i] = inColumn && inTime ? 1 : 0;
    }
    const n = d3.sum(state.shown);
    note.textContent = n === T ? "" : `${many(n)} of ${many(T)} records shown`;
    byId("filter-clear").hidden = n === T && column.value === "-1" && from.value === "" && to.value === "";
    events.call("filter");
    events.call("state");
  }
  column.addEventListener("change", () => { fields(); apply(); });
  for (const input of [value, low, high, from, to]) input.addEventListener("change", apply);
  byId("filter-clear").addEventListener("click", () => {
    column.value = -1;
    from.value = to.value = "";
    fields();
    apply();
  });
  state.readFilter = () => {
    const c = usable[column.value], found = {};
    if (c) found.column = c.name;
    if (c && numeric(c)) Object.assign(found, low.value !== "" && { low: low.value }, high.value !== "" && { high: high.value });
    else if (c && value.value !== "*") found.value = value.value === "-" ? "" : value.names[value.value];
    return Object.assign(found, from.value !== "" && { from: from.value }, to.value !== "" && { to: to.value });
  };
  state.setFilter = (f) => {
    column.value = f.column === undefined ? -1 : usable.findIndex((c) => c.name === f.column);
    if (column.selectedIndex < 0) column.value = -1;
    fields();
    [low.value, high.value, from.value, to.value] = [f.low ?? "", f.high ?? "", f.from ?? "", f.to ?? ""];
    const at = value.names ? value.names.indexOf(f.value) : -1;
    if (f.value !== undefined) value.value = f.value === "" ? "-" : at < 0 ? "*" : at;
    byId("filter").open = Object.keys(f).length > 0;
    apply();
  };
  fields();
}

// Cells that a spreadsheet would take for formulas get an apostrophe, as in Python's io/tables.py.
const NUMBER = /^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$/;
function csvCell(value) {
  let text = String(value ?? "").replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f]/g, (c) => `\\x${c.charCodeAt(0).toString(16).padStart(2, "0")}`);
  if (/^[=+@\t\r\n\uff1d\uff0b\uff0d\uff20-]/.test(text) && !NUMBER.test(text)) text = `'${text}`;
  return /[",\r\n]|^\s|\s$/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
const toCsv = (rows) => rows.map((row) => row.map(csvCell).join(",") + "\n").join("");

function toNewick() {
  const { parents, support, across } = state.tree, children = d3.range(T).map(() => []);
  parents.forEach((p, i) => p >= 0 && children[p].push(i));
  const name = (text) => (/^[A-Za-z0-9]+(\.[A-Za-z0-9]+)*$/.test(text) ? text : `'${text.replace(/[\u0000-\u001f\u007f]/g, "?").replaceAll("'", "''")}'`);
  const after = (i) => {
    const dated = data.dates && parents[i] >= 0 && data.dates[i] !== null && data.dates[parents[i]] !== null;
    const length = parents[i] < 0 || (data.dates && !dated) ? "" : `:${data.dates ? Math.max(0, across[i] - across[parents[i]]) : 1}`;
    return `${name(data.ids[i])}[&support=${+support[i].toPrecision(6)}]${length}`;
  };
  return d3.range(T).filter((i) => parents[i] < 0).map((root) => {
    const pieces = [], stack = [root];
    while (stack.length) {
      const item = stack.pop();
      if (typeof item === "string") pieces.push(item);
      else if (!children[item].length) pieces.push(after(item));
      else {
        pieces.push("(");
        stack.push(`)${after(item)}`);
        [...children[item]].reverse().forEach((child, n) => (n ? stack.push(",", child) : stack.push(child)));
      }
    }
    return pieces.join("") + ";\n";
  }).join("");
}

// One menu at a time, which the browser sees to by their name; Escape closes it.
addEventListener("keydown", (event) => {
  const menu = event.key === "Escape" && event.target.closest?.(".menu[open]");
  if (!menu) return;
  menu.open = false;
  menu.querySelector("summary").focus();
});

function startSaving() {
  const save = (name, blob) => {
    const link = make("a", { href: URL.createObjectURL(blob), download: name, class: "hidden" });
    document.body.append(link); // a link outside the page is now and then not followed
    link.click();
    link.remove();
    setTimeout(() => URL.revokeObjectURL(link.href), 60000); // a busy machine may begin to save late
  };
  const text = (name, content, kind) => save(name, new Blob([content], { type: `${kind};charset=utf-8` }));
  const png = () => {
    const { canvas } = pictures[state.view], name = `${state.view}.png`; // of now: the file is made later
    const copy = make("canvas", { width: canvas.width, height: canvas.height }), pen = copy.getContext("2d");
    pen.fillStyle = theme.card;
    pen.fillRect(0, 0, copy.width, copy.height);
    pen.drawImage(canvas, 0, 0);
    copy.toBlob((blob) => save(name, blob));
  };
  events.on("view.saving", () => {
    for (const id of ["save-svg", "save-png"]) byId(id).disabled = !pictures[state.view]; // the table and the readings
  });
  byId("save").addEventListener("click", png);
  byId("save-png").addEventListener("click", png);
  byId("save-svg").addEventListener("click", () => {
    const { size, paint } = pictures[state.view], [W, H] = size(), pen = new SvgPen(W, H);
    pen.fillStyle = theme.card;
    pen.fillRect(0, 0, W, H);
    paint(pen);
    text(`${state.view}.svg`, pen.text(), "image/svg+xml");
  });
  byId("save-records").addEventListener("click", () => text("records.csv", toCsv([state.tableColumns(), ...state.tableRows().map((i) => {
    // Numbers with all their digits; what is shown is rounded.
    const shown = state.tableTexts(i), names = state.tableColumns();
    return shown.map((cell, c) => ({ support: state.tree.support[i], "root probability": data.rootProbability[i], "expected children": data.expectedChildren[i] }[names[c]] ?? (cell === "—" ? "" : cell)));
  })]), "text/csv"));
  byId("save-parents").addEventListener("click", () => text("parents.csv", toCsv([["child", "parent", "support"],
    ...d3.range(T).filter(isShown).flatMap((i) => candidates[i].map((e) => [data.ids[i], e.parent < 0 ? "" : data.ids[e.parent], e.support]))]), "text/csv"));
  byId("save-newick").addEventListener("click", () => text("tree.newick", toNewick(), "text/plain"));
  byId("print").addEventListener("click", () => window.print());
}

// The state in the address: what is chosen, shown and supposed can be sent as a link.
function startAddress() {
  let reading = false;
  // Names are those in the page; a record whose name occurs twice goes by its number.
  const times = d3.rollup(data.ids, (g) => g.length, (id) => id);
  const nameOf = (i) => (i < 0 ? "" : times.get(data.ids[i]) === 1 && !data.ids[i].startsWith("#") ? data.ids[i] : `#${i}`);
  const byName = new Map(data.ids.map((id, i) => [id, i]));
  const recordOf = (text) => {
    if (/^#\d+$/.test(text)) return Number(text.slice(1)) < T ? Number(text.slice(1)) : -1;
    return byName.get(text) ?? -1;
  };
  function write() {
    if (reading) return;
    const found = new URLSearchParams();
    if (state.view !== "tree") found.set("view", state.view);
    if (state.chosen >= 0) found.set("record", nameOf(state.chosen));
    if (state.which !== "consensus") found.set("tree", state.which);
    if (state.colourName !== firstColour) found.set("colour", state.colourName);
    if (state.threshold > 0) found.set("support", Math.round(100 * state.threshold));
    if (state.others !== "chosen") found.set("others", state.others);
    if (state.view === "timeline") found.set("rows", state.rowsName());
    const zoom = window.outtrees.view.read();
    if (state.view === "tree" && zoom) found.set("zoom", zoom);
    if (state.view === "map") for (const [key, text] of Object.entries(state.readMap())) found.set(key, text);
    if (state.view === "table") for (const [key, text] of Object.entries(state.readTable())) found.set(key, text);
    for (const [key, text] of Object.entries(state.readFilter())) found.set(`filter-${key}`, text);
    for (const s of state.supposed) found.append(s.kind === "parent" ? "suppose" : "rule-out", JSON.stringify([nameOf(s.child), nameOf(s.parent)]));
    const hash = found.toString();
    try {
      history.replaceState(null, "", hash ? `#${hash}` : location.pathname + location.search);
    } catch {
      location.replace(`#${hash}`); // where a file may not change its history
    }
  }
  async function read() {
    const found = new URLSearchParams(location.hash.slice(1));
    reading = true;
    if (found.has("colour")) state.setColour(found.get("colour"));
    if (found.get("tree") === "mode") {
      byId("which").value = "mode";
      byId("which").dispatchEvent(new Event("change"));
    }
    const least = Number(found.get("support"));
    if (least > 0 && least <= 100) {
      byId("support").value = least;
      byId("support").dispatchEvent(new Event("input"));
    }
    if (["none", "all"].includes(found.get("others"))) {
      byId("others").value = found.get("others");
      byId("others").dispatchEvent(new Event("change"));
    }
    if (found.has("rows")) state.setRows(found.get("rows"));
    const filter = Object.fromEntries([...found].filter(([key]) => key.startsWith("filter-")).map(([key, text]) => [key.slice(7), text]));
    if (Object.keys(filter).length) state.setFilter(filter);
    if (found.has("view")) state.show(found.get("view"));
    const supposed = [["suppose", "parent"], ["rule-out", "not"]].flatMap(([key, kind]) => found.getAll(key).flatMap((text) => {
      try {
        const [child, parent] = JSON.parse(text), u = recordOf(String(child)), v = parent === "" ? -1 : recordOf(String(parent));
        return u < 0 || (parent !== "" && v < 0) ? [] : [{ kind, child: u, parent: v }];
      } catch {
        return []; // not an address that this page wrote
      }
    }));
    if (supposed.length) await state.supposeAll(supposed);
    const record = found.has("record") ? recordOf(found.get("record")) : -1;
    const own = Object.fromEntries(found), zoom = found.get("zoom");
    if (state.view === "map") state.setMap(own);
    if (state.view === "table") state.setTable(own);
    // A view that was zoomed is shown as it was; else the record stands in its middle.
    if (record >= 0) choose(record, !zoom);
    if (state.view === "tree" && zoom) window.outtrees.view.set(zoom);
    reading = false;
    write();
  }
  const firstColour = state.colourName;
  events.on("state", write);
  byId("copy-link").addEventListener("click", async () => {
    const done = byId("copied");
    try {
      await navigator.clipboard.writeText(location.href);
      done.textContent = "copied";
    } catch {
      done.textContent = "copy the address of this page";
    }
    setTimeout(() => (done.textContent = ""), 2500);
  });
  return read();
}

// The tree as a list with levels, for screen readers and keyboards; built when it is opened.
function startOutline() {
  const box = byId("outline"), list = byId("outline-list");
  let items = new Map();
  function build() {
    if (!box.open) return;
    const { order, depth, parents, support } = state.tree, children = d3.rollup(d3.range(T), (g) => g.length, (i) => parents[i]);
    items = new Map();
    list.replaceChildren(...order.map((i, n) => {
      const told = children.get(i) ? `, ${children.get(i)} ${children.get(i) === 1 ? "child" : "children"}` : "";
      const item = make("li", { role: "treeitem", "aria-level": depth[i] + 1, "aria-selected": String(i === state.chosen), tabindex: n ? -1 : 0, indent: 8 + 14 * Math.min(depth[i], 18) },
        make("bdi", {}, cut(data.ids[i], 80)), make("span", { class: "quiet" }, ` ${parents[i] < 0 ? "root" : `from ${cut(data.ids[parents[i]], 60)}`}, ${percent(support[i])}${data.dates && data.dates[i] !== null ? `, ${dayText(data.dates[i])}` : ""}${told}`));
      item.record = i;
      items.set(i, item);
      return item;
    }));
  }
  const move = (to) => {
    if (!to) return;
    list.querySelector("[tabindex='0']")?.setAttribute("tabindex", "-1");
    to.tabIndex = 0;
    to.focus();
  };
  list.addEventListener("keydown", (event) => {
    const item = event.target.closest("li"), i = item?.record;
    if (i === undefined) return;
    const actions = {
      ArrowDown: () => move(item.nextSibling), ArrowUp: () => move(item.previousSibling),
      ArrowLeft: () => move(items.get(state.tree.parents[i])), ArrowRight: () => move(items.get(state.tree.parents.indexOf(i))),
      Home: () => move(list.firstChild), End: () => move(list.lastChild), Enter: () => choose(i, true), " ": () => choose(i, true),
    };
    if (!actions[event.key]) return;
    event.preventDefault();
    actions[event.key]();
  });
  list.addEventListener("click", (event) => {
    const item = event.target.closest("li");
    if (item) choose(item.record, true);
  });
  box.addEventListener("toggle", build);
  events.on("tree.outline", build);
  events.on("choose.outline", (record) => {
    for (const item of list.querySelectorAll("[aria-selected=true]")) item.setAttribute("aria-selected", "false");
    items.get(record)?.setAttribute("aria-selected", "true");
  });
}
