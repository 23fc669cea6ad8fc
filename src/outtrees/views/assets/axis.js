// Dates, times or generations under the tree.
function makeAxis(view) {
  const marks = () => timeMarks(view.acrossAt(0), view.acrossAt(view.W), Math.max(2, view.W / 110)).map(([v, text]) => [view.x(v), text]);

  function grid(pen) {
    pen.globalAlpha = 0.6;
    for (const [x] of marks()) line(pen, [[Math.round(x) + 0.5, 0], [Math.round(x) + 0.5, view.H - AXIS]], theme.line, 1);
    pen.globalAlpha = 1;
  }

  function labels(pen) {
    const y = view.H - AXIS + 0.5;
    line(pen, [[0, y], [view.W, y]], theme.line, 1);
    writeMarks(pen, marks(), y + AXIS / 2, view.W - 6);
  }

  return { grid, labels };
}
