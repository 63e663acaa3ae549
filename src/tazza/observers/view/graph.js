/* The graph: how large levels are, where things on them are, and what of it is drawn in the window.

   A level knows the layer and lane of its items and the way of each edge (`layout.py`); what is folded decides how large
   an item is. So one pass over items gives columns and rows, and one over edges their curves. Only what lies in the
   window, or near it, is in the document: a net of 5,000 operators costs no more than what one sees of it. */

class Graph {
  /** `size` has the measures that the picture in SVG uses too; `hooks` say what an item shows, and hear of clicks. */
  constructor(canvas, size, hooks) {
    this.canvas = canvas;
    this.size = size;
    this.hooks = hooks;
    this.world = svg("g");
    canvas.append(this.world);
    this.view = {x: 40, y: 24, k: 1};
    this.drawn = null;
    this.items = [];
    this.edges = [];
    this.follow();
  }

  // -- measures ------------------------------------------------------------------------------------------------------

  /** How far an item reaches to the left and right of its port, and how high it is. */
  extent(item) {
    const s = this.size;
    if (item.k === "in" || item.k === "out") {
      const half = Math.min(s.width, Math.max(70, widthOf(item.name, NAME_FONT) + 28)) / 2;
      return {left: half, right: half, height: s.pill};
    }
    if (!item.in || this.hooks.folded(item)) return {left: s.width / 2, right: s.width / 2, height: s.height};
    const inner = this.measure(item.in);
    const left = inner.port + s.pad,
      right = Math.max(inner.width - inner.port + s.pad, 230 - left);
    return {left, right, height: s.heading + inner.height + s.pad, inner};
  }

  /** Columns, rows and extents of a level. */
  measure(level) {
    const s = this.size,
      lanes = Math.max(1, level.t.length),
      rows = level.n;
    const extents = level.i.map((item) => this.extent(item));
    const left = new Float64Array(lanes),
      right = new Float64Array(lanes),
      high = new Float64Array(rows + 2);
    level.i.forEach((item, at) => {
      left[item.n] = Math.max(left[item.n], extents[at].left);
      if (!(item.r && extents[at].inner)) right[item.n] = Math.max(right[item.n], extents[at].right);
      high[item.l] = Math.max(high[item.l], extents[at].height);
    });
    const x = [],
      gutter = [],
      step = [];
    let cursor = 0;
    for (let lane = 0; lane < lanes; lane++) {
      const tracks = level.t[lane] || 0;
      x.push(cursor + left[lane]);
      gutter.push(x[lane] + right[lane] + s.gutter);
      step.push(tracks ? Math.min(s.track, s.tracks_width / tracks) : 0);
      cursor = x[lane] + right[lane] + (tracks ? s.gutter + step[lane] * (tracks - 1) : 0) + s.lane_gap;
    }
    let width = Math.max(cursor - s.lane_gap, 10);
    level.i.forEach((item, at) => {
      width = Math.max(width, x[item.n] + extents[at].right);
    });
    const enters = level.e.some((edge) => edge[0] < 0),
      leaves = level.e.some((edge) => edge[1] === level.i.length);
    const y = [0];
    let down = enters ? s.row_gap : 0;
    for (let row = 1; row <= rows; row++) {
      y.push(down);
      down += high[row] + (row < rows || leaves ? s.row_gap : 0);
    }
    y.push(down);
    return {x, y, high, gutter, step, extents, width, height: down, port: x[0]};
  }

  /** Place a level and all that is unfolded on it; fills `items` and `edges`, outer ones first. */
  place(level, measured, left, top, around) {
    const own = level.i.map((item, at) => {
      const extent = measured.extents[at];
      const x = left + measured.x[item.n],
        y = top + measured.y[item.l];
      return {
        item,
        level,
        at,
        around,
        port: x,
        x: x - extent.left,
        y,
        w: extent.left + extent.right,
        h: extent.height,
        inner: extent.inner,
        index: at,
      };
    });
    for (const box of own) {
      this.items.push(box);
      if (box.inner) this.place(box.item.in, box.inner, box.x + this.size.pad, box.y + this.size.heading, box);
    }
    const base = {left, top, measured, level};
    for (const edge of level.e) this.edges.push(this.curve(edge, own, base));
  }

