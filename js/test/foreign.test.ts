import { expect, test } from "vitest";
import { visible, visibleLines } from "../src/foreign";

test("what could hide or reorder is written as an escape, as Python writes it", () => {
  expect(visible("a\u202eb\u200bc\u2066d")).toBe("a\\u202eb\\u200bc\\u2066d");
  expect(visible("one\ntwo\tthree\r\0\x7f\x9b")).toBe("one\\ntwo\\tthree\\r\\x00\\x7f\\x9b");
  expect(visible("tag\u{e0041} nbsp\u00a0 sep\u2028")).toBe("tag\\U000e0041 nbsp\\xa0 sep\\u2028");
  expect(visible("lone \ud800.")).toBe("lone \\ud800.");
});

test("letters of all scripts, marks and pictures stay", () => {
  for (const text of ["Ünïcödé", "שלום", "数据", "e\u0301", "🎻", "<img src=x onerror=alert(1)>", ""]) {
    expect(visible(text)).toBe(text);
  }
});

test("marks that pile up over a letter are cut", () => {
  expect(visible(`z${"\u0300".repeat(50)}a\u0301`)).toBe(`z${"\u0300".repeat(4)}…a\u0301`);
});

test("a long text is cut after whole characters", () => {
  expect(visible("x".repeat(120))).toBe("x".repeat(120));
  expect(visible("x".repeat(121))).toBe(`${"x".repeat(120)}…`);
  expect(visible("🎻".repeat(10), 3)).toBe("🎻🎻🎻…");
  expect(visible("y".repeat(10_000_000), 3)).toBe("yyy…");
});

test("several lines keep their breaks and nothing else", () => {
  expect(visibleLines("a\n\tb\u202e\r")).toBe("a\n\tb\\u202e\\r");
});
