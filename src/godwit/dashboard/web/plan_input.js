/** What a plan is made of, read in the browser: tables in CSV. */

const PREVIEW_BYTES = 2 * 2 ** 20;
const POINTS_MAX = 4_000;
const ROWS_MAX = 1_000;

/** The rows of a text in CSV, by the names in its first line. */
export function csvRows(text) {
  const lines = [];
  let [cell, row, isQuoted] = ["", [], false];
  for (let at = 0; at < text.length; at += 1) {
    const letter = text[at];
    if (isQuoted && letter === '"' && text[at + 1] === '"') {
      cell += '"';
      at += 1;
    } else if (letter === '"') isQuoted = !isQuoted;
    else if (!isQuoted && letter === ",") [row, cell] = [[...row, cell], ""];
    else if (!isQuoted && letter === "\n") {
      lines.push([...row, cell.replace(/\r$/, "")]);
      [row, cell] = [[], ""];
    } else cell += letter;
  }
  if (cell || row.length) lines.push([...row, cell]);
  const [head = [], ...rest] = lines;
  const names = head.map((name) => name.replace(/^\uFEFF/, "").trim());
  return { names, rows: rest.filter((cells) => cells.some((each) => each.trim())).map((cells) => Object.fromEntries(names.map((name, at) => [name, cells[at] ?? ""]))) };
}

/** Brokers from a file of positions, as the table of the page has them. Error: what is wrong with the file. */
export function brokersOf(text, name) {
  const { names, rows } = csvRows(text);
  for (const needed of ["broker", "lon", "lat"]) {
    if (!names.includes(needed)) throw new Error(`${name}: no column ${needed} in its first line; there must be broker, lon, lat, and perhaps radius_m and address`);
  }
  if (rows.length === 0) throw new Error(`${name}: it has no broker`);
  if (rows.length > ROWS_MAX) throw new Error(`${name}: ${rows.length} brokers, and ${ROWS_MAX} are allowed here; godwit plan takes more`);
  return rows.map(({ broker, lon, lat, radius_m, address }) => ({ broker: broker.trim(), lon: lon.trim(), lat: lat.trim(), radius_m: radius_m ?? "", address: address ?? "" }));
}

/** Some of the positions in a trace, for the map: [lat, lon]. Nothing of Parquet, which the broker reads. */
export async function pointsOf(file) {
  if (!file.name.toLowerCase().endsWith(".csv")) return [];
  const { rows } = csvRows(await file.slice(0, PREVIEW_BYTES).text());
  const step = Math.max(1, Math.floor(rows.length / POINTS_MAX));
  const points = rows.filter((_, at) => at % step === 0).map(({ lat, lon }) => [Number(lat), Number(lon)]);
  return points.filter(([lat, lon]) => Math.abs(lat) <= 90 && Math.abs(lon) <= 180);
}

/** The body of a request for a plan: a line of JSON, then the trace. Error: which broker is wrong, and why. */
export function requestOf(file, brokers, { rate, wanted }) {
  const rows = brokers.map((each, at) => {
    const row = { broker: each.broker.trim(), lon: number(each.lon, "longitude", at), lat: number(each.lat, "latitude", at), radius_m: number(each.radius_m, "radius", at), address: each.address ?? "" };
    if (!row.broker) throw new Error(`broker ${at + 1} has no name`);
    return row;
  });
  const names = new Set(rows.map(({ broker }) => broker));
  if (names.size < rows.length) throw new Error("two brokers have the same name");
  return new Blob([JSON.stringify({ name: file.name, brokers: rows, rate: Number(rate), wanted: Number(wanted) }), "\n", file]);
}

function number(text, what, at) {
  const found = Number(text);
  if (String(text).trim() === "" || !Number.isFinite(found)) throw new Error(`the ${what} of broker ${at + 1} is "${text}": it must be a number`);
  return found;
}
