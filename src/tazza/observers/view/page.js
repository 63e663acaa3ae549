/* The page: what is chosen, folded and shown, and everything that a person can do to it. */

const LIST_MAX = 60;
const KEYS = [
  ["↑ ↓", "what it reads from, who reads it"],
  ["← →", "beside it"],
  ["Enter", "fold, unfold"],
  ["Esc", "choose nothing"],
  ["/", "search"],
  ["[ ]", "the pass before, the next one"],
  ["z u", "fold all, unfold all"],
  ["f 1", "all of it, in full size"],
  ["+ −", "larger, smaller (or Ctrl and the wheel)"],
  ["d", "light or dark"],
];

class App {
  constructor(data) {
    this.data = data;
    this.at = 0;
    this.picked = null;
    this.hits = new Set();
    this.tab = null;
    this.timeZoom = {};
    this.mode = "family";
    this.unfolded = new Map();
    for (const stage of data.stages) this.prepare(stage);
    this.graph = new Graph(document.getElementById("canvas"), data.size, {
      folded: (item) => this.folded(item),
      chosen: () => this.picked,
      told: (box) => this.told(box),
      choose: (box, event) => {
        event.stopPropagation();
        this.choose(box.item);
      },
      toggle: (box) => this.toggle(box.item),
    });
    this.wire();
    document.getElementById("name").textContent = data.name || "net";
    document.title = `${data.name || "net"} – tazza view`;
    this.colors();
    this.open(data.arena || data.timelines.length ? data.stages.length - 1 : 0, true);
  }

  /** Index a stage: the chain of items that leads to each operator, and what comes from which operator as written. */
  prepare(stage) {
    stage.chains = new Map();
    stage.items = new Map();
    stage.byOrigin = new Map();
    const walk = (level, chain) =>
      level.i.forEach((item, at) => {
        const own = [...chain, item];
        item.index = at;
        item.among = level.i.length;
        stage.items.set(item.id, item);
        if (item.op !== undefined) stage.chains.set(item.op, own);
        item.chain = own;
        if (item.in) walk(item.in, own);
      });
    walk(stage.root, []);
    stage.total = stage.ops.reduce((total, facts) => total + (facts.s || 0), 0);
    stage.most = stage.ops.reduce((most, facts) => Math.max(most, facts.s || 0), 0);
    stage.ops.forEach((facts, op) => {
      const origins = facts.u || [facts.o.length ? `${facts.t} ${quoted(facts.o[0][0])}` : facts.t];
      for (const origin of origins) if (!stage.byOrigin.has(origin)) stage.byOrigin.set(origin, op);
    });
    stage.fold = stage.ops.length > this.data.size.fold_from;
  }

  get stage() {
    return this.data.stages[this.at];
  }

  nextName() {
    return this.at + 1 < this.data.stages.length ? this.data.stages[this.at + 1].name : "";
  }

  // -- folding -------------------------------------------------------------------------------------------------------

  /** Repeated blocks and nets within operators are folded at first where a net is not small. */
  folded(item) {
    const said = this.unfolded.get(item.id);
    if (said !== undefined) return !said;
    return this.stage.fold && (item.x > 1 || item.op !== undefined);
  }

  toggle(item) {
    this.unfolded.set(item.id, this.folded(item));
    this.again(item);
  }

  foldAll(folded) {
    for (const item of this.stage.items.values())
      if (item.in) this.unfolded.set(item.id, !folded || !(item.x > 1 || item.op !== undefined));
    const chain = this.picked?.chain;
    if (folded && chain) this.picked = chain.find((one) => one.in && this.folded(one)) || this.picked;
    this.again(this.picked);
    if (!this.picked) this.graph.begin();
    this.facts();
  }

  /** Lay out anew; what is given stays where it was in the window. */
  again(item) {
    const before = item && this.graph.boxes.get(item),
      view = this.graph.view;
    this.graph.layout(this.stage.root);
    const after = item && this.graph.boxes.get(item);
    if (before && after) {
      view.x += (before.port - after.port) * view.k;
      view.y += (before.y - after.y) * view.k;
    }
    this.graph.draw();
  }

