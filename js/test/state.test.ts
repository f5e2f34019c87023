import { expect, test } from "vitest";
import type { Model } from "../src/afm";
import { type DecisionRow, HISTORY_COLUMNS, SCHEMA, type Tick } from "../src/contract";
import { PanelState } from "../src/state";

const decision = (number: number, side: "here" | "peer", measured: number | null = null) =>
  ({ number, side, when_s: number, measured_bytes_per_s: measured }) as DecisionRow;

const tick: Tick = {
  kind: "tick",
  sequence: 1,
  sent_bytes_per_s: 1,
  received_bytes_per_s: 2,
  sent_wire_bytes_per_s: 3,
  received_wire_bytes_per_s: 4,
  round_trip_s: null,
  running: [{ number: 7, done_bytes: 10, wire_bytes: 5, path: "tcp", duration_s: 1 }],
};

const buffer = (...values: number[]) => [new DataView(new Float32Array(values).buffer)];

test("traits are followed until the model ends, and what Python has not set yet is empty", () => {
  const traits: Record<string, unknown> = { link: {} };
  const listeners = new Map<string, () => void>();
  const model: Model = {
    get: (name) => traits[name],
    on: (event, listener) => void listeners.set(event, listener as () => void),
    off: (event) => void listeners.delete(event),
    send: () => undefined,
  };
  const ended = new AbortController();
  const state = new PanelState();
  state.follow(model, ended.signal);
  expect(state.link.value.state).toBe("waiting");
  expect(state.requests.value.rows).toEqual([]);
  traits.link = { state: "connected", peer: "Sven" };
  listeners.get("change:link")!();
  expect(state.link.value).toMatchObject({ state: "connected", peer: "Sven", paths: [] });
  ended.abort();
  expect(listeners.size).toBe(0);
});

test("decisions are added, replaced where they come again, and begun anew on reset", () => {
  const state = new PanelState();
  const numbers = () => state.decisions.value.map((row) => [row.side, row.number, row.measured_bytes_per_s]);
  state.receive({ kind: "decisions", reset: true, rows: [decision(0, "here"), decision(0, "peer")] });
  state.receive({ kind: "decisions", reset: false, rows: [decision(0, "here", 5e6), decision(1, "here")] });
  expect(numbers()).toEqual([
    ["here", 0, 5e6],
    ["peer", 0, null],
    ["here", 1, null],
  ]);
  state.receive({ kind: "decisions", reset: true, rows: [decision(4, "peer")] });
  expect(numbers()).toEqual([["peer", 4, null]]);
});

test("a tick brings numbers, transfers, rows; the end of the history moves by whole seconds", () => {
  const state = new PanelState();
  state.receive(
    { kind: "history", schema: SCHEMA, epoch_s: 1000, columns: [...HISTORY_COLUMNS] },
    buffer(5, 1, 1, 1, 1, 1, 1),
  );
  expect(state.historyEnd.value).toBe(1005);
  state.receive(tick, buffer(5, 9, 9, 9, 9, 9, 9));
  expect(state.historyEnd.value).toBe(1005);
  expect(state.tick.value).toBe(tick);
  expect(state.courses.value.get(7)?.done_bytes).toBe(10);
  state.receive(tick, buffer(6, 1, 1, 1, 1, 1, 1));
  expect(state.historyEnd.value).toBe(1006);
  expect(state.history.stretch(1).sent).toEqual([9]);
});

test("a history of another schema is not taken for one of ours", () => {
  const state = new PanelState();
  state.receive({ kind: "history", schema: SCHEMA + 1, epoch_s: 1000, columns: ["second"] }, buffer(5));
  expect(state.history.latest).toBe(-1);
});

test("a tick before any history, and one without rows, are no trouble", () => {
  const state = new PanelState();
  state.receive(tick);
  expect(state.tick.value).toBe(tick);
  expect(state.history.stretch(60).sent).toEqual(Array(60).fill(null));
});
