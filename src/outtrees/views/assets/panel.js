// The record that was clicked: its cells, its candidate parents and what speaks for each.
function startPanel() {
  const panel = byId("panel");

  const pick = (record, length = 80) =>
    make("button", { class: "pick", type: "button", title: data.ids[record], onclick: () => choose(record, true) },
      make("bdi", {}, cut(data.ids[record], length)));

  const table = (rows) =>
    make("table", {}, make("tbody", {}, ...rows.map(([name, text]) =>
      make("tr", {}, make("th", { scope: "row" }, name), make("td", {}, make("bdi", {}, text))))));

  function meter(support) {
    return make("div", { class: "meter", role: "presentation" }, make("span", { "width%": 100 * support }));
  }

  function evidence(edge, largest) {
    const box = make("div", { class: "evidence" });
    const columns = d3.range(edge.evidence.length).sort((a, b) => Math.abs(edge.evidence[b]) - Math.abs(edge.evidence[a]));
    for (const c of columns) {
      const nats = edge.evidence[c], size = Number.isFinite(nats) ? Math.abs(nats) / largest : 1;
      const text = Number.isFinite(nats) ? Math.abs(nats) < 0.05 ? "0.0" : `${nats < 0 ? "−" : "+"}${Math.abs(nats).toFixed(1)}` : nats < 0 ? "−∞" : "+∞";
      box.append(
        make("span", { title: data.evidenceNames[c] }, data.evidenceNames[c]),
        make("div", {}, make("i", { class: nats < 0 ? "against" : "for", "width%": 50 * Math.min(1, size) })),
        make("b", {}, text),
      );
    }
    return box;
  }

  function candidateList(record) {
    const list = candidates[record], box = make("div", { id: "candidates" });
    const finite = list.flatMap((e) => e.evidence).filter(Number.isFinite).map(Math.abs);
    const largest = Math.max(1e-9, d3.max(finite) ?? 1);
    list.forEach((edge, i) => {
      const tags = [
        [trees.consensus, "consensus"], [trees.mode, "most likely tree"],
      ].flatMap(([tree, text]) => (tree.parents[record] === edge.parent ? [" ", make("span", { class: "tag" }, text)] : []));
      const name = edge.parent < 0 ? make("span", { class: "name" }, "no parent (a root)") : pick(edge.parent);
      const speaks = edge.evidence.length === 0 ? null
        : i < 3 ? evidence(edge, largest)
        : make("details", {}, make("summary", {}, "evidence"), evidence(edge, largest));
      box.append(make("div", { class: "candidate" },
        make("div", { class: "row" }, make("span", {}, name, ...tags), make("b", {}, percent(edge.support))),
        meter(edge.support), speaks));
    });
    const rest = 1 - d3.sum(list, (e) => e.support);
    if (rest >= 0.005)
      box.append(make("div", { class: "candidate row" },
        make("span", { class: "quiet" }, "all others together"), make("b", {}, percent(rest))));
    return box;
  }

  function childList(record) {
    const list = offspring[record].filter((e) => e.support >= 0.01), shown = list.slice(0, 15);
    if (!list.length) return make("p", { class: "quiet" }, "None with a support of 1 % or more.");
    const box = make("div", { id: "children" }, ...shown.map((e) =>
      make("div", {}, make("div", { class: "row" }, pick(e.child), make("b", {}, percent(e.support))), meter(e.support))));
    if (list.length > shown.length) box.append(make("p", { class: "quiet" }, `and ${list.length - shown.length} more`));
    return box;
  }

  function chosen(record) {
    const density = data.logDensity[record];
    const facts = [
      ["no parent here", percent(data.rootProbability[record])],
      ["expected children", short(data.expectedChildren[record])],
      ["log-density", typeof density === "number" ? short(density) : String(density).replace("-inf", "−∞")],
    ];
    if (data.dates) facts.unshift(["date", data.dates[record] === null ? "unknown" : dayText(data.dates[record])]);
    return [
      make("div", { class: "row" },
        make("h2", { id: "chosen" }, make("bdi", {}, data.ids[record])),
        make("button", { type: "button", "aria-label": "Close the details", onclick: () => choose(-1) }, "✕")),
      make("h3", {}, "Candidate parents"), candidateList(record),
      data.evidenceNames.length
        ? make("p", { class: "quiet" }, "Bars to the right speak for the parent, to the left against it (nats).") : null,
      make("h3", {}, "Probable children"), childList(record),
      make("h3", {}, "Its cells"), table(data.columns.map((c) => [c.name, c.text[record] === "" ? "—" : c.text[record]])),
      make("h3", {}, "Its numbers"), table(facts),
    ];
  }

  function nothingChosen() {
    const { support, parents } = trees.consensus;
    const doubtful = d3.range(T).sort((a, b) => support[a] - support[b]).slice(0, 7).filter((i) => support[i] < 0.9);
    const known = data.logDensity.map((v) => (v === "-inf" ? -Infinity : v));
    const unusual = T > 10 ? d3.range(T).sort((a, b) => d3.ascending(known[a], known[b])).slice(0, 5) : [];
    const line = (i, text) => make("div", { class: "row" }, pick(i, 40), make("b", {}, text));
    return [
      make("h2", {}, "Choose a record"),
      make("p", { class: "quiet" }, "Click one in the tree, or find it by name, to see its candidate parents and the columns that speak for each."),
      make("h3", {}, "Least certain parents"),
      doubtful.length ? null : make("p", { class: "quiet" }, "Every record's parent has a support of 90 % or more."),
      ...doubtful.map((i) => make("div", {}, line(i, percent(support[i])), make("p", { class: "quiet" }, parents[i] < 0 ? "no parent (a root)" : "from ", parents[i] < 0 ? null : make("bdi", {}, cut(data.ids[parents[i]], 60))))),
      unusual.length ? make("h3", {}, "Most unusual records (log-density)") : null,
      ...unusual.map((i) => line(i, Number.isFinite(known[i]) ? short(known[i]) : "−∞")),
    ];
  }

  const show = () => {
    panel.replaceChildren(...(state.chosen < 0 ? nothingChosen() : chosen(state.chosen)).filter((node) => node !== null));
    panel.scrollTop = 0;
    // Said aloud by screen readers, for whom the canvas is mute.
    const parent = state.tree.parents[state.chosen];
    byId("status").textContent = state.chosen < 0 ? ""
      : `${cut(data.ids[state.chosen], 80)}: ${cut(parentName(parent), 80)}, ${percent(state.tree.support[state.chosen])}`;
  };
  events.on("choose.panel", show);
  show();
}
