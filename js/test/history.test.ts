import { expect, test } from "vitest";
import { HISTORY_COLUMNS, HISTORY_S } from "../src/contract";
import { floats, held, History } from "../src/history";

/** A row whose second is `second`, and whose other columns are `value`. */
const row = (second: number, value: number) => [second, ...HISTORY_COLUMNS.slice(1).map(() => value)];
const rows = (...seconds: number[]) =>
  new Float32Array(seconds.flatMap((second) => row(second, second * 10)));

test("a stretch has one place per second and ends before the second that is under way", () => {
  const history = new History();
  history.replace(0, HISTORY_COLUMNS, rows(5, 6, 8));
  expect(history.latest).toBe(8);
  expect(history.stretch(4).second).toEqual([4, 5, 6, 7]);
  expect(history.stretch(4).sent).toEqual([null, 50, 60, null]);
});

test("a row that comes again replaces itself", () => {
  const history = new History();
  history.replace(0, HISTORY_COLUMNS, rows(1, 2));
  history.merge(new Float32Array([...row(2, 7), ...row(3, 8)]));
  expect(history.stretch(3).sent).toEqual([null, 10, 7]);
});

test("only the latest seconds are kept", () => {
  const history = new History();
  history.replace(0, HISTORY_COLUMNS, rows(0, 1, HISTORY_S + 1));
  expect(history.stretch(HISTORY_S).sent.filter((cell) => cell !== null)).toEqual([]);
  history.merge(rows(1));
  expect(history.stretch(HISTORY_S).sent.filter((cell) => cell !== null)).toEqual([]);
});

test("NaN is a gap", () => {
  const history = new History();
  history.replace(0, HISTORY_COLUMNS, new Float32Array([...row(1, Number.NaN), ...row(2, 3)]));
  expect(history.stretch(1).round_trip_s).toEqual([null]);
});

test("columns are found by their names, whatever their order", () => {
  const history = new History();
  history.replace(0, ["sent", "novelty", "second"], new Float32Array([11, 12, 1, 21, 22, 2]));
  expect(history.stretch(2).sent).toEqual([null, 11]);
  expect(history.stretch(2).received).toEqual([null, null]);
});

test("a new history leaves nothing of the old one", () => {
  const history = new History();
  history.replace(0, HISTORY_COLUMNS, rows(100, 101));
  history.replace(50, HISTORY_COLUMNS, rows(3, 4));
  expect(history.latest).toBe(4);
  expect(history.epochS).toBe(50);
  expect(history.stretch(4).sent).toEqual([null, null, null, 30]);
});

test("floats of a buffer that lies at an odd place, and of a torn one", () => {
  const bytes = new Uint8Array(16);
  const view = new DataView(bytes.buffer, 3, 9);
  view.setFloat32(0, 1.5, true);
  view.setFloat32(4, -2, true);
  expect([...floats(view)]).toEqual([1.5, -2]);
  expect([...floats(undefined)]).toEqual([]);
});

test("a row that is not whole is left out", () => {
  const history = new History();
  history.replace(0, HISTORY_COLUMNS, new Float32Array([...row(1, 1), 2, 2]));
  expect(history.latest).toBe(1);
});

test("what is measured now and then holds for a while", () => {
  expect(held([null, 7, null, null, null, 8], 2)).toEqual([null, 7, 7, 7, null, 8]);
});
