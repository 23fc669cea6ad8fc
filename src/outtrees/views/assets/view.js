// The window onto the tree: rows and dates to pixels, zooming, moving, centring.
// Rows and dates zoom differently: a tall tree must be stretched far to make rows readable,
// and its dates only a little, or every line would be longer than the screen.
const AXIS = 26, ROW = 30, READABLE = 13, WIDEST = 4;

function makeView(canvas, redraw) {
  const view = { W: 0, H: 0, kx: 1, ky: 1, tx: 0, ty: 0 };
  const calm = matchMedia("(prefers-reduced-motion: reduce)");
  let base = null, row0 = 0, top0 = 0, power = 1, moving = null, steering = false;

  const zoom = d3.zoom().clickDistance(4).on("zoom", zoomed).on("end", () => moving || events.call("state"));
  const selection = d3.select(canvas).call(zoom).on("dblclick.zoom", null);

  view.x = (across) => view.tx + view.kx * base(across);
  view.y = (row) => view.ty + view.ky * (top0 + (row + 0.5) * row0);
  view.rowAt = (y) => ((y - view.ty) / view.ky - top0) / row0 - 0.5;
  view.acrossAt = (x) => base.invert((x - view.tx) / view.kx);
  Object.defineProperty(view, "row", { get: () => view.ky * row0 });

  function zoomed({ transform, sourceEvent }) {
    if (!steering) {
      const ratio = transform.k / view.ky;
      const [px] = sourceEvent ? centre(sourceEvent) : [view.W / 2];
      const wide = sourceEvent && sourceEvent.shiftKey ? ratio : Math.pow(ratio, power);
      const pan = ratio === 1 ? transform.x - view.last.x : transform.x - (px + ratio * (view.last.x - px));
      view.kx = Math.max(1, view.kx * wide);
      view.tx = px + wide * (view.tx - px) + pan;
      if (transform.k <= 1.0001) view.kx = 1;
      const spare = 0.35 * view.W;
      view.tx = Math.min(spare, Math.max(view.W - view.kx * view.W - spare, view.tx));
    }
    view.ky = transform.k;
    view.ty = transform.y;
    view.last = transform;
    // A finger on the whole tree scrolls the page; inside an enlarged tree it moves the tree.
    canvas.style.touchAction = transform.k > 1.01 ? "none" : "pan-y";
    redraw();
  }

  function centre(event) {
    const points = event.touches && event.touches.length ? d3.pointers(event, canvas) : [d3.pointer(event, canvas)];
    return [d3.mean(points, (p) => p[0]), d3.mean(points, (p) => p[1])];
  }

  view.fit = function (margin) {
    const { nRows, domain } = state.tree;
    const [low, high] = domain[0] < domain[1] ? domain : [domain[0] - 0.5, domain[1] + 0.5];
    base = d3.scaleLinear([low, high], [34, Math.max(120, view.W - margin)]);
    const tall = view.H - AXIS - 16;
    row0 = Math.min(ROW, tall / nRows);
    top0 = 8 + (tall - row0 * nRows) / 2;
    power = row0 >= READABLE ? 1 : Math.min(1, Math.log(WIDEST) / Math.log(READABLE / row0));
    zoom.scaleExtent([1, Math.max(4, 34 / row0)])
      .extent([[0, 0], [view.W, view.H]])
      .translateExtent([[-1e9, -0.3 * view.H], [1e9, 1.3 * view.H]]);
    view.go({ kx: 1, ky: 1, tx: 0, ty: 0 }, false);
  };

  view.go = function (target, smooth = true) {
    if (moving) moving.stop();
    moving = null;
    const from = { kx: view.kx, ky: view.ky, tx: view.tx, ty: view.ty };
    const step = (t) => {
      const e = d3.easeCubicInOut(t);
      view.kx = from.kx * Math.pow(target.kx / from.kx, e);
      view.tx = from.tx + (target.tx - from.tx) * e;
      const ky = from.ky * Math.pow(target.ky / from.ky, e);
      const ty = from.ty + (target.ty - from.ty) * e;
      steering = true; // the steps move both axes themselves
      selection.call(zoom.transform, d3.zoomIdentity.translate(view.tx, ty).scale(ky));
      steering = false;
    };
    if (!smooth || calm.matches || document.hidden) return step(1);
    moving = d3.timer((elapsed) => {
      step(Math.min(1, elapsed / 420));
      if (elapsed < 420) return;
      moving.stop();
      moving = null;
      events.call("state");
    });
  };
  // Of the address: how far rows and dates are enlarged, and the date and the row in the middle.
  view.read = () => (view.ky < 1.001 ? null : [view.kx, view.ky, view.acrossAt(view.W / 2), view.rowAt(view.H / 2)].map((v) => +v.toPrecision(9)).join(" "));
  view.set = (text) => {
    const [kx, ky, across, row] = text.split(" ").map(Number), most = zoom.scaleExtent()[1];
    if (![kx, ky, across, row].every(Number.isFinite) || kx < 1 || ky < 1 || !view.W) return;
    const far = Math.min(ky, most), wide = Math.min(kx, most);
    view.go({ kx: wide, ky: far, tx: view.W / 2 - wide * base(across), ty: view.H / 2 - far * (top0 + (row + 0.5) * row0) }, false);
  };

  view.centre = function (record) {
    const { across, rows } = state.tree;
    const ky = Math.max(view.ky, Math.min(zoom.scaleExtent()[1], 20 / row0), 1);
    const kx = Math.max(view.kx, Math.pow(ky, power), 1);
    view.go({
      kx, ky,
      tx: 0.45 * view.W - kx * base(across[record]),
      ty: 0.5 * (view.H - AXIS) - ky * (top0 + (rows[record] + 0.5) * row0),
    });
  };

  view.by = (factor) => {
    if (moving) moving.stop();
    moving = null;
    selection.call(zoom.scaleBy, factor, [view.W / 2, view.H / 2]);
  };
  view.reset = () => view.go({ kx: 1, ky: 1, tx: 0, ty: 0 });
  view.last = d3.zoomIdentity;
  return view;
}