  /** The curve of an edge: straight down where it can, else over the gaps between rows and down a lane or track. */
  curve([from, to, way = 0, lane = 0, track = 0], boxes, {left, top, measured, level}) {
    const gap = this.size.row_gap,
      source = boxes[from],
      target = boxes[to];
    const fromRow = source ? source.item.l : 0,
      toRow = target ? target.item.l : level.n + 1;
    const rowEnd = (row) => top + (row ? measured.y[row] + measured.high[row] : 0);
    const x0 = source ? source.port : left + measured.port,
      y0 = source ? source.y + source.h : top;
    const x1 = target ? target.port : left + measured.port,
      y1 = target ? target.y : top + measured.height;
    const bend = (xa, ya, xb, yb) =>
      Math.abs(xa - xb) < 0.5
        ? `V${yb}`
        : `V${ya}C${xa} ${ya + (yb - ya) * 0.75} ${xb} ${yb - (yb - ya) * 0.75} ${xb} ${yb}`;
    let path = `M${x0} ${y0}`,
      wide = Math.max(x0, x1);
    const end = source ? rowEnd(fromRow) : top;
    if (way === 0) path += bend(x0, end, x1, y1);
    else {
      const x = way === 1 ? left + measured.x[lane] : left + measured.gutter[lane] + track * measured.step[lane];
      path += `${bend(x0, end, x, end + gap)}V${y1 - gap}${bend(x, y1 - gap, x1, y1)}`;
      wide = Math.max(wide, x);
    }
    return {
      path,
      source: source || null,
      target: target || null,
      level,
      top: Math.min(y0, y1),
      bottom: Math.max(y0, y1),
      left: Math.min(x0, x1),
      right: wide,
    };
  }

  /** Measure and place everything anew: after folding, or for another stage. */
  layout(root) {
    this.root = root;
    const measured = this.measure(root);
    this.items = [];
    this.edges = [];
    this.place(root, measured, 0, 0, null);
    this.width = measured.width;
    this.height = measured.height;
    this.boxes = new Map(this.items.map((box) => [box.item, box]));
    this.drawn = null;
  }

  // -- drawing -------------------------------------------------------------------------------------------------------

  /** Draw what is in the window, if that is not drawn yet, and move it to its place. */
  draw() {
    const {x, y, k} = this.view;
    this.world.setAttribute("transform", `translate(${x} ${y}) scale(${k})`);
    const w = this.canvas.clientWidth / k,
      h = this.canvas.clientHeight / k;
    const window_ = {left: -x / k, top: -y / k, right: -x / k + w, bottom: -y / k + h};
    const detail = k > 0.33 ? 2 : k > 0.12 ? 1 : 0;
    const old = this.drawn;
    const inside =
      old &&
      old.detail === detail &&
      old.left <= window_.left &&
      old.top <= window_.top &&
      old.right >= window_.right &&
      old.bottom >= window_.bottom;
    if (inside) return;
    const area = {
      left: window_.left - w / 2,
      right: window_.right + w / 2,
      top: window_.top - h / 2,
      bottom: window_.bottom + h / 2,
      detail,
    };
    this.drawn = area;
    const seen = (one) =>
      one.right >= area.left && one.left <= area.right && one.bottom >= area.top && one.top <= area.bottom;
    const boxes = this.items.filter((box) =>
      seen({left: box.x, right: box.x + box.w, top: box.y, bottom: box.y + box.h}),
    );
    const chosen = this.hooks.chosen();
    const curves = this.edges.filter(seen);
    const near = curves.filter((edge) => chosen && (edge.source?.item === chosen || edge.target?.item === chosen));
    const parts = document.createDocumentFragment();
    for (const box of boxes) if (box.inner) parts.append(this.frame(box, detail));
    parts.append(svg("path", {class: "edges", d: curves.map((edge) => edge.path).join("")}));
    if (near.length) parts.append(svg("path", {class: "edges near", d: near.map((edge) => edge.path).join("")}));
    for (const box of boxes) if (!box.inner) parts.append(this.node(box, detail));
    this.world.replaceChildren(parts);
  }

