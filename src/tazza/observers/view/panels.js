/* The panel beside the graph: the facts of what is chosen. */

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
