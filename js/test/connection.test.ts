import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { BUSY_MS, Connection } from "../src/connection";
import type { Command } from "../src/contract";

let sent: Command[];
let connection: Connection;

beforeEach(() => {
  vi.useFakeTimers();
  sent = [];
  connection = new Connection({
    get: () => undefined,
    on: () => undefined,
    off: () => undefined,
    send: (message) => sent.push(message as Command),
  });
});
afterEach(() => void vi.useRealTimers());

const phase = (key: string) => connection.progress.value.get(key)?.phase;
const acknowledge = (command: Command, error = "", result: unknown = null) =>
  connection.acknowledge({ kind: "ack", command_id: command.command_id, ok: !error, error, result });

test("a command is under way until its ack, which carries the result", async () => {
  const answer = connection.run("request_detail", { number: 3 });
  expect(sent[0]).toMatchObject({ kind: "command", name: "request_detail", args: { number: 3 } });
  expect(phase("request_detail 3")).toBe("sent");
  acknowledge(sent[0]!, "", "preview");
  expect((await answer)?.result).toBe("preview");
  expect(phase("request_detail 3")).toBeUndefined();
});

test("the kernel is busy where no ack has come in time, and stays so until one does", async () => {
  const answer = connection.run("pause");
  vi.advanceTimersByTime(BUSY_MS - 1);
  expect(phase("pause")).toBe("sent");
  vi.advanceTimersByTime(1);
  expect(phase("pause")).toBe("busy");
  vi.advanceTimersByTime(3_600_000);
  expect(phase("pause")).toBe("busy");
  acknowledge(sent[0]!);
  await answer;
  expect(phase("pause")).toBeUndefined();
});

test("a prompt ack leaves no timer behind", async () => {
  const answer = connection.run("pause");
  acknowledge(sent[0]!);
  await answer;
  expect(vi.getTimerCount()).toBe(0);
});

test("a second click sends nothing while the first is under way; one on another request does", async () => {
  void connection.run("approve", { number: 1, revision: 2 });
  expect(await connection.run("approve", { number: 1, revision: 2 })).toBeNull();
  void connection.run("approve", { number: 2, revision: 1 });
  expect(sent.map(({ args }) => args.number)).toEqual([1, 2]);
});

test("each policy and each kind of file has commands of its own", () => {
  void connection.run("remove_policy", { name: "a" });
  void connection.run("remove_policy", { name: "b" });
  void connection.run("export_audit", { ending: "csv" });
  expect([phase("remove_policy b"), phase("export_audit csv")]).toEqual(["sent", "sent"]);
  expect([phase("remove_policy c"), phase("export_audit jsonl")]).toEqual([undefined, undefined]);
});

test("a refusal stays until it is dismissed, and a new attempt is allowed", async () => {
  const answer = connection.run("retry_transfer", { number: 9 });
  acknowledge(sent[0]!, "the peer is gone");
  await answer;
  expect(connection.progress.value.get("retry_transfer 9")).toEqual({
    phase: "failed",
    error: "the peer is gone",
  });
  void connection.run("retry_transfer", { number: 9 });
  connection.dismiss("retry_transfer 9");
  expect(phase("retry_transfer 9")).toBe("sent");
  acknowledge(sent[1]!, "again");
  await vi.runAllTimersAsync();
  connection.dismiss("retry_transfer 9");
  expect(phase("retry_transfer 9")).toBeUndefined();
});

test("acks of another page, and repeated ones, change nothing", () => {
  void connection.run("pause");
  connection.acknowledge({ kind: "ack", command_id: "other-1", ok: true, error: "", result: null });
  expect(phase("pause")).toBe("sent");
});

test("a host that cannot send does not break the panel", () => {
  const broken = new Connection({
    get: () => undefined,
    on: () => undefined,
    off: () => undefined,
    send: () => {
      throw new Error("Kernel is dead");
    },
  });
  broken.send({ kind: "poll" });
});
