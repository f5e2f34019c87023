import { signal } from "@preact/signals";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { AuditLog } from "../src/audit";
import { Connection } from "../src/connection";
import type { Command } from "../src/contract";
import { PanelState } from "../src/state";

let sent: Command[];
let state: PanelState;
let connection: Connection;
let second: ReturnType<typeof signal<number>>;
let ended: AbortController;
let audit: AuditLog;

beforeEach(() => {
  vi.useFakeTimers();
  sent = [];
  state = new PanelState();
  const ignore = () => undefined;
  connection = new Connection({
    get: ignore,
    on: ignore,
    off: ignore,
    send: (message) => sent.push(message as Command),
  });
  ended = new AbortController();
  const now = signal(0);
  second = now;
  audit = new AuditLog(state, connection, now, ended.signal);
});
afterEach(() => void vi.useRealTimers());

const page = (total: number) => ({ file: "/log", total, rows: [] });
const answer = async (result: unknown, error = "") => {
  const { command_id } = sent.at(-1)!;
  connection.acknowledge({ kind: "ack", command_id, ok: !error, error, result });
  await vi.advanceTimersByTimeAsync(0);
};
const happen = () => (state.transfers.value = { ...state.transfers.peek() });
const beat = () => second.value!++;

test("it is asked for as soon as a view shows it", async () => {
  audit.watch();
  expect(sent[0]).toMatchObject({ name: "audit", args: { text: "", kind: "" } });
  await answer(page(3));
  expect(audit.page.value?.total).toBe(3);
});

test("a text is looked for once no further key has followed, a kind at once", async () => {
  audit.type("s");
  vi.advanceTimersByTime(299);
  audit.type("sc");
  vi.advanceTimersByTime(299);
  expect(sent).toEqual([]);
  vi.advanceTimersByTime(1);
  expect(sent[0]!.args).toEqual({ text: "sc", kind: "" });
  await answer(page(2));
  audit.choose("release");
  expect(sent[1]!.args).toEqual({ text: "sc", kind: "release" });
  // which was with the text as it is: it is not asked for again
  audit.type("sca");
  await answer(page(1));
  audit.choose("gift");
  vi.advanceTimersByTime(1000);
  expect(sent.slice(2).map(({ args }) => args)).toEqual([{ text: "sca", kind: "gift" }]);
});

test("one question is under way at most, and the last one is not lost", async () => {
  audit.choose("share");
  audit.choose("gift");
  audit.choose("policy");
  expect(sent).toHaveLength(1);
  await answer(page(9));
  expect(sent.map(({ args }) => args.kind)).toEqual(["share", "policy"]);
  await answer(page(1));
  expect(sent).toHaveLength(2);
  expect(audit.page.value?.total).toBe(1);
});

test("what goes on leads to a new question with the next second, while a view shows it", async () => {
  happen();
  beat();
  expect(sent).toEqual([]);
  const leave = audit.watch();
  await answer(page(1));
  beat();
  expect(sent).toHaveLength(1);
  happen();
  happen();
  state.requests.value = { ...state.requests.peek() };
  expect(sent).toHaveLength(1);
  beat();
  beat();
  expect(sent).toHaveLength(2);
  await answer(page(2));
  leave();
  happen();
  beat();
  expect(sent).toHaveLength(2);
});

test("what happens while the kernel answers is asked for after it", async () => {
  audit.watch();
  happen();
  await answer(page(1));
  expect(sent).toHaveLength(1);
  beat();
  expect(sent).toHaveLength(2);
});

test("where there is no log, its words take the place of the entries", async () => {
  audit.watch();
  await answer(page(1));
  audit.choose("gift");
  await answer(null, "no audit log is kept");
  expect([audit.page.value, audit.failure.value]).toEqual([null, "no audit log is kept"]);
  audit.choose("");
  await answer(page(1));
  expect([audit.page.value?.total, audit.failure.value]).toEqual([1, ""]);
});

test("nothing is asked for once the model has ended", () => {
  audit.watch();
  audit.type("x");
  ended.abort();
  happen();
  beat();
  vi.advanceTimersByTime(1000);
  expect(sent).toHaveLength(1);
});