  /** Operators within an item, however deep. */
  opsIn(item) {
    if (!item.ops) {
      const own = item.op !== undefined ? [item.op] : [];
      item.ops = item.in ? own.concat(...item.in.i.map((one) => this.opsIn(one))) : own;
    }
    return item.ops;
  }

  // -- what items show -----------------------------------------------------------------------------------------------

  color(facts) {
    if (!facts) return 8;
    const list = this.mode === "engine" ? this.data.engines : this.data.families;
    const value = this.mode === "engine" ? facts.e : facts.f;
    const at = value === undefined ? -1 : list.indexOf(value);
    return at < 0 || at > 7 ? 8 : at;
  }

  told(box) {
    const {item} = box;
    if (item.k === "in" || item.k === "out")
      return {tip: `${item.k === "in" ? "input" : "output"} ${item.name}`, mark: "", hit: this.hits.has(item)};
    const hit = this.hits.has(item) || (item.in && this.folded(item) && this.around.has(item));
    return {...(item.op !== undefined ? this.toldOperator(item) : this.toldGroup(item)), hit};
  }

  toldOperator(item) {
    const facts = this.stage.ops[item.op],
      inner = item.in ? this.opsIn(item).length - 1 : 0;
    const spec = facts.o.length ? facts.o[0][1] : "",
      shape = dimsOf(spec);
    const share = facts.s ? facts.s / this.longest() : 0;
    return {
      title: facts.t,
      name: firstOutput(facts) || (inner ? `${plural(inner, "operator")} within` : facts.n || ""),
      shape: facts.o.length > 1 && !shape ? "" : shape,
      time: facts.s !== undefined ? seconds(facts.s) : "",
      share,
      color: this.color(facts),
      tint: this.tint(facts.s || 0),
      mark: facts.y & 1 ? "made" : facts.y & 2 ? "goes" : "",
      count: inner ? `${plural(inner, "operator")} within` : "",
      tip: [
        `${facts.t}  ${facts.o.map(([name, text]) => `${name} ${text}`).join(", ")}`,
        facts.e,
        facts.u && `made from ${facts.u.join(", ")}`,
      ]
        .filter(Boolean)
        .join("\n"),
    };
  }

  toldGroup(item) {
    const ops = this.opsIn(item),
      first = this.stage.ops[ops[0]],
      time = ops.reduce((total, op) => total + (this.stage.ops[op].s || 0), 0);
    const each = item.x > 1 ? ops.slice(0, Math.round(ops.length / item.x)) : ops;
    const types = [...new Set(each.map((op) => this.stage.ops[op].t))];
    let title = item.name;
    if (item.k === "group") title = item.name === "" ? first.t : this.oneBlock() ? "block" : `block ${item.name}`;
    if (item.x > 1) title += ` × ${item.x}`;
    const count =
      item.x > 1 && each.length > 1 ? `${item.x} × ${plural(each.length, "operator")}` : plural(ops.length, "operator");
    const nth = item.k === "group" && !item.x ? `${item.index + 1} of ${item.among}` : "";
    const last = this.stage.ops[ops[ops.length - 1]],
      spec = last?.o[0]?.[1] || "";
    return {
      title,
      name: types.join(", "),
      shape: dimsOf(spec) || plural(ops.length, "operator"),
      time: time ? seconds(time) : "",
      share: time / this.longest(),
      color: this.color(heaviest(ops.map((op) => this.stage.ops[op]))),
      tint: this.tint(time / Math.max(1, ops.length)),
      mark: ops.some((op) => this.stage.ops[op].y & 1)
        ? "made"
        : ops.some((op) => this.stage.ops[op].y & 2)
          ? "goes"
          : "",
      count: [nth, count].filter(Boolean).join("  ·  "),
      tip: `${title}\n${count}\n${types.join(", ")}`,
    };
  }

  /** The time of the longest thing that is shown: what bars are measured by. */
  longest() {
    if (this.measured !== this.graph.items) {
      const times = this.graph.items
        .filter((box) => !box.inner)
        .map((box) => this.opsIn(box.item).reduce((sum, op) => sum + (this.stage.ops[op].s || 0), 0));
      this.most = times.reduce((most, time) => Math.max(most, time), 1e-12);
      this.measured = this.graph.items;
    }
    return this.most;
  }

