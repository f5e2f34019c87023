import { expect, test } from "vitest";
import * as format from "../src/format";

test.each([
  [0, "0 B"],
  [999, "999 B"],
  [999.6, "1 kB"],
  [1234, "1.23 kB"],
  [71_303_168, "71.3 MB"],
  [1_070_000_000, "1.07 GB"],
  [12e15, "12,000 TB"],
])("size of %d bytes is %s", (bytes, text) => expect(format.size(bytes)).toBe(text));

test.each([
  [0, "0.00"],
  [1234, "0.00"],
  [9_994_000, "9.99"],
  [9_996_000, "10.0"],
  [58_312_000, "58.3"],
  [118_400_000, "118"],
  [103_081_000_000, "103,081"],
  [null, "–"],
  [Number.NaN, "–"],
  [undefined, "–"],
])("%s bytes per second are %s MB/s", (bytesPerS, text) => expect(format.megabytes(bytesPerS)).toBe(text));

test.each([
  [0, "0.00 MB/s"],
  [94_000_000, "94.0 MB/s"],
  [999_400_000, "999 MB/s"],
  [999_600_000, "1.00 GB/s"],
  [103_081_000_000, "103 GB/s"],
  [1.2e12, "1.20 TB/s"],
  [1e18, "1,000,000 TB/s"],
  [null, "–"],
])("a speed of %s bytes per second is %s", (bytesPerS, text) => expect(format.speed(bytesPerS)).toBe(text));

test.each([
  [0, "0 ms"],
  [0.000_41, "0.4 ms"],
  [0.0124, "12 ms"],
  [0.9994, "999 ms"],
  [1.2, "1.20 s"],
  [null, "–"],
])("a latency of %s s is %s", (seconds, text) => expect(format.latency(seconds)).toBe(text));

test.each([
  [-3, "0 s"],
  [0.02, "20 ms"],
  [8.9, "8 s"],
  [245, "4:05"],
  [3723, "1:02:03"],
])("a duration of %s s is %s", (seconds, text) => expect(format.duration(seconds)).toBe(text));

test("a share keeps two digits where it is small", () => {
  expect([0, 0.001, 0.0516, 0.0995, 0.38, 1].map(format.share)).toEqual([
    "0 %",
    "0.1 %",
    "5.2 %",
    "10 %",
    "38 %",
    "100 %",
  ]);
});

test("ratio and percent where nothing has moved", () => {
  expect(format.ratio(0, 0)).toBe("–");
  expect(format.ratio(240, 100)).toBe("2.40×");
  expect(format.ratio(1e12, 1)).toBe("1,000,000,000,000×");
  expect(format.percent(1, 3)).toBe("33 %");
  expect(format.percent(0, 0)).toBe("100 %");
});

test("counts in words", () => {
  expect(format.count(1, "request")).toBe("1 request");
  expect(format.count(0, "request")).toBe("0 requests");
  expect(format.count(1234, "entry", "entries")).toBe("1,234 entries");
});

test("the time of day has leading zeros", () => {
  expect(format.clock(new Date(2026, 8, 21, 4, 5, 6).getTime() / 1000)).toBe("04:05:06");
});

test("a moment has its day where that is another", () => {
  const at = (day: number) => new Date(2026, 8, day, 4, 5, 6).getTime();
  expect(format.moment(at(3) / 1000, at(3) + 3_600_000)).toBe("04:05:06");
  expect(format.moment(at(3) / 1000, at(4))).toBe("2026-09-03 04:05:06");
});
