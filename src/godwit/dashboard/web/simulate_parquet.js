/**
 * Reading Parquet in the browser, as far as traces need it: required columns of numbers and texts, plain or with a
 * dictionary, compressed with zstd or not at all. A file is read in slices: its footer first, then one row group at a
 * time, so that a large one is never in memory as a whole.
 */

import "./vendor/fzstd/fzstd.min.js"; // a script, not a module: it makes a global

const MAGIC = 0x31524150; // PAR1
const FOOTER_BYTES_MAX = 64 * 2 ** 20;
const PAGE_BYTES_MAX = 256 * 2 ** 20;
const DEPTH_MAX = 16;
const [UNCOMPRESSED, ZSTD] = [0, 6];
const [INT64, DOUBLE, BYTE_ARRAY] = [2, 5, 6];
const [PLAIN, PLAIN_DICTIONARY, RLE_DICTIONARY] = [0, 2, 8];
const [DATA_PAGE, DICTIONARY_PAGE] = [0, 2];
const TEXT = new TextDecoder();
const { decompress } = globalThis.fzstd;

/** A file that cannot be read, and why. */
export class BadFile extends Error {}

// ---------------------------------------------------------------- Thrift's compact protocol

/** A struct as an object by number of field, and where it ends. */
class Thrift {
  constructor(bytes, at = 0) {
    this.bytes = bytes;
    this.at = at;
  }

  byte() {
    if (this.at >= this.bytes.length) throw new BadFile("it ends too early");
    return this.bytes[this.at++];
  }

  varint() {
    let [found, factor] = [0, 1];
    for (let count = 0; count < 10; count += 1) {
      const byte = this.byte();
      found += (byte & 127) * factor;
      if (byte < 128) return found;
      factor *= 128;
    }
    throw new BadFile("a number in it is too long");
  }

  signed() {
    const found = this.varint();
    return found % 2 ? -(found + 1) / 2 : found / 2;
  }

  binary() {
    const size = this.varint();
    if (size > this.bytes.length - this.at) throw new BadFile("a text in it is longer than the file");
    this.at += size;
    return this.bytes.subarray(this.at - size, this.at);
  }

  value(type, depth) {
    if (depth > DEPTH_MAX) throw new BadFile("it is nested too deeply");
    switch (type) {
      case 1: return true;
      case 2: return false;
      case 3: return this.byte();
      case 4: case 5: case 6: return this.signed();
      case 7: this.at += 8; return null;
      case 8: return this.binary();
      case 9: case 10: return this.list(depth + 1);
      case 12: return this.struct(depth + 1);
      default: throw new BadFile(`it has a field of type ${type}`);
    }
  }

  list(depth) {
    const head = this.byte();
    const size = head >> 4 === 15 ? this.varint() : head >> 4;
    if (size > this.bytes.length - this.at) throw new BadFile("a list in it is longer than the file");
    const type = head & 15;
    return Array.from({ length: size }, () => (type === 1 || type === 2 ? this.byte() === 1 : this.value(type, depth)));
  }

  struct(depth = 0) {
    const found = {};
    let field = 0;
    for (;;) {
      const head = this.byte();
      if (head === 0) return found;
      field = head >> 4 ? field + (head >> 4) : this.signed();
      found[field] = this.value(head & 15, depth);
    }
  }
}

// ---------------------------------------------------------------- the footer

/** What a file holds: the names of its columns, its row groups, and texts about it by key. */
export async function readFooter(blob) {
  if (blob.size === 0) throw new BadFile("the file is empty");
  const end = new DataView(await slice(blob, Math.max(0, blob.size - 8), blob.size));
  if (blob.size < 12 || end.getUint32(4, true) !== MAGIC) throw new BadFile("this is not a Parquet file: open the file trace.parquet that godwit simulate --trace writes");
  const size = end.getUint32(0, true);
  if (size > Math.min(FOOTER_BYTES_MAX, blob.size - 8)) throw new BadFile("its footer is damaged");
  const footer = new Thrift(new Uint8Array(await slice(blob, blob.size - 8 - size, blob.size - 8))).struct();
  const [, ...columns] = footer[2] ?? [];
  if (columns.some((column) => column[5] || column[3] !== 0)) throw new BadFile("its columns are not those of a trace");
  const texts = Object.fromEntries((footer[5] ?? []).map((pair) => [TEXT.decode(pair[1]), TEXT.decode(pair[2] ?? new Uint8Array())]));
  const groups = (footer[4] ?? []).map((group) => ({
    rows: group[3],
    chunks: Object.fromEntries(group[1].map((chunk) => [chunk[3][3].map((part) => TEXT.decode(part)).join("."), chunk[3]])),
  }));
  return { names: columns.map((column) => TEXT.decode(column[4])), rows: footer[3], groups, texts };
}

async function slice(blob, from, to) {
  return blob.slice(from, to).arrayBuffer();
}

// ---------------------------------------------------------------- columns

