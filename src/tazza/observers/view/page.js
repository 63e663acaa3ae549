/* The page: what is chosen, and everything that a person can do to it. */

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

class App extends Stages {
  constructor(data) {
    super(data);
    this.picked = null;
    this.tab = null;
    this.timeZoom = {};
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

  // -- folding -------------------------------------------------------------------------------------------------------

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

window.tazza = new App(JSON.parse(document.getElementById("data").textContent));
document.documentElement.dataset.ready = String(Math.round(performance.now()));
