/**
 * An index of a trace: who was where at which time, how much went over which link, and where in the file to look for
 * single rows. It is made in one pass over the file, a row group at a time, and its size is bounded: what is left out
 * is in `cut`.
 */

import { BadFile, readColumn, readFooter } from "./simulate_parquet.js";

const COLUMNS = ["at", "node", "kind", "peer", "message", "publisher", "sequence", "subscription", "number", "size", "detail"];
const FORMAT = 1; // of traces: godwit/trace.py
const BUCKETS = 600;
const CHANGES_MAX = 1_000_000;
const LINKS_MAX = 2_000;
const NODES_MAX = 100_000;
const GROUP_ROWS_MAX = 4_000_000;
const FAULTS = new Set(["lost", "died", "crashed", "tail_lost", "fault", "gap", "overtaken"]);
const SERIES = ["messages", "published", "delivered", "moves", "faults"];

/** Numbers in a typed array that grows up to a bound. */
class Numbers {
  constructor(Kind) {
    this.Kind = Kind;
    this.held = new Kind(1_024);
    this.size = 0;
  }

  push(number) {
    if (this.size === this.held.length) {
      const more = new this.Kind(2 * this.size);
      more.set(this.held);
      this.held = more;
    }
    this.held[this.size++] = number;
  }

  done() {
    return this.held.slice(0, this.size);
  }
}

export class TraceIndex {
  constructor(blob) {
    this.blob = blob;
    this.names = [];
    this.numbers = new Map();
    this.cut = new Set();
    this.group = { number: -1, columns: null };
  }

  /** Read the footer: what kind of file it is. BadFile: it is not a trace that this page can show. */
  async open() {
    this.footer = await readFooter(this.blob);
    const { names, groups, rows, texts } = this.footer;
    this.about = aboutOf(texts.godwit);
    if (this.about?.format !== undefined && this.about.format !== FORMAT) {
      throw new BadFile(`this trace has the format ${this.about.format}, of Godwit ${this.about.version ?? "?"}, and this page reads format ${FORMAT}`);
    }
    if (names.join() !== COLUMNS.join()) throw new BadFile(`this is not a trace: its columns are ${names.join(", ").slice(0, 200)}, and there must be ${COLUMNS.join(", ")}`);
    if (!rows || groups.length === 0) throw new BadFile("there is no row in this trace");
    if (groups.some((group) => group.rows > GROUP_ROWS_MAX)) throw new BadFile(`a row group has more than ${GROUP_ROWS_MAX} rows`);
    this.firsts = [];
    const [first, last] = [await readColumn(this.blob, groups[0], "at"), await readColumn(this.blob, groups.at(-1), "at")];
    this.begins = first[0];
    this.ends = last[last.length - 1];
  }

  /** Go through all rows. `tell` hears the share that is done. */
  async scan(tell) {
    const { groups } = this.footer;
    this.series = Object.fromEntries(SERIES.map((name) => [name, new Float64Array(BUCKETS)]));
    this.links = { at: new Numbers(Float64Array), a: new Numbers(Int32Array), b: new Numbers(Int32Array), up: new Numbers(Uint8Array) };
    this.brokers = new Set((this.about?.map?.brokers ?? []).map((name) => this.numberOf(name)));
    this.hasMap = this.brokers.size > 0;
    this.traffic = new Map();
    for (const [number, group] of groups.entries()) {
      const columns = {};
      for (const name of ["at", "node", "kind", "peer"]) columns[name] = await readColumn(this.blob, group, name);
      this.firsts.push(columns.at[0]);
      this.add(columns, group.rows);
      tell((number + 1) / groups.length);
    }
  }

