/**
 * Values of attributes, in JavaScript and on the wire.
 *
 * A broker knows five kinds: booleans, numbers, times, texts and points. It flattens nested data to paths, and an array
 * becomes several values of one attribute: `{user: {zip: [1050, 5473]}}` is `user/zip` with two values. It refuses what
 * it cannot take, so little is checked here.
 */

import { InvalidValue } from "./errors.js";

/** A place on the globe, in degrees. */
export interface Point {
  lon: number;
  lat: number;
}

/** One value of an attribute. */
export type Value = boolean | number | string | Date | Point;

/** Attributes as they are received: each has one value, or several. */
export type Attributes = Record<string, Value | Value[]>;

/** What may be published as the value of an attribute: nested, with arrays, and `null` for nothing. */
export type Plain = Value | null | undefined | readonly Plain[] | Table;
export type Table = { readonly [name: string]: Plain };

export type WireValue = boolean | number | string | Point | { $time: string };
export type WireAttributes = Record<string, WireValue | WireValue[]>;

/** Data as it is now, whatever the application does with it later. */
export function copied<T>(data: T): T {
  try {
    return data && JSON.parse(written(data));
  } catch (error) {
    throw new InvalidValue(`not a JSON value: ${(error as Error).message}`);
  }
}

/** A message as JSON, with times as brokers read them. */
export function written(message: unknown): string {
  return JSON.stringify(message, function (this: Record<string, unknown>, key, value: unknown) {
    return this[key] instanceof Date ? { $time: value } : value; // `value` is what its toJSON made of it
  });
}

/** Attributes that have come from a broker. */
export function received(attributes: WireAttributes): Attributes {
  const one = (value: WireValue): Value =>
    (value as { $time?: string }).$time ? new Date((value as { $time: string }).$time) : (value as Value);
  return Object.fromEntries(
    Object.entries(attributes).map(([name, held]) => [name, Array.isArray(held) ? held.map(one) : one(held)]),
  );
}

/** Bytes as base64. */
export function encoded(bytes: Uint8Array): string {
  let text = "";
  for (const byte of bytes) text += String.fromCharCode(byte);
  return btoa(text);
}

/** Base64 as bytes. */
export function decoded(text: string): Uint8Array {
  return Uint8Array.from(atob(text), (char) => char.charCodeAt(0));
}