  /** Whether blocks of one kind alone repeat, so that no letter is needed. */
  oneBlock() {
    if (this.stage.one === undefined) {
      const names = new Set(
        [...this.stage.items.values()].filter((item) => item.k === "group" && item.name).map((item) => item.name),
      );
      this.stage.one = names.size === 1;
    }
    return this.stage.one;
  }

  tint(time) {
    if (this.mode !== "time") return 0.14;
    return this.stage.most ? 0.04 + 0.75 * Math.sqrt(time / this.stage.most) : 0.04;
  }

  /** Who made what an operator reads, and who reads what it writes: by operator, a map from blob to operators. */
  wires() {
    if (this.stage.wires) return this.stage.wires;
    const from = [],
      to = [];
    const walk = (level, outer) => {
      const last = new Map(outer);
      const each = (item) => {
        if (item.op === undefined) {
          if (item.in && item.k !== "net") item.in.i.forEach(each);
          return;
        }
        const op = item.op,
          facts = this.stage.ops[op];
        from[op] = new Map();
        to[op] = to[op] || new Map();
        for (const [name] of facts.i)
          if (last.has(name)) {
            from[op].set(name, last.get(name));
            const readers = to[last.get(name)];
            readers.set(name, [...(readers.get(name) || []), op]);
          }
        if (item.in) for (const net of item.in.i) walk(net.in, last);
        for (const [name] of facts.o) last.set(name, op);
      };
      level.i.forEach(each);
    };
    walk(this.stage.root, new Map());
    return (this.stage.wires = {from, to});
  }

  /** The operator of the last stage that stands for this one, where there is one. */
  became(facts) {
    const last = this.data.stages[this.data.stages.length - 1];
    for (const origin of facts.u || [facts.o.length ? `${facts.t} ${quoted(facts.o[0][0])}` : facts.t])
      if (last.byOrigin.has(origin)) return last.byOrigin.get(origin);
    return undefined;
  }

  // -- choosing ------------------------------------------------------------------------------------------------------

  choose(item) {
    this.picked = item;
    this.facts();
    this.graph.refresh();
    this.marks();
  }

  /** Go to an operator of a stage, unfolding what it lies in. */
  go(stage, op) {
    if (stage !== this.at) this.open(stage);
    const chain = this.stage.chains.get(op);
    if (!chain) return;
    for (const item of chain.slice(0, -1)) if (item.in && this.folded(item)) this.unfolded.set(item.id, true);
    const item = chain[chain.length - 1];
    this.graph.layout(this.stage.root);
    this.choose(item);
    this.graph.center(this.graph.boxes.get(item));
  }

  /** Show a stage; what is chosen, or what is in the middle of the window, stays where it is. */
  open(at, first = false) {
    const old = first ? null : this.kept(),
      view = this.graph.view;
    this.at = at;
    const same = (id) => id !== undefined && this.stage.items.get(id);
    this.picked = this.picked ? same(this.picked.id) || null : null;
    this.find(document.getElementById("search").value, false);
    this.graph.layout(this.stage.root);
    if (first) this.graph.begin();
    const kept = old?.find(({id}) => same(id) && this.graph.boxes.has(same(id)));
    if (kept) {
      const box = this.graph.boxes.get(same(kept.id));
      view.x = kept.x - box.port * view.k;
      view.y = kept.y - box.y * view.k;
    }
    this.graph.refresh();
    this.facts();
    this.strip();
    this.legend();
    if (this.tab === "slowest") this.showPanel();
    this.marks();
  }

  /** Boxes with their places in the window, those first that should stay there: what is chosen, then the nearest. */
  kept() {
    const {x, y, k} = this.graph.view,
      middle = {x: this.graph.canvas.clientWidth / 2, y: this.graph.canvas.clientHeight / 2};
    const places = this.graph.items.map((box) => ({
      id: box.item.id,
      x: x + box.port * k,
      y: y + box.y * k,
      chosen: box.item === this.picked,
    }));
    const far = (one) => (one.chosen ? -1 : Math.hypot(one.x - middle.x, one.y - middle.y));
    return places.sort((a, b) => far(a) - far(b));
  }

