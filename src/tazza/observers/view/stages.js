/* The stages of a net, what is folded in them, and what their items show. */

class Stages {
  constructor(data) {
    this.data = data;
    this.at = 0;
    this.hits = new Set();
    this.mode = "family";
    this.unfolded = new Map();
    for (const stage of data.stages) this.prepare(stage);
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
