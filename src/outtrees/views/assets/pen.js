// One way to draw, three ways to keep: every picture is drawn by a function of a pen, on a canvas for
// the screen and for PNG, by a recorder of the same strokes for SVG.
class SvgPen {
  constructor(width, height) {
    Object.assign(this, { width, height, parts: [], path: [], states: [], matrix: [1, 0, 0, 1, 0, 0], clips: 0, clipped: "" });
    Object.assign(this, { strokeStyle: "#000", fillStyle: "#000", lineWidth: 1, globalAlpha: 1, font: `12px ${FONT}`, textAlign: "left", textBaseline: "alphabetic", lineJoin: "miter" });
    this.dash = [];
    this.ruler = make("canvas").getContext("2d");
  }
  at(x, y) {
    const [a, b, c, d, e, f] = this.matrix;
    return `${+(a * x + c * y + e).toFixed(2)} ${+(b * x + d * y + f).toFixed(2)}`;
  }
  beginPath() { this.path = []; }
  moveTo(x, y) { this.path.push(`M${this.at(x, y)}`); }
  lineTo(x, y) { this.path.push(`L${this.at(x, y)}`); }
  closePath() { this.path.push("Z"); }
  quadraticCurveTo(a, b, x, y) { this.path.push(`Q${this.at(a, b)} ${this.at(x, y)}`); }
  bezierCurveTo(a, b, c, d, x, y) { this.path.push(`C${this.at(a, b)} ${this.at(c, d)} ${this.at(x, y)}`); }
  arc(x, y, r) { // whole circles are all that is drawn
    this.path.push(`M${this.at(x + r, y)}A${r} ${r} 0 1 0 ${this.at(x - r, y)}A${r} ${r} 0 1 0 ${this.at(x + r, y)}`);
  }
  rect(x, y, w, h) { this.path.push(`M${this.at(x, y)}L${this.at(x + w, y)}L${this.at(x + w, y + h)}L${this.at(x, y + h)}Z`); }
  put(text) { this.parts.push(this.clipped ? `<g clip-path="\u0075rl(#${this.clipped})">${text}</g>` : text); }
  stroke() {
    const dash = this.dash.length ? ` stroke-dasharray="${this.dash.join(" ")}"` : "";
    this.put(`<path d="${this.path.join("")}" fill="none" stroke="${this.strokeStyle}" stroke-width="${this.lineWidth}" opacity="${this.globalAlpha}"${dash}/>`);
  }
  fill() { this.put(`<path d="${this.path.join("")}" fill="${this.fillStyle}" opacity="${this.globalAlpha}"/>`); }
  clip() {
    this.clipped = `clip${++this.clips}`;
    this.parts.push(`<clipPath id="${this.clipped}"><path d="${this.path.join("")}"/></clipPath>`);
  }
  fillRect(x, y, w, h) { this.beginPath(); this.rect(x, y, w, h); this.fill(); }
  clearRect() {}
  setLineDash(dash) { this.dash = dash; }
  measureText(text) { this.ruler.font = this.font; return this.ruler.measureText(text); }
  save() {
    this.states.push({ matrix: this.matrix, clipped: this.clipped });
  }
  restore() { Object.assign(this, this.states.pop()); }
  translate(x, y) {
    const [a, b, c, d, e, f] = this.matrix;
    this.matrix = [a, b, c, d, a * x + c * y + e, b * x + d * y + f];
  }
  rotate(t) {
    const [a, b, c, d, e, f] = this.matrix, cos = Math.cos(t), sin = Math.sin(t);
    this.matrix = [a * cos + c * sin, b * cos + d * sin, c * cos - a * sin, d * cos - b * sin, e, f];
  }
  letters(text, x, y, look) {
    const size = parseFloat(this.font.match(/([\d.]+)px/)[1]), weight = /\b(bold|600)\b/.test(this.font) ? ` font-weight="600"` : "";
    const anchor = { left: "start", start: "start", center: "middle", right: "end" }[this.textAlign];
    const drop = this.textBaseline === "middle" ? 0.35 * size : 0, [a, b, c, d, e, f] = this.matrix;
    const turned = a === 1 && b === 0 ? `x="${(x + e).toFixed(2)}" y="${(y + drop + f).toFixed(2)}"`
      : `transform="matrix(${[a, b, c, d, e, f].map((v) => +v.toFixed(4)).join(" ")})" x="${x.toFixed(2)}" y="${(y + drop).toFixed(2)}"`;
    this.put(`<text ${turned} font-size="${size}"${weight} text-anchor="${anchor}" ${look}>${escaped(text)}</text>`);
  }
  fillText(text, x, y) { this.letters(text, x, y, `fill="${this.fillStyle}" opacity="${this.globalAlpha}"`); }
  strokeText(text, x, y) { this.letters(text, x, y, `fill="none" stroke="${this.strokeStyle}" stroke-width="${this.lineWidth}" stroke-linejoin="round"`); }
  text() {
    return `<?xml version="1.0" encoding="UTF-8"?>\n<svg xmlns="http:\/\/www.w3.org/2000/svg" width="${this.width}" height="${this.height}" viewBox="0 0 ${this.width} ${this.height}" font-family="${escaped(FONT)}">\n${this.parts.join("\n")}\n</svg>\n`;
  }
}
const escaped = (text) => String(text)
  .replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g, "\ufffd")
  .replace(/[<>&"']/g, (c) => `&#${c.charCodeAt(0)};`);

// Pictures of the page by name: {width, height, paint(pen)}, for the downloads.
const pictures = {};

// Whenever a stage has another width; `change` is told the width before.
function whenWider(stage, change) {
  let wide = stage.clientWidth;
  new ResizeObserver(() => {
    if (stage.clientWidth === wide) return;
    const before = wide;
    wide = stage.clientWidth;
    change(before);
  }).observe(stage);
}

// A text beside the pointer, within a picture of W × H.
function showTip(tip, text, [x, y], W, H) {
  tip.textContent = text;
  tip.style.left = `${Math.max(2, Math.min(x + 14, W - tip.offsetWidth - 4))}px`;
  tip.style.top = `${y + 18 + tip.offsetHeight > H ? y - tip.offsetHeight - 10 : y + 18}px`;
}

// A picture in a stage of the page, drawn anew when its width or what it shows changes.
// plan: {height(width), paint(pen, W, H) → marks [{x, y, r, record, text}]}
function makeChart(name, plan) {
  const stage = byId(`${name}-stage`), canvas = byId(`${name}-canvas`), tip = byId(`${name}-tip`);
  let marks = [], W = 0, H = 0, waiting = 0;
  function draw() {
    waiting = 0;
    W = stage.clientWidth;
    if (!W) return;
    const ratio = window.devicePixelRatio || 1;
    H = plan.height(W);
    canvas.width = W * ratio;
    canvas.height = H * ratio;
    canvas.style.height = `${H}px`;
    const pen = canvas.getContext("2d");
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    marks = plan.paint(pen, W, H) ?? [];
  }
  const redraw = () => { if (stage.clientWidth) waiting ||= requestAnimationFrame(draw); };
  const markAt = ([x, y]) => {
    let best = null, nearest = 12;
    for (const mark of marks) {
      const inside = mark.w && x >= mark.x && x <= mark.x + mark.w && y >= mark.y && y <= mark.y + mark.h;
      const off = mark.w ? (inside ? 0 : Infinity) : Math.max(0, Math.hypot(mark.x - x, mark.y - y) - mark.r);
      if (off < nearest) [best, nearest] = [mark, off];
    }
    return best;
  };
  canvas.addEventListener("pointermove", (event) => {
    const point = d3.pointer(event, canvas), mark = markAt(point);
    tip.hidden = !mark;
    canvas.classList.toggle("over", Boolean(mark && mark.record >= 0));
    if (!mark) return;
    showTip(tip, mark.text ?? recordText(mark.record), point, W, H);
  });
  canvas.addEventListener("pointerleave", () => (tip.hidden = true));
  canvas.addEventListener("click", (event) => {
    const mark = markAt(d3.pointer(event, canvas));
    choose(mark && mark.record >= 0 ? mark.record : -1);
  });
  pictures[name] = { size: () => [W, H], paint: (pen) => plan.paint(pen, W, H), canvas };
  events.on(`choose.${name} tree.${name} look.${name} theme.${name} filter.${name} view.${name}`, redraw);
  whenWider(stage, redraw);
  window.outtrees[`${name}Marks`] = () => marks; // for tests that click on what is drawn
  return { redraw, draw };
}

function recordText(record) {
  const parent = state.tree.parents[record], when = data.dates && data.dates[record];
  return `${cut(data.ids[record], 60)}${data.dates ? ` · ${when === null ? "no date" : dayText(when)}` : ""} · ` +
    `${parent < 0 ? "a root" : `from ${cut(data.ids[parent], 60)}`}, ${percent(state.tree.support[record])}`;
}

function dot(pen, x, y, r, bucket) {
  pen.beginPath();
  pen.moveTo(x + r, y);
  pen.arc(x, y, r, 0, 2 * Math.PI);
  pen.fillStyle = bucket < 0 ? theme.card : state.colour.colours[bucket];
  pen.fill();
  if (r < 2 && bucket >= 0) return; // an edge would hide a point as small as this
  pen.strokeStyle = bucket < 0 ? theme.soft : theme.card;
  pen.lineWidth = bucket < 0 ? 1.3 : 1;
  pen.stroke();
}

function ring(pen, x, y, r, colour, width) {
  pen.beginPath();
  pen.moveTo(x + r, y);
  pen.arc(x, y, r, 0, 2 * Math.PI);
  pen.strokeStyle = colour;
  pen.lineWidth = width;
  pen.stroke();
}

function line(pen, points, colour, width) {
  pen.beginPath();
  points.forEach(([x, y], i) => (i ? pen.lineTo(x, y) : pen.moveTo(x, y)));
  pen.strokeStyle = colour;
  pen.lineWidth = width;
  pen.stroke();
}

// A name that can be read on whatever lies behind it.
function writeName(pen, text, x, y, colour, halo = 3.5) {
  pen.strokeStyle = theme.card;
  pen.lineWidth = halo;
  pen.lineJoin = "round";
  pen.strokeText(text, x, y);
  pen.fillStyle = colour;
  pen.fillText(text, x, y);
}

// Lines from parents to children between places; of too many only those of the chosen record, which a note says.
function drawLinks(pen, shown, at, way) {
  const { parents, support } = state.tree, near = (i) => i === state.chosen || parents[i] === state.chosen, MOST = 1500;
  const links = shown.filter((i) => at[parents[i]] && support[i] >= state.threshold), few = links.length <= MOST;
  for (const i of few ? links : links.filter(near)) {
    pen.beginPath();
    way(at[parents[i]], at[i]);
    pen.strokeStyle = near(i) ? theme.accent : theme["edge-strong"];
    pen.globalAlpha = near(i) ? 0.95 : 0.07 + 0.41 * support[i];
    pen.lineWidth = near(i) ? 2 : 0.65 + support[i];
    pen.stroke();
    pen.globalAlpha = 1;
  }
  return few ? "" : "lines of the chosen record only";
}

function writing(pen, size = 12, align = "left", colour = theme.soft) {
  pen.font = `${size}px ${FONT}`;
  pen.textAlign = align;
  pen.textBaseline = "middle";
  pen.fillStyle = colour;
}

// Time under a picture, from `left` to `right`: marks at round dates, none over another.
function timeScale(left, right) {
  const known = data.dates ? data.dates.filter((v) => v !== null) : state.tree.depth;
  const [low, high] = d3.extent(known.length ? known : [0, 1]);
  return d3.scaleLinear(low < high ? [low, high] : [low - 0.5, high + 0.5], [left, right]);
}
// Round dates, times or generations: [value, text].
function timeMarks(low, high, count) {
  if (!data.dates || !data.calendar)
    return d3.ticks(low, high, count).filter((v) => data.dates || (Number.isInteger(v) && v >= 0)).map((v) => [v, short(v)]);
  const days = d3.scaleUtc([new Date(low * 864e5), new Date(high * 864e5)], [0, 1]).ticks(count).filter((d) => d.getTime() % 864e5 === 0);
  const year = (d) => (d ? d.getUTCFullYear() : NaN), years = days.every((d) => d.getUTCMonth() === 0 && d.getUTCDate() === 1);
  return days.map((d, i) => [d.getTime() / 864e5, years ? `${year(d)}` : d3.utcFormat(year(d) === year(days[i - 1]) ? "%-d %b" : "%-d %b %Y")(d)]);
}
// Their texts at [x, text], none over another or over the title at the right.
function writeMarks(pen, marks, y, right) {
  writing(pen, 12, "center");
  const title = data.dates ? (data.calendar ? "date" : "time") : "generation", end = right - pen.measureText(title).width - 8;
  let free = 0;
  for (const [x, text] of marks) {
    const half = pen.measureText(text).width / 2, at = Math.max(x, half + 2);
    if (x < 0 || at - half < free || at + half > end) continue;
    pen.fillText(text, at, y);
    free = at + half + 12;
  }
  pen.textAlign = "left";
  pen.fillText(title, end + 4, y);
}
function timeAxis(pen, scale, y, top, right) {
  const [x0, x1] = scale.range(), marks = timeMarks(...scale.domain(), Math.max(2, (x1 - x0) / 110)).map(([v, text]) => [Math.round(scale(v)) + 0.5, text]);
  for (const [x] of marks) line(pen, [[x, top], [x, y]], theme.line, 1);
  writeMarks(pen, marks, y + 14, right);
}
