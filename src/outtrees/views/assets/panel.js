// The record that was clicked: its cells, its candidate parents and what speaks for each.
function startPanel() {
  const panel = byId("panel");

  const table = (rows) =>
    make("table", {}, make("tbody", {}, ...rows.map(([name, text]) =>
      make("tr", {}, make("th", { scope: "row" }, name), make("td", {}, typeof text === "string" ? make("bdi", {}, text) : text)))));

  // The buttons that suppose something, beside a candidate.
  function suppose(record, parent) {
    const on = (kind) => state.supposed.some((s) => s.kind === kind && s.child === record && s.parent === parent);
    const button = (kind, text, title) => make("button", { type: "button", class: "small", "aria-pressed": String(on(kind)), title,
      onclick: () => (on(kind) ? state.supposeAll(state.supposed.filter((s) => s.kind !== kind || s.child !== record || s.parent !== parent)) : state.suppose(kind, record, parent)) }, text);
    return make("span", { class: "suppose" },
      button("parent", parent < 0 ? "introduction" : "suppose", "What if this were so? All supports are computed anew."),
      button("not", "rule out", "What if this were not so? All supports are computed anew."));
  }

  // Any other record as a parent, by its name: of a candidate too weak to be listed.
  function supposeAnother(record) {
    const input = make("input", { id: "another", type: "search", placeholder: "Another parent", "aria-label": "Name of another parent", autocomplete: "off", spellcheck: "false" });
    const button = (kind, text) => make("button", { type: "button", class: "small", onclick: () => {
      const name = input.value.trim(), found = d3.range(T).filter((i) => name && data.ids[i].trim() === name);
      const known = found.length === 1 && found[0] !== record;
      input.setCustomValidity(known ? "" : "The parent must be another record, whose name no other has. Type its whole name.");
      if (known) state.suppose(kind, record, found[0]);
      else input.reportValidity();
    } }, text);
    input.addEventListener("input", () => input.setCustomValidity(""));
    return make("div", { class: "candidate" }, make("span", { class: "suppose" }, input, button("parent", "suppose"), button("not", "rule out")));
  }

  // What differs from the parent's sequence, instead of the sequence.
  function sequenceCell(column, record) {
    const parent = state.tree.parents[record], sites = column.reference.length;
    if (column.differences[record] === null) return "not read";
    if (parent < 0) return `${many(sites)} sites; no parent to compare with`;
    const found = differences(column, record, parent);
    if (found === null) return `${many(sites)} sites; the parent's are not read`;
    const { changes, unread } = found, box = make("span", {});
    box.append(changes.length ? `${changes.length === 1 ? "1 difference" : `${many(changes.length)} differences`} from ` : "the same as ",
      make("bdi", {}, cut(data.ids[parent], 40)), changes.length ? ": " : "");
    const show = (n) => {
      const list = make("span", { class: "sites" }, changes.slice(0, n).join(" "));
      if (changes.length > n) list.append(" ", make("button", { type: "button", class: "small", onclick: () => list.replaceWith(show(changes.length)) }, `and ${many(changes.length - n)} more`));
      return list;
    };
    box.append(show(24), make("span", { class: "quiet" }, ` (${many(sites)} sites${unread ? `, ${many(unread)} read in only one of the two` : ""})`));
    return box;
  }

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
        [trees.consensus, "consensus"], ...(state.supposed.length ? [] : [[trees.mode, "most likely tree"]]),
      ].flatMap(([tree, text]) => (tree.parents[record] === edge.parent ? [" ", make("span", { class: "tag" }, text)] : []));
      const name = edge.parent < 0 ? make("span", { class: "name" }, "no parent (a root)") : pick(edge.parent);
      const speaks = edge.evidence.length === 0 ? null
        : i < 3 ? evidence(edge, largest)
        : make("details", {}, make("summary", {}, "evidence"), evidence(edge, largest));
      box.append(make("div", { class: "candidate" },
        make("div", { class: "row" }, make("span", {}, name, ...tags),
          make("b", {}, edge.was !== undefined && Math.abs(edge.was - edge.support) >= 0.005 ? make("span", { class: "was" }, percent(edge.was)) : null, percent(edge.support))),
        meter(edge.support), suppose(record, edge.parent), speaks));
    });
    if (!list.some((e) => e.parent < 0))
      box.append(make("div", { class: "candidate" }, make("div", { class: "row" }, make("span", { class: "quiet" }, "no parent (a root)"), make("b", {}, percent(data.rootProbability[record]))),
        suppose(record, -1)));
    const rest = 1 - d3.sum(list, (e) => e.support) - (list.some((e) => e.parent < 0) ? 0 : data.rootProbability[record]);
    if (rest >= 0.005)
      box.append(make("div", { class: "candidate row" },
        make("span", { class: "quiet" }, "all others together"), make("b", {}, percent(rest))));
    if (T > 1) box.append(supposeAnother(record));
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
      make("h3", {}, "Its cells"), table(data.columns.map((c) => [c.name, c.differences ? sequenceCell(c, record) : c.text[record] === "" ? "—" : c.text[record]])),
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
      make("p", { class: "quiet" }, "Click one in a picture, or find it by name, to see its candidate parents, the columns that speak for each, and what would follow if one of them were true."),
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
  events.on("tree.panel", () => { if (state.chosen < 0) show(); });
  show();
}