  add({ at, node, kind, peer }, rows) {
    const [nodes, peers] = [node.words.map((word) => this.numberOf(word)), peer.words.map((word) => this.numberOf(word))];
    const kinds = kind.words;
    const span = this.ends - this.begins || 1;
    for (let row = 0; row < rows; row += 1) {
      const what = kinds[kind.codes[row]];
      const [who, other] = [nodes[node.codes[row]], peers[peer.codes[row]]];
      const bucket = Math.min(BUCKETS - 1, Math.max(0, Math.floor(((at[row] - this.begins) / span) * BUCKETS)));
      switch (what) {
        case "handled":
          this.series.messages[bucket] += 1;
          this.count(other, who, bucket);
          break;
        case "published": this.series.published[bucket] += 1; break;
        case "delivered": this.series.delivered[bucket] += 1; break;
        case "table": this.brokers.add(who); break;
        case "relocated": this.series.moves[bucket] += 1; break;
        case "link_up": case "link_down": this.change(at[row], who, other, what === "link_up"); break;
        case "crashed": case "restarted": this.change(at[row], who, who, what === "restarted"); break;
        default:
      }
      if (FAULTS.has(what)) this.series.faults[bucket] += 1;
    }
  }

  numberOf(word) {
    let number = this.numbers.get(word);
    if (number === undefined) {
      if (this.names.length >= NODES_MAX) {
        this.cut.add(`nodes after the first ${NODES_MAX}`);
        return 0;
      }
      number = this.names.push(word) - 1;
      this.numbers.set(word, number);
    }
    return number;
  }

  /** A connection that came or went. Whom others connect to is a broker; who only connects to them is a client. */
  change(at, who, other, isUp) {
    if (this.links.at.size >= CHANGES_MAX) {
      this.cut.add(`changes of connections after second ${Math.floor(at)}`);
      return;
    }
    this.links.at.push(at);
    this.links.a.push(who);
    this.links.b.push(other);
    this.links.up.push(isUp ? 1 : 0);
    if (who !== other) this.brokers.add(other);
  }

  /** A message between two nodes; where brokers are known, only between these. */
  count(from, to, bucket) {
    if (this.hasMap && !(this.brokers.has(from) && this.brokers.has(to))) return;
    const key = from < to ? `${from} ${to}` : `${to} ${from}`;
    let counts = this.traffic.get(key);
    if (!counts) {
      if (this.traffic.size >= LINKS_MAX) {
        this.cut.add(`traffic of links after the first ${LINKS_MAX}`);
        return;
      }
      counts = new Uint32Array(BUCKETS);
      this.traffic.set(key, counts);
    }
    counts[bucket] += 1;
  }

  /** What the page needs, as plain data. */
  summary() {
    const isBroker = new Uint8Array(this.names.length);
    for (const number of this.brokers) isBroker[number] = 1;
    const { at, a, b, up } = Object.fromEntries(Object.entries(this.links).map(([name, numbers]) => [name, numbers.done()]));
    const traffic = [...this.traffic].map(([key, counts]) => ({ ends: key.split(" ").map(Number), counts })).filter(({ ends }) => ends.every((end) => isBroker[end]));
    return {
      about: this.about, begins: this.begins, ends: this.ends, rows: this.footer.rows, names: this.names, isBroker,
      changes: { at, a, b, up }, series: this.series, buckets: BUCKETS, traffic, cut: [...this.cut],
    };
  }

  /** Rows from a time on. */
  async rows(from, limit) {
    const { groups } = this.footer;
    let number = this.firsts.findLastIndex((first) => first < from);
    if (number < 0) number = 0;
    const found = [];
    for (; number < groups.length && found.length < limit; number += 1) {
      const columns = await this.columnsOf(number);
      for (let row = firstFrom(columns.at, from); row < groups[number].rows && found.length < limit; row += 1) {
        found.push(Object.fromEntries(COLUMNS.map((name) => [name, columns[name].codes ? columns[name].words[columns[name].codes[row]] : columns[name][row]])));
      }
    }
    return found;
  }

  async columnsOf(number) {
    if (this.group.number !== number) {
      const columns = {};
      for (const name of COLUMNS) columns[name] = await readColumn(this.blob, this.footer.groups[number], name);
      this.group = { number, columns };
    }
    return this.group.columns;
  }
}

function aboutOf(text) {
  if (!text) return null;
  try {
    const found = JSON.parse(text);
    return found !== null && typeof found === "object" ? found : null;
  } catch {
    return null;
  }
}

function firstFrom(at, from) {
  let [low, high] = [0, at.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (at[middle] < from) low = middle + 1;
    else high = middle;
  }
  return low;
}