  facts() {
    const aside = document.getElementById("facts");
    const box = this.picked && this.graph.boxes.get(this.picked);
    let parts;
    if (!this.picked) parts = netFacts(this);
    else if (this.picked.op !== undefined) parts = operatorFacts(this, this.picked.op);
    else if (this.picked.k === "in" || this.picked.k === "out")
      parts = [
        el("h2", {text: this.picked.name}),
        el("p", {cls: "soft", text: this.picked.k === "in" ? "an input of the net" : "an output of the net"}),
        ...this.endFacts(),
      ];
    else parts = groupFacts(this, box || {item: this.picked});
    aside.replaceChildren(...parts);
    aside.scrollTop = 0;
    if (this.picked?.op !== undefined) aside.dataset.op = this.picked.op;
    else delete aside.dataset.op;
  }

  endFacts() {
    const {name, k} = this.picked,
      rows = [];
    this.stage.ops.forEach((facts, op) => {
      const blob = (k === "in" ? facts.i : facts.o).find((one) => one[0] === name);
      if (blob && rows.length < 12)
        rows.push(el("p", {}, link(this, `${facts.t} ${firstOutput(facts)}`, this.at, op), ` ${blob[1]}`));
    });
    return [el("h3", {text: k === "in" ? "read by" : "made by"}), ...rows];
  }

  /** Mark what is chosen in the drawer too. */
  marks() {
    for (const rect of document.querySelectorAll("#panel rect.span.chosen")) rect.classList.remove("chosen");
    if (this.picked?.op === undefined) return;
    const stages = {arena: this.data.stages.length - 1};
    for (const rect of document.querySelectorAll(`#panel rect.span[data-op="${this.picked.op}"]`)) {
      const number = rect.closest("svg").dataset.timeline;
      const of = number === undefined ? stages.arena : this.data.timelines[number].stage;
      if (of === this.at) rect.classList.add("chosen");
    }
  }

  // -- around the graph ----------------------------------------------------------------------------------------------

  strip() {
    const parts = [];
    this.data.stages.forEach((stage, at) => {
      if (at) parts.push(el("i", {text: "›"}));
      const button = el(
        "button",
        {text: stage.name, title: stage.help || stage.name, "aria-current": String(at === this.at), "data-stage": at},
        el("small", {text: plural(stage.ops.length, "operator")}),
      );
      button.addEventListener("click", () => this.open(at));
      parts.push(button);
    });
    const nav = document.getElementById("stages"),
      scrolled = nav.scrollLeft;
    nav.replaceChildren(...parts);
    nav.scrollLeft = scrolled;
    nav.querySelector("[aria-current=true]")?.scrollIntoView({block: "nearest", inline: "nearest"});
  }

  legend() {
    const list = this.mode === "engine" ? this.data.engines : this.data.families,
      key = this.mode === "engine" ? "e" : "f";
    const here = new Set(this.stage.ops.map((facts) => facts[key]));
    const parts = [];
    const entry = (color, text) =>
      parts.push(el("span", {}, Object.assign(el("b"), {style: `background: var(--c${color})`}), text));
    list.slice(0, 8).forEach((name, at) => here.has(name) && entry(at, name));
    if (this.stage.ops.some((facts) => this.color(facts) === 8))
      entry(8, this.mode === "engine" ? "did not run here" : "others");
    if (this.mode === "time") parts.push(el("span", {text: "the fuller, the slower"}));
    const told = (cls, text) =>
      parts.push(el("span", {}, Object.assign(el("b"), {style: `border: 2px solid var(--${cls})`}), text));
    if (this.stage.ops.some((facts) => facts.y & 1)) told("good", "made by this pass");
    if (this.stage.ops.some((facts) => facts.y & 2)) told("bad", "gone after the next");
    document.getElementById("legend").replaceChildren(...parts);
  }

  colors() {
    const select = document.getElementById("color");
    if (!this.data.engines.length) for (const option of [...select.options].slice(1)) option.disabled = true;
  }

  panelWidth() {
    return document.getElementById("drawer").clientWidth - 28;
  }

  showPanel(name = this.tab) {
    this.tab = name;
    const panel = document.getElementById("panel"),
      scrolled = panel.scrollTop;
    for (const button of document.querySelectorAll("[data-tab]"))
      button.setAttribute("aria-selected", String(button.dataset.tab === name));
    panel.hidden = !name;
    panel.replaceChildren(...(name ? PANELS[name](this) : []));
    panel.scrollTop = scrolled;
    this.marks();
    const box = this.picked && this.graph.boxes.get(this.picked);
    if (box && this.graph.root === this.stage.root) this.graph.show(box);
  }

