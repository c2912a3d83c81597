// Clients in Node or in a page, told what to do by a test, one call at a time. What a call gives back is plain data.

export function makeStation({ connect, text }) {
  const clients = new Map();

  const plain = (event) =>
    event.kind === "receipt"
      ? event
      : { ...event, payload: event.payload && text(event), publishedAt: event.publishedAt && +event.publishedAt };

  const thrown = (error) => ({ name: error.name, message: error.message });

  return {
    connect(id, urls, options = {}) {
      const states = [];
      const receipts = [];
      const client = connect(urls, {
        ...options,
        onState: (state) => states.push(state),
        onReceipt: (receipt) => receipts.push(receipt),
      });
      clients.set(id, { client, states, receipts, readings: new Map(), streaming: null });
      return client.name;
    },

    /** Connect with a class of sockets of our own, which throws so many times: how many were made. */
    connectBy(id, urls, options = {}, throwing = 0) {
      const Global = WebSocket;
      const made = { count: 0 };
      class Socket extends Global {
        constructor(url) {
          if (throwing-- > 0) throw new Error("it is not allowed here");
          super(url);
          made.count++;
        }
      }
      delete globalThis.WebSocket;
      try {
        this.connect(id, urls, { ...options, WebSocket: Socket });
      } finally {
        globalThis.WebSocket = Global;
      }
      clients.get(id).made = made;
      return null;
    },

    socketsOf: (id) => clients.get(id).made.count,

    /** A method of a client. */
    async call(id, method, ...args) {
      return (await clients.get(id).client[method](...args)) ?? null;
    },

    look(id) {
      const { client, states, receipts } = clients.get(id);
      return { name: client.name, state: client.state, states, receipts };
    },

    /** Subscribe, and read on and on. `readMax`: leave the loop after so many; 0: do not begin it yet. */
    subscribe(id, reading, filter, options = {}, readMax = Infinity) {
      const { client, readings } = clients.get(id);
      if (typeof options.expires === "number") options = { ...options, expires: new Date(options.expires) };
      const subscription = client.subscribe(filter, options);
      const read = { subscription, items: [], error: null, isOver: false, watchers: [], readMax, begin: null };
      readings.set(reading, read);
      const tell = () => read.watchers.splice(0).forEach((look) => look());
      const loop = async () => {
        for await (const item of subscription) {
          read.items.push(plain(item));
          tell();
          if (read.items.length >= read.readMax) break;
        }
      };
      read.begin = () =>
        void loop()
          .catch((error) => (read.error = thrown(error)))
          .finally(() => {
            read.isOver = true;
            tell();
          });
      if (readMax > 0) read.begin();
      return subscription.name;
    },

    /** Begin to read a subscription that nobody reads yet. */
    begin(id, reading) {
      const read = clients.get(id).readings.get(reading);
      read.readMax = Infinity;
      read.begin();
      return null;
    },

    accepted(id, reading) {
      return clients
        .get(id)
        .readings.get(reading)
        .subscription.accepted.then(() => null);
    },

    replace(id, reading, filter) {
      return clients
        .get(id)
        .readings.get(reading)
        .subscription.replace(filter)
        .then(() => null);
    },

    /** What was read, when so many have come or the loop is over. */
    async read(id, reading, count = 0) {
      const read = clients.get(id).readings.get(reading);
      while (read.items.length < count && !read.isOver) await new Promise((look) => read.watchers.push(look));
      return { items: read.items, error: read.error, isOver: read.isOver };
    },

    /** Publish what JSON cannot hold. */
    publishCircle(id) {
      const circle = {};
      circle.circle = circle;
      return clients.get(id).client.publish(circle);
    },

    /** Publish dates, bytes and what else JSON has no form for. */
    publishRich(id) {
      return clients.get(id).client.publish(
        {
          at: new Date(Date.UTC(2026, 10, 16)),
          place: { lon: 8.5, lat: 47.4 },
          tags: ["a", "b"],
          one: ["c"],
          none: null,
          user: { zip: 1050 },
        },
        { payload: new TextEncoder().encode("grüezi"), contentType: "text/x-swiss" },
      );
    },

    /** Publish n = 0, 1, 2 and so on, a few at a time, until that is stopped. */
    stream(id, attributes = {}, together = 8) {
      const { client } = clients.get(id);
      const streaming = { isStopped: false, count: 0, accepted: 0, watchers: [], done: null };
      clients.get(id).streaming = streaming;
      const one = async () => {
        while (!streaming.isStopped) {
          await client.publish({ ...attributes, n: streaming.count++ });
          streaming.accepted++;
          streaming.watchers.splice(0).forEach((look) => look());
        }
      };
      streaming.done = Promise.all(Array.from({ length: together }, one));
      return null;
    },

    /** When brokers have so many more than now. */
    async streamed(id, more) {
      const { streaming } = clients.get(id);
      const goal = streaming.accepted + more;
      while (streaming.accepted < goal) await new Promise((look) => streaming.watchers.push(look));
      return streaming.accepted;
    },

    /** Stop, and say how many were published, when brokers have all of them. */
    async stopStream(id) {
      const { streaming } = clients.get(id);
      streaming.isStopped = true;
      await streaming.done;
      return streaming.count;
    },
  };
}
