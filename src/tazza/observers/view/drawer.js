/* The drawer below the graph: passes, the arena over the steps, what ran when, and the slowest steps. */

const PANELS = {
  /** Each pass, what it does, how often it rewrote something, and how many operators were left. */
  passes(app) {
    if (!app.data.passes.length) return [el("p", {cls: "caption", text: "No passes were applied."})];
    const head = el(
      "tr",
      {},
      el("th", {text: "pass"}),
      el("th", {cls: "number", text: "rewrote"}),
      el("th", {cls: "number", text: "operators left"}),
      el("th", {text: "what it does"}),
    );
    const rows = app.data.passes.map((one) => {
      const made = el(
        "tr",
        {"data-stage": one.stage, cls: one.count ? "" : "idle", tabindex: "0"},
        el("td", {text: one.name}),
        el("td", {cls: "number", text: one.count ? whole(one.count) : "–"}),
        el("td", {cls: "number", text: whole(one.ops)}),
        el("td", {text: one.help}),
      );
      made.addEventListener("click", () => app.open(one.stage));
      return made;
    });
    return [el("table", {}, el("thead", {}, head), el("tbody", {}, ...rows))];
  },

  /** What lies where: steps to the right, addresses upwards. */
  arena(app) {
    const arena = app.data.arena;
    if (!arena) return [el("p", {cls: "caption", text: "No arena: a plan that ran has one."})];
    const last = app.data.stages.length - 1,
      ops = app.data.stages[last].ops;
    const left = 64,
      top = 6,
      high = 210,
      step = Math.max(7, Math.min(26, (app.panelWidth() - left - 30) / arena.steps));
    const wide = arena.steps * step,
      scale = high / Math.max(arena.bytes, 1);
    const made = svg("svg", {
      width: left + wide + 20,
      height: high + 40,
      role: "img",
      "aria-label": "what lies where in the arena, step by step",
    });
    for (let tick = 0; tick <= 4; tick++) {
      const y = top + high - (high * tick) / 4;
      made.append(svg("path", {class: "axis", d: `M${left} ${y}h${wide}`}));
      made.append(
        svg("text", {x: left - 8, y: y + 4, "text-anchor": "end"}, amount(Math.round((arena.bytes * tick) / 4), "B")),
      );
    }
    for (let at = 0; at < arena.steps; at += Math.max(1, Math.ceil(60 / step)))
      made.append(svg("text", {x: left + at * step, y: top + high + 16}, String(at)));
    made.append(svg("text", {x: left, y: top + high + 32}, "step of the plan"));
    for (const [name, offset, bytes, first, end] of arena.places) {
      const x = left + first * step,
        w = (end - first + 1) * step - 1,
        h = Math.max(1, bytes * scale),
        y = top + high - offset * scale - h;
      const color = name === "" ? "var(--c8)" : `var(--c${app.color(ops[first])})`;
      const rect = svg("rect", {
        class: "span",
        x,
        y,
        width: w,
        height: h,
        fill: color,
        rx: 2,
        "data-op": first,
        opacity: name === "" ? 0.45 : 0.9,
      });
      rect.append(
        svg(
          "title",
          {},
          [
            name || "scratch memory of a kernel",
            `${amount(bytes, "B")} from ${whole(offset)}`,
            `steps ${first} to ${end}, first ${ops[first]?.t}`,
          ].join("\n"),
        ),
      );
      rect.addEventListener("click", () => app.go(last, first));
      made.append(rect);
      if (w > 60 && h > 13)
        made.append(
          svg("text", {class: "on", x: x + 5, y: y + h / 2 + 4}, fitting(name || "scratch", w - 10, `12px ${FONT}`)),
        );
    }
    const saved = arena.unshared ? Math.round((1 - arena.bytes / arena.unshared) * 100) : 0;
    const sizes = `${amount(arena.bytes, "B")} hold what would take ${amount(arena.unshared, "B")} without sharing`;
    const text = `${sizes} (${saved} % less). Grey: scratch memory of kernels.`;
    return [el("p", {cls: "caption", text}), made];
  },

  /** What ran when, on which thread. */
  timeline(app) {
    const parts = [];
    app.data.timelines.forEach((one, number) => parts.push(...timeline(app, one, number)));
    return parts.length ? parts : [el("p", {cls: "caption", text: "Nothing ran."})];
  },

  /** The steps that take longest. */
  slowest(app) {
    const ops = app.stage.ops,
      found = ops.map((facts, op) => [op, facts]).filter(([, facts]) => facts.s !== undefined);
    if (!found.length)
      return [
        el("p", {
          cls: "caption",
          text: `Nothing was timed in "${app.stage.name}"; times are known of what ran: the first or the last stage.`,
        }),
      ];
    found.sort((a, b) => b[1].s - a[1].s);
    const heads = [["operator"], ["writes"], ["engine"], ["time", 1], ["share", 1], ["flop/s", 1], ["B/s", 1]];
    const head = el("tr", {}, ...heads.map(([text, number]) => el("th", {text, cls: number ? "number" : ""})));
    const rows = found.slice(0, 40).map(([op, facts]) => {
      const cells = [
        seconds(facts.s),
        `${((facts.s / app.stage.total) * 100).toFixed(1)} %`,
        facts.c ? amount(facts.c / facts.s, "") : "",
        facts.b ? amount((facts.b[0] + facts.b[1]) / facts.s, "") : "",
      ];
      const made = el(
        "tr",
        {"data-op": op, tabindex: "0"},
        el("td", {text: facts.t}),
        el("td", {text: firstOutput(facts)}),
        el("td", {text: facts.e || ""}),
        ...cells.map((text) => el("td", {cls: "number", text})),
      );
      made.addEventListener("click", () => app.go(app.at, op));
      return made;
    });
    return [el("table", {}, el("thead", {}, head), el("tbody", {}, ...rows))];
  },
};

