import { HISTORY_COLUMNS, HISTORY_S } from "./contract";

export type Column = (typeof HISTORY_COLUMNS)[number];
export type Cell = number | null;

/** Columns of equal length, one place per second; null where nothing is known, which charts draw as a gap. */
export type Stretch = { [column in Column]: Cell[] };

const WIDTH = HISTORY_COLUMNS.length;
const NONE = -1;

/** The latest HISTORY_S seconds, in a ring with one place for each, so that a row can come again. */
export class History {
  epochS = 0;
  #columns: readonly string[] = HISTORY_COLUMNS;
  #seconds = new Int32Array(HISTORY_S).fill(NONE);
  #rows = new Float32Array(HISTORY_S * WIDTH);
  #latest = NONE;

  /** The second that is under way, NONE (-1) before there is any. */
  get latest(): number {
    return this.#latest;
  }

  /** All that the kernel has, in the columns that it names. */
  replace(epochS: number, columns: readonly string[], rows: Float32Array): void {
    this.epochS = epochS;
    this.#columns = columns;
    this.#seconds.fill(NONE);
    this.#latest = NONE;
    this.merge(rows);
  }

  /** Further rows, the latest of the known ones again among them. */
  merge(rows: Float32Array): void {
    const width = this.#columns.length;
    const from = HISTORY_COLUMNS.map((column) => this.#columns.indexOf(column));
    for (let row = 0; row + width <= rows.length; row += width) {
      const second = Math.round(rows[row + from[0]!] ?? NaN);
      if (!(second >= 0) || second <= this.#latest - HISTORY_S) continue;
      const place = second % HISTORY_S;
      this.#seconds[place] = second;
      from.forEach((at, column) => {
        this.#rows[place * WIDTH + column] = at < 0 ? NaN : rows[row + at]!;
      });
      this.#latest = Math.max(this.#latest, second);
    }
  }

  /** The `lengthS` seconds that ended last. The one under way is left out: it would show as a dip. */
  stretch(lengthS: number): Stretch {
    const first = Math.max(0, this.#latest) - lengthS;
    return Object.fromEntries(
      HISTORY_COLUMNS.map((column, index) => [
        column,
        Array.from({ length: lengthS }, (_, offset) =>
          index === 0 ? first + offset : this.#cell(first + offset, index),
        ),
      ]),
    ) as Stretch;
  }

  #cell(second: number, column: number): Cell {
    const place = second % HISTORY_S;
    if (second < 0 || this.#seconds[place] !== second) return null;
    const value = this.#rows[place * WIDTH + column]!;
    return Number.isFinite(value) ? value : null;
  }
}

/** The float32 values of a message's buffer, which may lie anywhere in the memory of the page. */
export function floats(buffer: DataView | undefined): Float32Array {
  if (!buffer) return new Float32Array();
  const { byteOffset, byteLength } = buffer;
  return new Float32Array(
    buffer.buffer.slice(byteOffset, byteOffset + byteLength - (byteLength % 4)) as ArrayBuffer,
  );
}

/** Cells where each value holds for up to `places` unknown ones after it: what is measured now and then. */
export function held(cells: readonly Cell[], places: number): Cell[] {
  let since = places;
  let last: Cell = null;
  return cells.map((cell) => {
    since = cell === null ? since + 1 : 0;
    last = cell ?? last;
    return since <= places ? last : null;
  });
}

/** `parts` stretches of equal length as their means. */
export function means(cells: readonly Cell[], parts: number): Cell[] {
  const length = cells.length / parts;
  return Array.from({ length: parts }, (_, part) => mean(cells.slice(part * length, (part + 1) * length)));
}

function mean(cells: readonly Cell[]): Cell {
  const known = cells.filter((cell) => cell !== null);
  return known.length ? known.reduce((sum, cell) => sum + cell, 0) / known.length : null;
}
