// The page of `outtrees app`.
const KINDS = ["continuous", "categorical", "count", "date", "sequence", "place", "label", "parent", "introduction", "group", "ignore"];
// What was chosen for each table: kinds of columns, the column of identities, and more options.
const choices = new Map();
let last = null, waiting = 0, known = [], looks = 0;
const tableName = () => last?.files.find((file) => file.use === "table")?.name;
function asked() {
  const name = tableName();
  if (!choices.has(name)) choices.set(name, { kinds: {}, id: "", options: [] });
  return choices.get(name);
}

async function ask(method, path, body) {
  let answer;
  try {
    answer = await fetch(path, { method, body });
  } catch {
    end("The program has ended, and its files are gone: nothing on this page can be run or downloaded any more, but a report "
      + "that is shown below can still be read. Start the program again to go on.");
    throw new Error(byId("message").textContent);
  }
  if (answer.ok) return answer.json();
  const why = await answer.text();
  throw new Error(why || (answer.status === 413 ? "This file is larger than the app takes." : `The app answered ${answer.status}.`));
}
const post = (path, content = {}) => ask("POST", path, JSON.stringify(content));

// No program behind the page any more: say so, and let nothing be clicked in vain.
let ended = false;
function end(why) {
  ended = true;
  clearTimeout(waiting);
  byId("message").hidden = false;
  byId("message").textContent = why;
  byId("progress").textContent = "";
  for (const control of document.querySelectorAll("button, select, input")) control.disabled = true;
  for (const link of document.querySelectorAll("a[href]")) {
    link.removeAttribute("href");
    link.setAttribute("aria-disabled", "true");
  }
  drop.classList.add("ended");
  window.scrollTo(0, 0);
}

function tell(error) {
  if (ended) return;
  byId("message").hidden = !error;
  byId("message").textContent = error ? error.message : "";
}
async function attempt(work) {
  try {
    tell(null);
    return await work();
  } catch (error) {
    tell(error);
    return null;
  }
}

async function take(files) {
  await attempt(async () => {
    for (const file of files) show(await ask("PUT", `files/${encodeURIComponent(file.name)}`, file));
  });
  await look();
}

async function look() {
  const hasTable = last && last.files.some((file) => file.use === "table");
  byId("columns-card").hidden = byId("run-card").hidden = !hasTable;
  if (!hasTable) return;
  drawOptions();
  const mine = asked(), turn = ++looks, found = await attempt(() => post("look", mine));
  if (turn !== looks) return; // something was chosen meanwhile: the answer to that one counts
  byId("run").disabled = !found;
  if (!found) return byId("columns").replaceChildren();
  byId("columns-note").textContent = [`${found.records} records`, ...found.notes, "Change a kind that was guessed wrong."].join(". ");
  // A column that is asked to be left out may no longer be among those found.
  const gone = Object.keys(mine.kinds).filter((name) => mine.kinds[name] === "ignore" && !found.columns.some((c) => c.name === name));
  const rows = [...found.columns, ...gone.map((name) => ({ name, kind: "ignore", why: "asked for", values: "" }))];
  byId("columns").replaceChildren(...rows.map((column) => {
    const select = make("select", { "aria-label": `Kind of ${column.name}`, onchange: () => {
      if (select.value === "id") {
        mine.id = column.name;
        delete mine.kinds[column.name];
      } else {
        if (mine.id === column.name) mine.id = "";
        for (const name of column.parts?.length ? column.parts : [column.name]) mine.kinds[name] = select.value;
      }
      look();
    } }, ...["id", ...KINDS].map((kind) => make("option", { value: kind, selected: kind === column.kind ? "" : null }, kind)));
    return make("tr", {}, make("th", { scope: "row" }, make("bdi", {}, column.name)), make("td", {}, select),
      make("td", {}, make("bdi", {}, column.values), column.missing ? ` (${column.missing} empty)` : ""), make("td", { class: "quiet" }, column.why));
  }));
}

// More options: those of the command, each with what it says and its values.
function drawOptions() {
  const mine = asked(), name = byId("option-name"), option = known.find((o) => o.name === name.value);
  byId("option-note").textContent = option?.says ?? "";
  const value = byId("option-value"), choice = byId("option-choice");
  value.hidden = !option || option.flag || option.choices.length > 0;
  choice.hidden = !option?.choices.length;
  if (option && choice.dataset.of !== option.name) {
    choice.dataset.of = option.name;
    choice.replaceChildren(...option.choices.map((text) => make("option", { value: text }, text)));
  }
  byId("option-add").disabled = !option;
  byId("options").replaceChildren(...mine.options.map((pair) => make("li", { class: "chip" }, make("bdi", {}, pair.join(" ").trim()),
    make("button", { type: "button", "aria-label": `Remove ${pair.join(" ").trim()}`, onclick: () => {
      mine.options = mine.options.filter((other) => other !== pair);
      look();
    } }, "✕"))));
}
byId("option-name").addEventListener("change", drawOptions);
byId("option-add").addEventListener("click", () => {
  const mine = asked(), option = known.find((o) => o.name === byId("option-name").value);
  if (!option) return;
  const value = option.flag ? "" : option.choices.length ? byId("option-choice").value : byId("option-value").value.trim();
  if (!option.flag && !value) return byId("option-value").focus();
  mine.options = [...mine.options.filter(([name, other]) => name !== option.name || (option.again && other !== value)), [option.name, value]];
  byId("option-value").value = "";
  look();
});

