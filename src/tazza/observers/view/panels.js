/* Panels: the facts of what is chosen, passes, the arena over the steps, what ran when, and the slowest steps. */

/** Make an HTML element of a class, with text or children. */
function el(tag, {cls, text, ...attributes} = {}, ...children) {
  const made = document.createElement(tag);
  if (cls) made.className = cls;
  if (text !== undefined) made.textContent = text;
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

/** Seconds as people read them. */
function seconds(value) {
  if (value >= 1) return `${value.toPrecision(3)} s`;
  if (value >= 1e-3) return `${(value * 1e3).toPrecision(3)} ms`;
  return value >= 1e-6 ? `${(value * 1e6).toPrecision(3)} µs` : `${(value * 1e9).toFixed(0)} ns`;
}

/** A count with a unit: 1.85 GB, 12 flop. */
function amount(value, unit) {
  const steps = [
    [1e12, "T"],
    [1e9, "G"],
    [1e6, "M"],
    [1e3, "k"],
  ];
  for (const [size, letter] of steps) if (value >= size) return `${(value / size).toPrecision(3)} ${letter}${unit}`;
  return `${value} ${unit}`;
}

const whole = (value) => value.toLocaleString("en");
const plural = (count, word) => `${whole(count)} ${word}${count === 1 ? "" : "s"}`;
const firstOutput = (facts) => (facts.o.length ? facts.o[0][0] : "");

function row(name, ...cells) {
  return el(
    "tr",
    {},
    el("th", {text: name}),
    ...cells.map((cell) => (cell instanceof Node ? el("td", {}, cell) : el("td", {text: cell}))),
  );
}

function table(...rows) {
  return el("table", {}, el("tbody", {}, ...rows));
}

/** A link that goes to an operator of a stage. */
function link(app, text, stage, op) {
  const made = el("a", {cls: "go", text, href: "#", role: "button"});
  made.addEventListener("click", (event) => {
    event.preventDefault();
    app.go(stage, op);
  });
  return made;
}

/** What is known of one operator. */
function operatorFacts(app, op) {
  const stage = app.stage,
    facts = stage.ops[op],
    parts = [];
  const title = el("h2", {text: facts.t});
  if (facts.n) title.append(el("span", {cls: "tag", text: facts.n}));
  parts.push(title);
  if (facts.d) parts.push(el("p", {cls: "soft", text: facts.d}));
  if (facts.y & 1) parts.push(el("p", {cls: "note", text: `made by ${stage.name}`}));
  if (facts.y & 2) parts.push(el("p", {cls: "note", text: `gone, or changed, after ${app.nextName()}`}));
  parts.push(
    ...runFacts(facts, stage),
    ...blobFacts(app, op, facts),
    ...choiceFacts(facts),
    ...originFacts(app, op, facts),
  );
  if (facts.a)
    parts.push(
      el("h3", {text: "arguments"}),
      table(...facts.a.map(([name, value]) => row(name, el("code", {text: value})))),
    );
  const rest = [
    ["kind", facts.f],
    ["device", facts.v],
    ["waits for", facts.x?.join(", ")],
    ["made at", facts.g],
  ];
  parts.push(
    el("h3", {text: "else"}),
    table(...rest.filter(([, value]) => value).map(([name, value]) => row(name, value))),
  );
  return parts;
}

/** Cost, engine, layout, time and memory. */
function runFacts(facts, stage) {
  const rows = [],
    add = (name, value) => value && rows.push(row(name, value));
  if (facts.s !== undefined) {
    const share = stage.total ? `, ${((facts.s / stage.total) * 100).toFixed(1)} % of all` : "";
    add("time", `${seconds(facts.s)}${share}`);
    if (facts.r > 1) add("", `median of ${facts.r} runs, ±${seconds(facts.sd)}, least ${seconds(facts.mn)}`);
  }
  add("engine", facts.e && `${facts.e}${facts.m ? ` · ${facts.m}` : ""}`);
  add("layout", facts.l);
  add("slices", facts.z && `${facts.z} parts of the images, one behind the other`);
  add("ran on", facts.w?.join(", "));
  add("parameters", facts.p && whole(facts.p));
  if (facts.c !== undefined) {
    const rate = facts.s > 0 && facts.c ? `, ${amount(facts.c / facts.s, "flop/s")}` : "";
    add("operations", facts.c ? `${amount(facts.c, "flop")}${rate}` : "none counted");
    add("moves", `${amount(facts.b[0], "B")} read, ${amount(facts.b[1], "B")} written`);
  }
  add("outputs", facts.k && amount(facts.k, "B"));
  return rows.length ? [el("h3", {text: "cost"}), table(...rows)] : [];
}

function blobFacts(app, op, facts) {
  const parts = [];
  const list = (title, blobs, ends) => {
    if (!blobs.length) return;
    parts.push(el("h3", {text: title}));
    blobs.forEach(([name, spec, letter, parameter], at) => {
      const others = ends(name, at),
        line = el("div", {cls: "blob"}, el("span", {cls: "letter", text: letter || ""}), el("code", {text: name}));
      if (parameter) line.append(el("span", {cls: "tag", text: "parameter"}));
      const small = el("small", {text: spec || (parameter ? "" : "shape not known")});
      others.slice(0, 4).forEach((other, number) => {
        small.append(
          number ? ", " : small.textContent ? " · " : "",
          title === "reads" ? "from " : "to ",
          link(app, `${app.stage.ops[other].t}`, app.at, other),
        );
      });
      if (others.length > 4) small.append(` and ${others.length - 4} more`);
      if (small.textContent) line.append(small);
      parts.push(line);
    });
  };
  const wires = app.wires();
  list("reads", facts.i, (name) => {
    const from = wires.from[op]?.get(name);
    return from === undefined ? [] : [from];
  });
  list("writes", facts.o, (name) => wires.to[op]?.get(name) || []);
  return parts;
}

/** What each engine answered, the taken one first. */
function choiceFacts(facts) {
  if (!facts.q?.length) return [];
  const found = [...facts.q].sort((a, b) => (a[1] === "" ? 0 : 1) - (b[1] === "" ? 0 : 1));
  const rows = found.map(([engine, reason, estimate, searched, wanted]) => {
    let text = reason === "" ? "taken" : reason;
    if (reason === "" && estimate !== null) text += `, about ${seconds(estimate / 1e6)}`;
    if (searched !== null) text += `, timed ${seconds(searched / 1e6)}`;
    if (wanted) text += " (asked for)";
    const made = row(engine, text);
    if (reason === "") made.className = "taken";
    return made;
  });
  return [el("h3", {text: "engines that were asked"}), table(...rows)];
}

/** What it was made from, and what became of it. */
function originFacts(app, op, facts) {
  const parts = [];
  if (facts.u) {
    parts.push(el("h3", {text: "made from"}));
    const written = app.data.stages[0];
    for (const origin of facts.u) {
      const from = written.byOrigin.get(origin);
      parts.push(el("p", {}, from === undefined ? origin : link(app, origin, 0, from)));
    }
  }
  const last = app.data.stages.length - 1,
    became = app.at < last ? app.became(facts) : undefined;
  if (became !== undefined && !(facts.y === undefined && last === 0)) {
    const target = app.data.stages[last].ops[became];
    parts.push(
      el("h3", {text: `in "${app.data.stages[last].name}"`}),
      el("p", {}, link(app, `${target.t} ${firstOutput(target)}`, last, became)),
    );
  }
  return parts;
}

/** What is known of a group: sums over its operators. */
function groupFacts(app, box) {
  const told = app.told(box),
    ops = app.opsIn(box.item),
    stage = app.stage;
  const parts = [
    el("h2", {text: told.title}),
    el("p", {cls: "soft", text: told.count || plural(ops.length, "operator")}),
  ];
  const sum = (key) => ops.reduce((total, op) => total + (stage.ops[op][key] || 0), 0);
  const rows = [],
    time = sum("s");
  if (time)
    rows.push(
      row("time", `${seconds(time)}${stage.total ? `, ${((time / stage.total) * 100).toFixed(1)} % of all` : ""}`),
    );
  if (sum("p")) rows.push(row("parameters", whole(sum("p"))));
  if (sum("c")) rows.push(row("operations", amount(sum("c"), "flop")));
  if (rows.length) parts.push(el("h3", {text: "together"}), table(...rows));
  const counts = new Map();
  for (const op of ops) counts.set(stage.ops[op].t, (counts.get(stage.ops[op].t) || 0) + 1);
  const sorted = [...counts].sort((a, b) => b[1] - a[1]);
  parts.push(
    el("h3", {text: "operators"}),
    table(
      ...sorted.map(([type, count]) => {
        const made = row(type, "");
        made.lastChild.textContent = whole(count);
        made.lastChild.className = "number";
        return made;
      }),
    ),
  );
  return parts;
}

/** What is known of the net as it is in this stage. */
function netFacts(app) {
  const stage = app.stage,
    ops = stage.ops,
    rows = [];
  const sum = (key) => ops.reduce((total, facts) => total + (facts[key] || 0), 0);
  rows.push(row("operators", whole(ops.length)));
  const parameters = new Map();
  for (const facts of ops) for (const [name, spec, , parameter] of facts.i) if (parameter) parameters.set(name, spec);
  const elements = [...parameters.values()]
    .map((spec) => spec.split(" ").slice(1).join(" "))
    .map((dims) => (dims && !/[?.]/.test(dims) ? dims.split(" × ").reduce((a, b) => a * Number(b), 1) || 1 : 0))
    .reduce((a, b) => a + b, 0);
  if (parameters.size)
    rows.push(
      row(
        "parameters",
        elements ? `${whole(elements)} in ${plural(parameters.size, "blob")}` : plural(parameters.size, "blob"),
      ),
    );
  if (sum("c")) rows.push(row("operations", amount(sum("c"), "flop")));
  if (stage.total) rows.push(row("time", `${seconds(stage.total)}, all operators of a run`));
  const arena = app.data.arena;
  if (arena && app.at === app.data.stages.length - 1)
    rows.push(row("arena", `${amount(arena.bytes, "B")}, ${amount(arena.unshared, "B")} without sharing`));
  const parts = [
    el("h2", {text: app.data.name || "a net without a name"}),
    el("p", {cls: "soft", text: `${stage.name}${stage.help ? `: ${stage.help}` : ""}`}),
    el("h3", {text: "the net"}),
    table(...rows),
  ];
  for (const note of app.data.notes) parts.push(el("p", {cls: "note", text: note}));
  parts.push(el("p", {cls: "soft", text: "Click an operator, or search for one."}));
  return parts;
}

// -- the drawer -------------------------------------------------------------------------------------------------------

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
