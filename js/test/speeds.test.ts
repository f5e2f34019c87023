import { expect, test } from "vitest";
import { advanced } from "../src/speeds";

const running = (done_bytes: number, duration_s: number) => [
  { number: 1, done_bytes, wire_bytes: 0, path: "tcp", duration_s },
];

test("the speed is of the last two seconds", () => {
  let courses = advanced(new Map(), running(0, 10));
  expect(courses.get(1)!.bytesPerS).toBeNull();
  courses = advanced(courses, running(100, 11));
  expect(courses.get(1)!.bytesPerS).toBe(100);
  courses = advanced(courses, running(700, 12.5));
  // from 11 s on: 600 bytes in 1.5 s
  expect(courses.get(1)!.bytesPerS).toBe(400);
});

test("a transfer that stands keeps its last speed, one that begins anew forgets", () => {
  let courses = advanced(advanced(new Map(), running(0, 1)), running(50, 2));
  courses = advanced(courses, running(50, 2));
  expect(courses.get(1)!.bytesPerS).toBe(50);
  courses = advanced(courses, running(10, 2.5));
  expect(courses.get(1)!.samples).toEqual([{ atS: 2.5, doneBytes: 10 }]);
});

test("a spark line has a value per second, and what ended is forgotten", () => {
  let courses = advanced(new Map(), running(0, 0));
  for (let quarter = 1; quarter <= 12; quarter++) courses = advanced(courses, running(quarter, quarter / 4));
  expect(courses.get(1)!.speeds).toEqual([4, 4, 4]);
  expect(advanced(courses, []).size).toBe(0);
});
