import { expect, test } from "vitest";
import type { DecisionRow } from "../src/contract";
import { History, means } from "../src/history";
import { axis, ceiling, fitted, frameOf, placeAt, runs, timeTicks, xOf } from "../src/plot";
import { steps } from "../src/steps";
import { trafficSummary } from "../src/summary";

test.each([
  [0, 1],
  [1, 1],
  [1.01, 2],
  [74e6, 80e6],
  [81e6, 100e6],
  [0.017, 0.02],
  [Number.NaN, 1],
])("an axis for at most %d ends at %d", (value, end) => expect(ceiling(value)).toBeCloseTo(end));

test("ticks of an axis are round, and gaps do not count", () => {
  expect(axis([null, 74e6, 3], 1, "many", String).ticks).toEqual([0, 20e6, 40e6, 60e6, 80e6]);
  expect(axis([25], 1, "many", String).ticks).toEqual([0, 10, 20, 30]);
  expect(axis([null, 3], 1000, "few", String).ticks).toEqual([0, 500, 1000]);
});

test("times stand at round ones, as many as there is room for", () => {
  expect(timeTicks(1003, 1063, 300, true)).toEqual([1005, 1020, 1035, 1050]);
  expect(timeTicks(1000, 1900, 200, false)).toEqual([1200, 1500, 1800]);
  // told by the minute, two of half a minute would read alike
  expect(timeTicks(1003, 1300, 700, false)).toEqual([1020, 1080, 1140, 1200, 1260]);
});

test("the place below the pointer, within the chart", () => {
  const frame = frameOf(412, 100, true);
  expect(placeAt(0, frame, 61)).toBe(0);
  expect(placeAt(frame.left + frame.width / 2, frame, 61)).toBe(30);
  expect(placeAt(10_000, frame, 61)).toBe(60);
  expect(placeAt(xOf(17, frame, 61), frame, 61)).toBe(17);
});

test("names that are too wide for their place are shortened", () => {
  const to = { measureText: (words: string) => ({ width: 7 * words.length }) as TextMetrics };
  expect(fitted(to, "frame_of_reference 0", 50)).toBe("frame_…");
  expect(fitted(to, "zstd 3", 50)).toBe("zstd 3");
});

test("lines break at gaps", () => {
  expect(runs([null, 1, 2, null, 3])).toEqual([
    [1, 3],
    [4, 5],
  ]);
  expect(runs([null])).toEqual([]);
});

test("codecs over time: the latest decision of each side holds, and is marked where it was made", () => {
  const rows = [
    { side: "here", when_s: 5, codec: "lz4", level: 0 },
    { side: "peer", when_s: 11.2, codec: "raw", level: 0 },
    { side: "here", when_s: 12.9, codec: "zstd", level: 3 },
  ] as DecisionRow[];
  expect(steps([10, 11, 12, 13], rows)).toEqual({
    names: ["lz4 0", "zstd 3", "raw"],
    here: [0, 0, 1, 1],
    peer: [null, 2, 2, 2],
    hereMarks: [2],
    peerMarks: [1],
  });
});

test("means leave gaps out", () => {
  expect(means([1, 3, null, 5, null, null], 3)).toEqual([2, 5, null]);
});

test("the summary says what a person would see", () => {
  const history = new History();
  history.replace(
    0,
    ["second", "sent", "sent_wire"],
    new Float32Array([8, 40e6, 10e6, 9, 20e6, 5e6, 10, 0, 0]),
  );
  expect(trafficSummary(history.stretch(60), 1)).toBe(
    "Payload and wire speed of the last minute. " +
      "Sending 20.0 megabytes per second now, 5.00 on the wire, at most 40.0. " +
      "Receiving – megabytes per second now, – on the wire, at most 0.00.",
  );
});
