// Dates, times or generations under the tree.
function makeAxis(view) {
  function ticks() {
    const [low, high] = [view.acrossAt(0), view.acrossAt(view.W)], count = Math.max(2, view.W / 110);
    if (data.dates && data.calendar) {
      const scale = d3.scaleUtc([new Date(low * 864e5), new Date(high * 864e5)], [0, view.W]);
      const days = scale.ticks(count).filter((d) => d.getTime() % 864e5 === 0 && scale(d) > 0);
      const year = (d) => (d ? d.getUTCFullYear() : NaN);
      if (days.every((d) => d.getUTCMonth() === 0 && d.getUTCDate() === 1)) return days.map((d) => [scale(d), `${year(d)}`]);
      const format = (d, i) => (year(d) === year(days[i - 1]) ? "%-d %b" : "%-d %b %Y");
      return days.map((d, i) => [scale(d), d3.utcFormat(format(d, i))(d)]);
    }
    const marks = d3.ticks(low, high, count).filter((v) => data.dates || (Number.isInteger(v) && v >= 0));
    return marks.map((v) => [view.x(v), short(v)]);
  }

  function grid(pen) {
    pen.beginPath();
    for (const [x] of ticks()) {
      pen.moveTo(Math.round(x) + 0.5, 0);
      pen.lineTo(Math.round(x) + 0.5, view.H - AXIS);
    }
    pen.strokeStyle = theme.line;
    pen.lineWidth = 1;
    pen.globalAlpha = 0.6;
    pen.stroke();
    pen.globalAlpha = 1;
  }

  function labels(pen) {
    const y = view.H - AXIS + 0.5;
    pen.beginPath();
    pen.moveTo(0, y);
    pen.lineTo(view.W, y);
    pen.strokeStyle = theme.line;
    pen.lineWidth = 1;
    pen.stroke();
    pen.fillStyle = theme.soft;
    pen.textBaseline = "middle";
    const title = data.dates ? (data.calendar ? "date" : "time") : "generation";
    const end = view.W - pen.measureText(title).width - 14;
    pen.textAlign = "center";
    let free = 0;
    for (const [x, text] of ticks()) {
      const half = pen.measureText(text).width / 2, at = Math.max(x, half + 2);
      if (x < 0 || at - half < free || at + half > end) continue;
      pen.fillText(text, at, y + AXIS / 2);
      free = at + half + 12;
    }
    pen.textAlign = "left";
    pen.fillText(title, end + 10, y + AXIS / 2);
  }

  return { grid, labels };
}
