/** The state of a recorded run at a time: which client is at which broker, what is down. */

const NOBODY = -1;

export class RunState {
  constructor({ names, isBroker, changes }) {
    this.isBroker = isBroker;
    this.changes = changes;
    this.size = names.length;
    this.links = new Map(); // by "a b", whether it is up
    this.restart();
  }

  restart() {
    this.next = 0;
    this.brokerOf = new Int32Array(this.size).fill(NOBODY);
    this.before = new Int32Array(this.size).fill(NOBODY); // the last broker of each client, for hand-overs
    this.movedAt = new Float64Array(this.size).fill(-Infinity);
    this.down = new Set();
    this.links.clear();
    this.moves = 0;
  }

  /** Go to a time; back means from the beginning, which takes milliseconds. */
  go(at) {
    const { at: times, a, b, up } = this.changes;
    if (this.next > 0 && times[this.next - 1] > at) this.restart();
    for (; this.next < times.length && times[this.next] <= at; this.next += 1) {
      const [one, other, isUp] = [a[this.next], b[this.next], up[this.next] === 1];
      if (one === other) isUp ? this.down.delete(one) : this.down.add(one);
      else if (this.isBroker[one]) this.links.set(one < other ? `${one} ${other}` : `${other} ${one}`, isUp);
      else this.attach(one, isUp ? other : NOBODY, times[this.next]);
    }
  }

  attach(client, broker, at) {
    if (broker !== NOBODY) {
      if (this.before[client] !== NOBODY && this.before[client] !== broker) {
        this.movedAt[client] = at;
        this.moves += 1;
      }
      this.before[client] = broker;
    }
    this.brokerOf[client] = broker;
  }

  /** How many clients are at a broker. */
  attached() {
    return this.brokerOf.reduce((sum, broker) => sum + (broker !== NOBODY), 0);
  }

  /** By broker, the clients that are there; under -1 those that are nowhere. */
  clients() {
    const found = new Map();
    for (let client = 0; client < this.size; client += 1) {
      if (this.isBroker[client] || this.before[client] === NOBODY) continue;
      const broker = this.brokerOf[client];
      if (!found.has(broker)) found.set(broker, []);
      found.get(broker).push(client);
    }
    return found;
  }
}