function show(state) {
  last = state;
  byId("files").replaceChildren(...state.files.map((file) => {
    const select = make("select", { "aria-label": `What ${file.name} is`, onchange: async () => {
      const now = await attempt(() => post("use", { name: file.name, use: select.value }));
      if (now) show(now);
      await look();
    } }, ...state.uses.map((use) => make("option", { value: use, selected: use === file.use ? "" : null }, use === "unused" ? "not used" : use)));
    return make("li", {}, make("bdi", {}, file.name), make("span", { class: "quiet" }, `${file.bytes.toLocaleString()} bytes`), select,
      make("button", { type: "button", onclick: async () => {
        const now = await attempt(() => ask("DELETE", `files/${encodeURIComponent(file.name)}`));
        if (now) show(now);
        await look();
      } }, "Remove"));
  }));
  byId("cancel").hidden = !state.running;
  byId("run").hidden = state.running;
  byId("log").textContent = state.log.join("\n");
  const doing = state.log.filter((line) => /^ *\d+\.\d s {2}/.test(line)).at(-1);
  const seconds = `${Math.round(state.seconds)} s`;
  byId("progress").textContent = state.running ? `running for ${seconds}${doing ? ": " + doing.trim().replace(/^\S+ s\s+/, "") : " …"}`
    : state.code === null ? "" : state.code === 0 ? `done after ${seconds}` : state.cancelled ? "cancelled" : "failed";
  if (!state.running && state.code > 0 && !state.cancelled) {
    tell(new Error((state.log.filter((line) => line.startsWith("outtrees: ")).at(-1) ?? "The run failed.").replace(/^outtrees: /, "")));
    byId("log-box").open = true;
  }
  const done = !state.running && state.code === 0 && state.results.length > 0;
  byId("results-card").hidden = !done;
  if (done && byId("report").dataset.of !== String(state.seconds)) {
    byId("report").dataset.of = state.seconds;
    byId("report").src = "results/report.html";
    byId("results").replaceChildren(...state.results.map((name) => make("li", {}, make("a", { href: `results/${encodeURIComponent(name)}`, download: name }, name))));
  }
  clearTimeout(waiting);
  if (state.running) waiting = setTimeout(() => attempt(async () => show(await ask("GET", "state"))), 700);
}

const drop = byId("drop");
for (const kind of ["dragenter", "dragover"]) drop.addEventListener(kind, (event) => { event.preventDefault(); drop.classList.add("over"); });
for (const kind of ["dragleave", "drop"]) drop.addEventListener(kind, () => drop.classList.remove("over"));
// A file that misses the field must not replace the page.
for (const kind of ["dragover", "drop"]) window.addEventListener(kind, (event) => event.preventDefault());
drop.addEventListener("drop", (event) => take(event.dataTransfer.files));
byId("choose").addEventListener("change", (event) => {
  const files = [...event.target.files];
  event.target.value = ""; // the same file may be chosen again
  take(files);
});
byId("run").addEventListener("click", () => attempt(async () => {
  byId("report").removeAttribute("src");
  show(await post("run", { ...asked(), disease: byId("disease").value, waiting_mean: byId("waiting-mean").value, waiting_sd: byId("waiting-sd").value }));
}));
byId("cancel").addEventListener("click", () => attempt(async () => show(await post("cancel"))));
byId("stop").addEventListener("click", () => attempt(async () => {
  await post("stop");
  end("The app has stopped, and its files are gone: nothing can be downloaded any more. You can close this page.");
}));
let sayings = {};
byId("disease").addEventListener("change", (event) => (byId("disease-note").textContent = sayings[event.target.value] ?? ""));
attempt(async () => {
  for (const { name, says } of await ask("GET", "diseases")) {
    sayings[name] = says;
    byId("disease").append(make("option", { value: name }, name));
  }
  known = await ask("GET", "options");
  byId("option-name").append(...known.map(({ name }) => make("option", { value: name }, name)));
  show(await ask("GET", "state"));
  await look();
});
// Where Ctrl-C ended the program, nothing else would tell.
setInterval(() => ended || ask("GET", "alive").catch(() => {}), 2000);