/** The next larger of 1, 2, 5, 10, 20 ... */
function roundStep(value) {
  const power = 10 ** Math.floor(Math.log10(Math.max(value, 1e-9)));
  return [1, 2, 5, 10].find((factor) => factor * power >= value) * power;
}

function tickText(us) {
  if (us === 0) return "0";
  const [value, unit] = us >= 1e6 ? [us / 1e6, "s"] : us >= 1e3 ? [us / 1e3, "ms"] : [us, "µs"];
  return `${Number(value.toPrecision(4))} ${unit}`;
}

/** One run: a row for each lane, a bar for each operator. */
function timeline(app, one, number) {
  const lanes = Object.entries(one.lanes),
    left = 130,
    row_ = 24,
    zoom = app.timeZoom[number] || 1;
  const room = app.panelWidth() - left - 40,
    scale = (room / Math.max(one.us, 1e-9)) * zoom;
  const made = svg("svg", {
    width: left + one.us * scale + 30,
    height: lanes.length * row_ + 26,
    role: "img",
    "aria-label": one.title,
    "data-timeline": number,
  });
  const ops = app.data.stages[one.stage].ops;
  const step = roundStep(100 / scale);
  for (let at = 0; at <= one.us; at += step) {
    const x = left + at * scale;
    made.append(svg("path", {class: "axis", d: `M${x} 0v${lanes.length * row_ + 4}`}));
    made.append(svg("text", {x, y: lanes.length * row_ + 20, "text-anchor": at ? "middle" : "start"}, tickText(at)));
  }
  lanes.forEach(([lane, spans], at) => {
    const y = at * row_ + 2;
    made.append(svg("text", {x: 0, y: y + 15}, fitting(lane, left - 12, `12px ${FONT}`)));
    for (const [op, start, end, copy] of spans) {
      const facts = ops[op],
        w = Math.max(0.6, (end - start) * scale),
        x = left + start * scale;
      if (!facts) continue;
      const rect = svg("rect", {
        class: "span",
        x,
        y,
        width: w,
        height: row_ - 5,
        rx: w > 6 ? 2 : 0,
        fill: `var(--c${app.color(facts)})`,
        "data-op": op,
        opacity: copy ? 0.55 : 1,
      });
      rect.append(
        svg(
          "title",
          {},
          `${facts.t} ${firstOutput(facts)}\n${seconds((end - start) / 1e6)} from ${seconds(start / 1e6)}`,
        ),
      );
      rect.addEventListener("click", () => app.go(one.stage, op));
      made.append(rect);
      if (w > widthOf(facts.t, `12px ${FONT}`) + 8)
        made.append(svg("text", {class: "on", x: x + 4, y: y + 14}, facts.t));
    }
  });
  const closer = (text, factor, label) => {
    const button = el("button", {text, "aria-label": label});
    button.addEventListener("click", () => {
      app.timeZoom[number] = Math.min(64, Math.max(1, zoom * factor));
      app.showPanel();
    });
    return button;
  };
  return [
    el(
      "div",
      {cls: "caption"},
      closer("−", 0.5, "less of a close-up"),
      closer("+", 2, "closer"),
      el("span", {text: one.title}),
    ),
    made,
  ];
}