  /** The frame of what is unfolded. */
  frame(box, detail) {
    const told = this.hooks.told(box),
      made = svg("g", {"data-id": box.item.id});
    const chosen = this.hooks.chosen() === box.item ? " chosen" : "";
    made.append(svg("rect", {class: `frame${chosen}`, x: box.x, y: box.y, width: box.w, height: box.h, rx: 10}));
    if (detail > 0) {
      const text = fitting(told.title + (told.count ? `  ·  ${told.count}` : ""), box.w - 50, `600 12.5px ${FONT}`);
      made.append(svg("text", {class: "heading", x: box.x + 12, y: box.y + 18}, text));
      made.append(this.toggle(box, false));
    }
    made.addEventListener("click", (event) => this.hooks.choose(box, event));
    return made;
  }

  /** A folded item, an operator, or an input or output of the net. */
  node(box, detail) {
    const {item} = box,
      told = this.hooks.told(box),
      s = this.size;
    const pill = item.k === "in" || item.k === "out";
    const classes = [
      "node",
      pill ? "pill" : "",
      told.mark,
      this.hooks.chosen() === item ? "chosen" : "",
      told.hit ? "hit" : "",
    ];
    const made = svg("g", {class: classes.filter(Boolean).join(" "), "data-id": item.id});
    if (item.op !== undefined) made.setAttribute("data-op", item.op);
    const body = {x: box.x, y: box.y, width: box.w, height: box.h, rx: pill ? box.h / 2 : 7};
    if (item.in && detail > 0 && !pill)
      for (const off of [6, 3]) made.append(svg("rect", {class: "card", ...body, x: box.x + off, y: box.y + off}));
    made.append(svg("rect", {class: "body", ...body}));
    if (detail > 0 || !pill) made.append(svg("title", {}, told.tip));
    if (pill) {
      if (detail > 1)
        made.append(svg("text", {x: box.port, y: box.y + box.h / 2 + 4.5}, fitting(item.name, box.w - 20, NAME_FONT)));
    } else {
      const color = `var(--c${told.color})`;
      made.append(svg("rect", {class: "tint", ...body, fill: color, style: `opacity:${told.tint}`}));
      made.append(
        svg("path", {fill: color, d: `M${box.x + 7} ${box.y}h-0a7 7 0 0 0 -7 7v${box.h - 14}a7 7 0 0 0 7 7z`}),
      );
      if (told.share > 0)
        made.append(
          svg("rect", {
            class: "bar",
            fill: color,
            x: box.x + 8,
            y: box.y + box.h - 4,
            width: Math.max(1, (box.w - 16) * told.share),
            height: 3,
            rx: 1.5,
          }),
        );
      if (detail > 1) this.texts(made, box, told);
      if (item.in && detail > 0) made.append(this.toggle(box, true));
    }
    made.addEventListener("click", (event) => this.hooks.choose(box, event));
    made.addEventListener("dblclick", () => item.in && this.hooks.toggle(box));
    return made;
  }

  texts(made, box, told) {
    const left = box.x + 15,
      right = box.x + box.w - (box.item.in ? 32 : 10),
      room = right - left;
    const shape = fitting(told.shape, Math.max(60, room - widthOf(told.title, TYPE_FONT) - 10), NAME_FONT);
    const used = shape ? widthOf(shape, NAME_FONT) + 10 : 0;
    const time = told.time,
      timed = time ? widthOf(time, NAME_FONT) + 10 : 0;
    made.append(svg("text", {class: "type", x: left, y: box.y + 19}, fitting(told.title, room - used, TYPE_FONT)));
    if (shape) made.append(svg("text", {class: "shape end", x: right, y: box.y + 19}, shape));
    made.append(svg("text", {class: "name", x: left, y: box.y + 37}, fitting(told.name, room - timed, NAME_FONT)));
    if (time) made.append(svg("text", {class: "time end", x: right, y: box.y + 37}, time));
  }

  /** The small square that folds and unfolds. */
  toggle(box, folded) {
    const x = box.x + box.w - 25,
      y = box.y + (folded ? (box.h - 16) / 2 : 5);
    const made = svg("g", {class: "toggle", "data-toggle": box.item.id});
    made.append(svg("title", {}, folded ? "unfold (Enter)" : "fold (Enter)"));
    made.append(svg("rect", {x, y, width: 16, height: 16, rx: 4}));
    made.append(svg("path", {d: `M${x + 4} ${y + 8}h8${folded ? `M${x + 8} ${y + 4}v8` : ""}`}));
    made.addEventListener("click", (event) => {
      event.stopPropagation();
      this.hooks.toggle(box);
    });
    return made;
  }

  // -- the window ----------------------------------------------------------------------------------------------------