  // -- searching -----------------------------------------------------------------------------------------------------

  /** Mark what a text is found in: types, names of operators, blobs, engines. */
  find(text, list = true) {
    const found = document.getElementById("found"),
      words = text.toLowerCase().split(/\s+/).filter(Boolean);
    this.hits = new Set();
    const ops = [];
    if (words.length)
      this.stage.ops.forEach((facts, op) => {
        const all = [
          facts.t,
          facts.n || "",
          facts.e || "",
          ...facts.i.map((one) => one[0]),
          ...facts.o.map((one) => one[0]),
          ...(facts.u || []),
        ]
          .join(" ")
          .toLowerCase();
        if (words.every((word) => all.includes(word))) ops.push(op);
      });
    for (const op of ops) this.hits.add(this.stage.chains.get(op).at(-1));
    this.around = new Set([...this.hits].flatMap((item) => item.chain));
    this.found = ops;
    this.line = 0;
    found.hidden = !list || !words.length;
    document.getElementById("search").setAttribute("aria-expanded", String(!found.hidden));
    if (!found.hidden) this.list();
    if (this.graph.root === this.stage.root) this.graph.refresh();
  }

  list() {
    const found = document.getElementById("found");
    const lines = this.found.slice(0, LIST_MAX).map((op, at) => {
      const facts = this.stage.ops[op];
      const made = el(
        "li",
        {role: "option", "aria-selected": String(at === this.line), "data-op": op},
        facts.t,
        el("span", {text: firstOutput(facts)}),
      );
      made.addEventListener("pointerdown", (event) => {
        event.preventDefault();
        this.take(at);
      });
      return made;
    });
    if (!this.found.length) lines.push(el("li", {cls: "none", text: "nothing of that name"}));
    else if (this.found.length > LIST_MAX)
      lines.push(el("li", {cls: "none", text: `and ${this.found.length - LIST_MAX} more`}));
    found.replaceChildren(...lines);
    found.querySelector("[aria-selected=true]")?.scrollIntoView({block: "nearest"});
  }

  take(at) {
    document.getElementById("found").hidden = true;
    if (this.found[at] !== undefined) this.go(this.at, this.found[at]);
  }

  // -- keys and buttons ----------------------------------------------------------------------------------------------

  wire() {
    const on = (id, event, act) => document.getElementById(id).addEventListener(event, act);
    on("fold", "click", () => this.foldAll(true));
    on("unfold", "click", () => this.foldAll(false));
    on("fit", "click", () => this.graph.fit());
    on("in", "click", () => this.graph.zoom(1.25));
    on("out", "click", () => this.graph.zoom(0.8));
    on("theme", "click", () => this.theme());
    on("help", "click", () => this.help());
    on("color", "change", (event) => {
      this.mode = event.target.value;
      this.graph.refresh();
      this.legend();
      this.showPanel();
    });
    on("canvas", "click", (event) => event.target.id === "canvas" && this.choose(null));
    const search = document.getElementById("search");
    search.addEventListener("input", () => this.find(search.value));
    search.addEventListener("focus", () => search.value && this.find(search.value));
    search.addEventListener("blur", () => {
      document.getElementById("found").hidden = true;
    });
    search.addEventListener("keydown", (event) => this.searchKey(event, search));
    for (const button of document.querySelectorAll("[data-tab]"))
      button.addEventListener("click", () =>
        this.showPanel(this.tab === button.dataset.tab ? null : button.dataset.tab),
      );
    document.addEventListener("keydown", (event) => this.key(event));
    window.addEventListener("resize", () => this.showPanel());
    this.theme(matchMedia("(prefers-color-scheme: dark)").matches);
  }

  theme(dark = !document.documentElement.classList.contains("dark")) {
    document.documentElement.classList.toggle("dark", dark);
  }

  help() {
    const hint = document.getElementById("hint");
    hint.replaceChildren(el("dl", {}, ...KEYS.flatMap(([key, text]) => [el("dt", {text: key}), el("dd", {text})])));
    hint.hidden = !hint.hidden;
  }