/** A column of a row group: numbers as a Float64Array, texts as `codes` into `words`. */
export async function readColumn(blob, group, name) {
  const chunk = group.chunks[name];
  if (!chunk) throw new BadFile(`a row group has no column ${name}`);
  const first = Math.min(chunk[11] ?? chunk[9], chunk[9]);
  const bytes = new Uint8Array(await slice(blob, first, first + chunk[7]));
  if (bytes.length < chunk[7]) throw new BadFile("it ends too early");
  const column = chunk[1] === BYTE_ARRAY ? new TextColumn(group.rows) : new NumberColumn(group.rows, chunk[1]);
  let at = 0;
  while (column.filled < group.rows) {
    const reader = new Thrift(bytes, at);
    const header = reader.struct();
    at = reader.at + header[3];
    const page = unpacked(bytes.subarray(reader.at, at), chunk[4], header[2]);
    if (header[1] === DICTIONARY_PAGE) column.setDictionary(page, header[7][1]);
    else if (header[1] === DATA_PAGE) column.add(page, header[5][1], header[5][2]);
    else throw new BadFile(`it has a page of type ${header[1]}, which this reader does not know`);
  }
  return column.found();
}

function unpacked(bytes, codec, size) {
  if (size > PAGE_BYTES_MAX) throw new BadFile("a page of it is too large");
  if (codec === UNCOMPRESSED) return bytes;
  if (codec !== ZSTD) throw new BadFile("it is compressed in another way than zstd");
  try {
    return decompress(bytes, new Uint8Array(size));
  } catch (error) {
    throw new BadFile(`it is damaged (${error.message})`);
  }
}

/** Numbers from 0 that were packed into `width` bits each, or repeated. */
function unpackCodes(page, count, take) {
  const reader = new Thrift(page);
  const width = reader.byte();
  if (width > 32) throw new BadFile("it is damaged (width of codes)");
  let left = count;
  while (left > 0) {
    const head = reader.varint();
    if (head % 2 === 0) { // a run
      let value = 0;
      for (let byte = 0; byte < Math.ceil(width / 8); byte += 1) value += reader.byte() * 2 ** (8 * byte);
      const size = Math.min(head / 2, left);
      if (size === 0) throw new BadFile("it is damaged (an empty run)");
      for (let each = 0; each < size; each += 1) take(value);
      left -= size;
    } else {
      const size = Math.min(((head - 1) / 2) * 8, left);
      const end = reader.at + ((head - 1) / 2) * width;
      let [held, bits] = [0, 0]; // at most 32 + 7 bits: more than an integer of 32 bits, so by arithmetic
      for (let each = 0; each < size; each += 1) {
        while (bits < width) {
          held += reader.byte() * 2 ** bits;
          bits += 8;
        }
        const scale = 2 ** width;
        take(held % scale);
        held = Math.floor(held / scale);
        bits -= width;
      }
      reader.at = end;
      left -= size;
    }
  }
}

function numbersOf(page, count, type) {
  if (page.length < 8 * count) throw new BadFile("it is damaged (a page is too short)");
  const view = new DataView(page.buffer, page.byteOffset, page.byteLength);
  const found = new Float64Array(count);
  for (let at = 0; at < count; at += 1) found[at] = type === DOUBLE ? view.getFloat64(8 * at, true) : Number(view.getBigInt64(8 * at, true));
  return found;
}

class NumberColumn {
  constructor(rows, type) {
    if (type !== INT64 && type !== DOUBLE) throw new BadFile("a column of it has another type than in a trace");
    this.type = type;
    this.values = new Float64Array(rows);
    this.filled = 0;
    this.dictionary = new Float64Array();
  }

  setDictionary(page, count) {
    this.dictionary = numbersOf(page, count, this.type);
  }

  add(page, count, encoding) {
    if (count > this.values.length - this.filled) throw new BadFile("it is damaged (too many values)");
    if (encoding === PLAIN) this.values.set(numbersOf(page, count, this.type), this.filled);
    else if (encoding === RLE_DICTIONARY || encoding === PLAIN_DICTIONARY) {
      let at = this.filled;
      unpackCodes(page, count, (code) => { this.values[at++] = this.dictionary[code]; });
    } else throw new BadFile(`it is encoded in a way (${encoding}) that this reader does not know`);
    this.filled += count;
  }

  found() {
    return this.values;
  }
}

function wordsOf(page, count) {
  const view = new DataView(page.buffer, page.byteOffset, page.byteLength);
  const found = [];
  let at = 0;
  for (let each = 0; each < count; each += 1) {
    const size = at + 4 <= page.length ? view.getUint32(at, true) : Infinity;
    if (at + 4 + size > page.length) throw new BadFile("it is damaged (a text is too long)");
    found.push(TEXT.decode(page.subarray(at + 4, at + 4 + size)));
    at += 4 + size;
  }
  return found;
}

class TextColumn {
  constructor(rows) {
    this.codes = new Int32Array(rows);
    this.words = [];
    this.filled = 0;
  }

  setDictionary(page, count) {
    this.words = wordsOf(page, count);
  }

  add(page, count, encoding) {
    if (count > this.codes.length - this.filled) throw new BadFile("it is damaged (too many values)");
    let at = this.filled;
    if (encoding === PLAIN) {
      for (const word of wordsOf(page, count)) this.codes[at++] = this.words.push(word) - 1;
    } else if (encoding === RLE_DICTIONARY || encoding === PLAIN_DICTIONARY) {
      unpackCodes(page, count, (code) => { this.codes[at++] = code; });
    } else throw new BadFile(`it is encoded in a way (${encoding}) that this reader does not know`);
    this.filled += count;
  }

  found() {
    return { codes: this.codes, words: this.words };
  }
}
