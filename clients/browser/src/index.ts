/** godwit-client: publish/subscribe for things that move, in browsers and Node. */

export { type Client, connect } from "./client.js";
export { BufferFull, GodwitError, InvalidValue, NotConnected, ProtocolError, Refused } from "./errors.js";
export { type EventId, type GodwitEvent, json, type Receipt, text } from "./events.js";
export type { ConnectOptions, PublishOptions, QueueRules, State, SubscribeOptions } from "./options.js";
export type { Subscription } from "./subscription.js";
export type { Attributes, Plain, Point, Table, Value } from "./values.js";