  searchKey(event, search) {
    const steps = {ArrowDown: 1, ArrowUp: -1};
    if (event.key in steps && this.found?.length) {
      event.preventDefault();
      const count = Math.min(LIST_MAX, this.found.length);
      this.line = (this.line + steps[event.key] + count) % count;
      this.list();
    } else if (event.key === "Enter") {
      this.take(this.line);
      this.graph.canvas.focus();
    } else if (event.key === "Escape") {
      search.value = "";
      this.find("");
      this.graph.canvas.focus();
    }
    event.stopPropagation();
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|SELECT)$/.test(event.target.tagName)) return;
    const button = event.target.closest?.("button, a, tr[tabindex]");
    if (event.key === "Enter" && button) {
      if (button.tagName === "TR") button.click();
      return;
    }
    const acts = {
      "/": () => document.getElementById("search").select(),
      f: () => this.graph.fit(),
      1: () => this.graph.begin(),
      "+": () => this.graph.zoom(1.25),
      "=": () => this.graph.zoom(1.25),
      "-": () => this.graph.zoom(0.8),
      z: () => this.foldAll(true),
      u: () => this.foldAll(false),
      d: () => this.theme(),
      "?": () => this.help(),
      "[": () => this.at > 0 && this.open(this.at - 1),
      "]": () => this.at + 1 < this.data.stages.length && this.open(this.at + 1),
      Escape: () => {
        document.getElementById("hint").hidden = true;
        this.choose(null);
      },
      Enter: () => this.picked?.in && this.toggle(this.picked),
      ArrowDown: () => this.walk(1),
      ArrowUp: () => this.walk(-1),
      ArrowRight: () => this.beside(1),
      ArrowLeft: () => this.beside(-1),
    };
    if (!acts[event.key]) return;
    event.preventDefault();
    acts[event.key]();
  }

  /** Choose what lies next along the edges: into what is unfolded, out of it again at its end. */
  walk(way) {
    const box = this.picked && this.graph.boxes.get(this.picked);
    if (!box) return this.near(this.stage.root.i[way > 0 ? 0 : this.stage.root.i.length - 1]);
    if (box.inner && way > 0) return this.near(this.picked.in.i[0]);
    for (let one = box; one; one = one.around) {
      const ends = one.level.e
        .filter((edge) => edge[way > 0 ? 0 : 1] === one.at)
        .map((edge) => one.level.i[edge[way > 0 ? 1 : 0]])
        .filter(Boolean);
      if (!ends.length) continue;
      let next = ends.sort((a, b) => Math.abs(a.l - one.item.l) - Math.abs(b.l - one.item.l) || a.n - b.n)[0];
      if (way < 0) while (next.in && !this.folded(next)) next = next.in.i[next.in.i.length - 1];
      return this.near(next);
    }
    return undefined;
  }

  beside(way) {
    const box = this.picked && this.graph.boxes.get(this.picked);
    if (!box) return;
    const row_ = box.level.i.filter((item) => item.l === box.item.l).sort((a, b) => a.n - b.n);
    const next = row_[row_.indexOf(box.item) + way];
    if (next) this.near(next);
  }

  near(item) {
    this.choose(item);
    const box = this.graph.boxes.get(item);
    if (box) this.graph.show(box);
  }
}

/** The extents of a spec, short: 1×64×56×56. */
function dimsOf(spec) {
  return spec.replace(/^\S+ ?/, "").replaceAll(" × ", "×");
}

/** A name as rewriting quotes it: as Python would. */
function quoted(name) {
  const plain = name.replaceAll("\\", "\\\\");
  return name.includes("'") && !name.includes('"') ? `"${plain}"` : `'${plain.replaceAll("'", "\\'")}'`;
}

/** The facts of the operator that takes most time, or computes most. */
function heaviest(list) {
  return list.reduce(
    (best, facts) =>
      (facts.s || 0) > (best.s || 0) || (!(best.s || facts.s) && (facts.c || 0) > (best.c || 0)) ? facts : best,
    list[0],
  );
}

window.tazza = new App(JSON.parse(document.getElementById("data").textContent));
document.documentElement.dataset.ready = String(Math.round(performance.now()));
