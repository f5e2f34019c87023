import { batch, signal } from "@preact/signals";
import type { Model } from "./afm";
import {
  type Answered,
  type Asked,
  type AskedState,
  type Code,
  type GroupState,
  type GroupTick,
  type DecisionRow,
  type Decisions,
  type History as HistoryMessage,
  type LinkState,
  type Notice,
  type RequestDetail,
  type RequestsState,
  SCHEMA,
  type SharedState,
  type Tick,
  type TransfersState,
  type TuningState,
} from "./contract";
import { floats, History } from "./history";
import { advanced, type Course } from "./speeds";

export type Tab = "link" | "throughput" | "shared" | "requests" | "transfers" | "audit";
export type Message = Code | HistoryMessage | Decisions | Tick | GroupTick | Notice | Asked | Answered;

const DECISIONS_KEPT = 512;

const NO_LINK: LinkState = {
  schema: SCHEMA,
  role: "owner",
  state: "waiting",
  why: "" as LinkState["why"],
  peer: null,
  verifier: null,
  path: null,
  paths: [],
  gives_up_in_s: null,
  invited: false,
  reconnects: 0,
  paused: false,
  sent_bytes: 0,
  received_bytes: 0,
  saved_bytes: 0,
  summary: "",
};
const NO_TUNING: TuningState = {
  compression: null,
  codecs: [],
  sending_codec: null,
  receiving_codec: null,
  changed_by: null,
  changed_words: "",
  changed_s: 0,
};
const NO_REQUESTS: RequestsState = { pending: 0, total: 0, rows: [], policies: [] };
const NO_ASKED: AskedState = { pending: 0, total: 0, rows: [] };
const NO_SHARED: SharedState = { total: 0, rows: [] };
const NO_TRANSFERS: TransfersState = { running: 0, total: 0, rows: [] };

const NO_GROUP: GroupState = {
  schema: SCHEMA,
  state: "waiting",
  why: "" as GroupState["why"],
  verifier: null,
  epoch: 0,
  rank: null,
  size: 0,
  members: [],
  links: [],
  gone: [],
  sum: null,
};

/** All that the panel knows, of one model, for all of its views. Views only read it. */
export class PanelState {
  readonly link = signal(NO_LINK);
  readonly tuning = signal(NO_TUNING);
  readonly requests = signal(NO_REQUESTS);
  readonly asked = signal(NO_ASKED);
  readonly shared = signal(NO_SHARED);
  readonly transfers = signal(NO_TRANSFERS);
  readonly group = signal(NO_GROUP);

  readonly code = signal<Code | null>(null);
  readonly tick = signal<Tick | null>(null);
  readonly groupTick = signal<GroupTick | null>(null);
  readonly courses = signal<ReadonlyMap<number, Course>>(new Map());
  readonly decisions = signal<readonly DecisionRow[]>([]);
  readonly notice = signal("");
  /** How often the kernel has told everything. */
  readonly greetings = signal(0);
  /** What the kernel has told of requests, by number and revision. */
  readonly details = signal<ReadonlyMap<string, RequestDetail>>(new Map());

  /** When the kernel has said or changed anything, a tick or not. */
  readonly heardMs = signal(0);

  readonly history = new History();
  /** Changes when the history has a further whole second: charts need no redrawing in between. */
  readonly historyEnd = signal(0);

  // what a further view opens with
  tab: Tab = "link";
  minutes = 5;

  /** Follows the traits. */
  follow(model: Model, ended: AbortSignal): void {
    const traits = {
      link: [this.link, NO_LINK],
      tuning: [this.tuning, NO_TUNING],
      requests: [this.requests, NO_REQUESTS],
      asked: [this.asked, NO_ASKED],
      shared: [this.shared, NO_SHARED],
      transfers: [this.transfers, NO_TRANSFERS],
      group: [this.group, NO_GROUP],
    } as const;
    for (const [name, [target, none]] of Object.entries(traits)) {
      const read = () => {
        // a trait that Python has not set yet is empty
        (target as { value: unknown }).value = { ...none, ...(model.get(name) as object | null) };
      };
      const change = () => {
        this.heardMs.value = Date.now();
        read();
      };
      read();
      model.on(`change:${name}`, change);
      ended.addEventListener("abort", () => model.off(`change:${name}`, change));
    }
  }

  /** Whether what is shown has ended, so that nothing more is to come. */
  isClosed(): boolean {
    return this.link.peek().state === "closed" || this.group.peek().state === "closed";
  }

  receive(message: Message, buffers: readonly DataView[] = []): void {
    batch(() => {
      switch (message.kind) {
        case "code":
          this.code.value = message;
          break;
        case "history":
          if (message.schema !== SCHEMA) break;
          this.history.replace(message.epoch_s, message.columns, floats(buffers[0]));
          this.historyEnd.value = this.history.epochS + this.history.latest;
          this.greetings.value += 1;
          break;
        case "decisions":
          this.decisions.value = merged(message.reset ? [] : this.decisions.peek(), message.rows);
          break;
        case "tick":
          this.tick.value = message;
          this.courses.value = advanced(this.courses.peek(), message.running);
          this.history.merge(floats(buffers[0]));
          this.historyEnd.value = this.history.epochS + this.history.latest;
          break;
        case "group_tick":
          this.groupTick.value = message;
          break;
        case "notice":
          this.notice.value = message.text;
      }
    });
  }
}

/** Decisions with further ones; one that comes again, with its outcome, takes its own place. */
export function merged(known: readonly DecisionRow[], rows: readonly DecisionRow[]): readonly DecisionRow[] {
  const byKey = new Map([...known, ...rows].map((row) => [decisionKey(row), row]));
  return [...byKey.values()].slice(-DECISIONS_KEPT);
}

export function decisionKey(row: DecisionRow): string {
  return `${row.side} ${row.number}`;
}