  /** Draw anew even where nothing moved: what items show has changed. */
  refresh() {
    this.drawn = null;
    this.draw();
  }

  /** Show all of it. */
  fit() {
    const w = this.canvas.clientWidth,
      h = this.canvas.clientHeight,
      margin = 24;
    const k = Math.min(1.25, (w - 2 * margin) / this.width, (h - 2 * margin) / this.height);
    this.view = {k, x: (w - this.width * k) / 2, y: Math.max(margin, (h - this.height * k) / 2)};
    this.draw();
  }

  /** Show the beginning, in a size that can be read. */
  begin() {
    const w = this.canvas.clientWidth,
      k = Math.max(0.8, Math.min(1, (w - 48) / this.width));
    const x = this.width * k < w - 48 ? (w - this.width * k) / 2 : w / 2 - this.boxes.get(this.root.i[0]).port * k;
    this.view = {k, x, y: 28};
    this.draw();
  }

  /** Move the window so that a box is in its middle, large enough to be read. */
  center(box) {
    const k = Math.max(this.view.k, 0.8),
      w = this.canvas.clientWidth,
      h = this.canvas.clientHeight;
    const down = Math.min(box.h, (h / k) * 0.7) / 2;
    this.view = {k, x: w / 2 - box.port * k, y: h / 2 - (box.y + down) * k};
    this.draw();
  }

  /** Move the window no further than it takes to show a box. */
  show(box) {
    const {k} = this.view,
      w = this.canvas.clientWidth,
      h = this.canvas.clientHeight,
      margin = 40;
    const left = box.x * k + this.view.x,
      top = box.y * k + this.view.y;
    const right = left + box.w * k,
      bottom = top + Math.min(box.h * k, h - 2 * margin);
    if (left < margin) this.view.x += margin - left;
    else if (right > w - margin) this.view.x -= right - w + margin;
    if (top < margin) this.view.y += margin - top;
    else if (bottom > h - margin) this.view.y -= bottom - h + margin;
    this.draw();
  }

  zoom(factor, x = this.canvas.clientWidth / 2, y = this.canvas.clientHeight / 2) {
    const k = Math.min(3, Math.max(0.02, this.view.k * factor));
    const by = k / this.view.k;
    this.view = {k, x: x - (x - this.view.x) * by, y: y - (y - this.view.y) * by};
    this.draw();
  }

  /** Follow pointer and wheel: drag or scroll moves, Ctrl with the wheel (or a pinch) zooms. */
  follow() {
    let from = null,
      waiting = false;
    const later = () => {
      if (waiting) return;
      waiting = true;
      requestAnimationFrame(() => {
        waiting = false;
        this.draw();
      });
    };
    this.canvas.addEventListener("pointerdown", (event) => {
      if (event.button === 0)
        from = {x: event.clientX, y: event.clientY, view: {...this.view}, moved: false, id: event.pointerId};
    });
    this.canvas.addEventListener("pointermove", (event) => {
      if (!from || event.pointerId !== from.id) return;
      const dx = event.clientX - from.x,
        dy = event.clientY - from.y;
      if (!from.moved && Math.hypot(dx, dy) > 4) {
        from.moved = true;
        this.canvas.setPointerCapture(from.id);
        this.canvas.classList.add("moving");
      }
      if (!from.moved) return;
      this.view = {k: this.view.k, x: from.view.x + dx, y: from.view.y + dy};
      later();
    });
    const end = () => {
      from = null;
      this.canvas.classList.remove("moving");
    };
    this.canvas.addEventListener("pointerup", end);
    this.canvas.addEventListener("pointercancel", end);
    this.canvas.addEventListener(
      "wheel",
      (event) => {
        event.preventDefault();
        const box = this.canvas.getBoundingClientRect();
        if (event.ctrlKey || event.metaKey)
          this.zoom(Math.exp(-event.deltaY * 0.004), event.clientX - box.left, event.clientY - box.top);
        else {
          const unit = event.deltaMode === 1 ? 32 : 1;
          this.view.x -= (event.shiftKey ? event.deltaY : event.deltaX) * unit;
          this.view.y -= (event.shiftKey ? 0 : event.deltaY) * unit;
          later();
        }
      },
      {passive: false},
    );
    new ResizeObserver(() => this.root && this.draw()).observe(this.canvas);
  }
}
