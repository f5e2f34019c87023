// Generated from widgets/duetlink_widgets/contract.py by tests/generated_code.py. Do not edit.

/** A peer's words: shown as text only, made visible first. */
export type Foreign = string & { readonly foreign: "peer" };

export const SCHEMA = 1;

export const TRAIT_LIMIT_BYTES = 32768;

export const HISTORY_S = 900;

export const TICK_S = 0.25;

export const VISIBLE_LEASE_S = 30.0;

export const PAGE_SIGN_S = 10.0;

export const HISTORY_COLUMNS = [
  "second",
  "sent",
  "received",
  "sent_wire",
  "received_wire",
  "round_trip_s",
  "queued_bytes",
] as const;

/**
 * One rung of the ladder. `why` keeps it down; its speed, and the share of datagrams that were `lost` in
 * the last seconds, are None where nothing measured them.
 */
export interface PathRow {
  name: string;
  state: "opening" | "up" | "down" | "idle" | "unknown";
  why: Foreign;
  bytes_per_s: number | null;
  at_least: boolean;
  lost: number | null;
}

/** Trait `link`. */
export interface LinkState {
  schema: number;
  role: "owner" | "scientist";
  state: "waiting" | "pairing" | "connected" | "reconnecting" | "closed";
  why: Foreign;
  gives_up_in_s: number | null;
  invited: boolean;
  peer: Foreign | null;
  verifier: string | null;
  path: string | null;
  paths: PathRow[];
  reconnects: number;
  paused: boolean;
  sent_bytes: number;
  received_bytes: number;
  saved_bytes: number;
  summary: string;
}

/** A codec that both sides have, and the roles that it can be chosen for. */
export interface CodecChoice {
  name: string;
  roles: ("bytes" | "tensor" | "gradient")[];
  lossless: boolean;
  least_level: number;
  most_level: number;
  default_level: number;
}

/** `duet.compression`. `codec` and `level` are by role; codec "auto" leaves a role to the tuner. */
export interface CompressionFields {
  mode: "auto" | "manual";
  codec: Record<string, string>;
  level: Record<string, number | null>;
  lossless_only: boolean;
  max_relative_error: number | null;
  rate_cap_bytes_per_s: number | null;
  objective: "throughput" | "latency" | "bytes" | "cpu";
  pin: boolean;
  version: number;
}

/**
 * Trait `tuning`; `compression` is None before there is a peer. The codecs in force are those of the
 * latest decision of either side, None where nothing has been encoded yet. `changed_by` made the latest
 * change, "you" or the peer by its name; None where there was none.
 */
export interface TuningState {
  compression: CompressionFields | null;
  codecs: CodecChoice[];
  sending_codec: string | null;
  receiving_codec: string | null;
  changed_by: Foreign | null;
  changed_words: string;
  changed_s: number;
}

/** One request of the peer. Long texts are cut here; the command `request_detail` has all of them. */
export interface RequestRow {
  number: number;
  state: "pending" | "running" | "approved" | "denied" | "withdrawn" | "expired" | "failed";
  who: Foreign;
  name: string;
  revision: number;
  kind: string;
  detail: string;
  size_bytes: number;
  lossy: string;
  reason: Foreign;
  answer_reason: string;
  times: number;
  arrived_s: number;
  answered_s: number | null;
  by: string;
  function: string;
  one_number: boolean;
  made: boolean;
  progress: number | null;
  running: string;
  failure: string;
  privacy: string;
  budgets: string;
  refusal: string;
}

/** One rule that answers requests; `words` say which and how much, `used` what it has let out. */
export interface PolicyRow {
  name: string;
  action: "approve" | "deny" | "ask";
  words: string;
  used: string;
}

/** Trait `requests`: the pending ones first, oldest first, then the latest of those that are answered. */
export interface RequestsState {
  pending: number;
  total: number;
  rows: RequestRow[];
  policies: PolicyRow[];
}

/** One request of this side's; `number` is its place in the order of asking. */
export interface OwnRequestRow {
  number: number;
  state: "asking" | "pending" | "approved" | "denied" | "withdrawn" | "complete" | "failed";
  name: Foreign;
  reason: string;
  answer_reason: Foreign;
  asked_s: number;
  answered_s: number | null;
}

/** Trait `asked`: what this side has asked for, the pending ones first, then the latest. */
export interface AskedState {
  pending: number;
  total: number;
  rows: OwnRequestRow[];
}

/** One object of the store. `look`: it is here or has a mock, which `shared_detail` shows. */
export interface SharedRow {
  name: Foreign;
  whose: "peer" | "received" | "mine" | "awaiting";
  kind: Foreign;
  detail: Foreign;
  size_bytes: number;
  description: Foreign;
  mock: Foreign;
  budget: Foreign;
  look: boolean;
}

/** Trait `shared`: what either side shares or has given, this side's own first. */
export interface SharedState {
  total: number;
  rows: SharedRow[];
}

/** One transfer. `paused_here` and `paused_there` say who keeps it back; it runs where neither does. */
export interface TransferRow {
  number: number;
  name: Foreign;
  direction: "in" | "out";
  size_bytes: number;
  done_bytes: number;
  wire_bytes: number;
  path: string;
  state: "running" | "complete" | "cancelled" | "failed";
  why: Foreign;
  paused_here: boolean;
  paused_there: boolean;
  duration_s: number;
  can_retry: boolean;
}

/** Trait `transfers`: running ones first, then the latest that ended. Progress comes with the ticks. */
export interface TransfersState {
  running: number;
  total: number;
  rows: TransferRow[];
}

/** One member of a group; `rank` is None while it waits for the next epoch. */
export interface GroupMemberRow {
  rank: number | null;
  name: Foreign;
  state: string;
}

/**
 * One direction of the link between two ranks. What nobody has measured or told is None; what is not of
 * `now` was told at the beginning of the epoch.
 */
export interface GroupLinkRow {
  of: number;
  to: number;
  path: string | null;
  round_trip_s: number | null;
  bytes_per_s: number | null;
  now: boolean;
}

/**
 * A member that has gone in the last minutes; `rank` is that of the epoch before. `why` is how its link
 * ended here, empty where only others know.
 */
export interface GroupGoneRow {
  rank: number | null;
  name: Foreign;
  when_s: number;
  how: "left" | "notebook closed" | "silent" | "put out" | "lost by others";
  why: Foreign;
}

/**
 * The newest sum of this epoch that was called with a codec of sums. `density` is None where nobody has
 * looked, `dense_bytes` 0 where members share memory; `text` is all that `group.sums` has of it.
 */
export interface GroupSum {
  codec: string;
  way: string;
  density: number | null;
  sent_bytes: number;
  dense_bytes: number;
  text: string;
}

/**
 * Trait `group`: members by rank, then those who wait; links between all ranks; who has gone, the newest
 * last.
 */
export interface GroupState {
  schema: number;
  state: string;
  why: Foreign;
  verifier: string | null;
  epoch: number;
  rank: number | null;
  size: number;
  members: GroupMemberRow[];
  links: GroupLinkRow[];
  gone: GroupGoneRow[];
  sum: GroupSum | null;
}

/** A session code that waits for somebody: never in a trait, so that no saved notebook holds it. */
export interface Code {
  kind: "code";
  code: string;
  line: string;
  expires_s: number;
  by_hand: boolean;
}

/** Rows of `columns` in one float32 buffer, all that there is; they replace what the page has. */
export interface History {
  kind: "history";
  schema: number;
  epoch_s: number;
  columns: string[];
}

/** One decision of a tuner; plans in words. Told again, same `side` and `number`, once measured. */
export interface DecisionRow {
  number: number;
  side: "here" | "peer";
  when_s: number;
  name: Foreign;
  path: string;
  before: string;
  after: string;
  codec: string;
  level: number;
  chunk_bytes: number;
  workers: number;
  why: Foreign;
  predicted_bytes_per_s: number | null;
  measured_bytes_per_s: number | null;
}

/** Decisions, oldest first: all of them where `reset`, else what is new or was measured since. */
export interface Decisions {
  kind: "decisions";
  reset: boolean;
  rows: DecisionRow[];
}

/** Where a running transfer is. */
export interface Running {
  number: number;
  done_bytes: number;
  wire_bytes: number;
  path: string;
  duration_s: number;
}

/**
 * Four times a second while the panel is on a screen. The buffer holds history rows: the latest again, as
 * it grows, and those that are new.
 */
export interface Tick {
  kind: "tick";
  sequence: number;
  sent_bytes_per_s: number;
  received_bytes_per_s: number;
  sent_wire_bytes_per_s: number;
  received_wire_bytes_per_s: number;
  round_trip_s: number | null;
  running: Running[];
}

/** What runs in a group; `waiting_for` are ranks. */
export interface GroupOperation {
  call: string;
  elapsed_s: number;
  done_bytes: number;
  total_bytes: number;
  waiting_for: number[];
  codec: string;
}

/**
 * The tick of a group's panel. `waited_s`: how long operations have waited for each of
 * `GroupState.members` in this epoch.
 */
export interface GroupTick {
  kind: "group_tick";
  sequence: number;
  operation: GroupOperation | null;
  waited_s: number[];
}

/** The answer to one command. `error` is for the person who clicked; `result` as the command says. */
export interface Ack {
  kind: "ack";
  command_id: string;
  ok: boolean;
  error: string;
  result: unknown;
}

/** Something to be told outside the panel as well. Holds none of the peer's words. */
export interface Notice {
  kind: "notice";
  text: string;
}

/**
 * A new request, to be told outside the panel as well: who asks for what, and why. `run`: `what` is a
 * function, to be run here.
 */
export interface Asked {
  kind: "asked";
  who: Foreign;
  what: Foreign;
  why: Foreign;
  run: boolean;
}

/** The peer has answered a request of this side's: to be told outside the panel as well. */
export interface Answered {
  kind: "answered";
  who: Foreign;
  what: Foreign;
  answer: "approved" | "denied";
  why: Foreign;
}

/** A page has begun to show the panel: answered with code, history and decisions. */
export interface Hello {
  kind: "hello";
  schema: number;
}

/** Whether any view of this page is on the screen; said again every PAGE_SIGN_S while it is. */
export interface Visible {
  kind: "visible";
  page: string;
  on: boolean;
}

/** Where nothing arrives by itself: answered with one tick. */
export interface Poll {
  kind: "poll";
}

/**
 * A click. Answered with an Ack of the same `command_id`, once.
 * 
 * approve            {number, revision}            the revision that was seen
 * run_request        {number, revision}            here, and only here
 * stop_request       {number}                      its run
 * fail               {number, tell}                tells "that" it failed, the "type", the "message"
 * deny               {number, reason}
 * request_detail     {number}                      -> RequestDetail
 * policy_like        {number, count}               -> PolicyDraft: what `add_policy_like` would add
 * add_policy_like    {number, revision, count}     answers the request, and others like it
 * remove_policy      {name}
 * withdraw           {number}                      one of this side's own requests
 * shared_detail      {name, whose}                 -> str: its mock, or what was given
 * audit              {text, kind}                  -> AuditPage: entries with that text, of that kind
 * verify_audit       {}                            -> str: that nothing was changed; fails where it was
 * export_audit       {ending}                      -> Export: of this duet, as "jsonl" or "csv"
 * set_compression    fields of CompressionFields   those that change; `codec`, `level` by role
 * undo_compression   {}
 * pause, resume      {}                            all that this side sends
 * pause_transfer, resume_transfer, cancel_transfer, retry_transfer   {number}
 * disconnect         {}
 * reconnect          {}                            looks for the peer at once
 * invite             {}                            makes a new code for a duet whose peer is lost
 * close_doors, leave {}                            of a group
 */
export interface Command {
  kind: "command";
  command_id: string;
  name: string;
  args: Record<string, unknown>;
}

/** A policy that would approve a request and others like it, before it is in force. */
export interface PolicyDraft {
  name: string;
  words: string;
  count: number;
  until_s: number;
}

/** One entry of the audit log. */
export interface AuditRow {
  number: number;
  when_s: number;
  kind: string;
  state: string;
  peer: Foreign;
  name: Foreign;
  revision: number | null;
  size_bytes: number | null;
  left_bytes: number | null;
  by: string;
  words: Foreign;
  path: string;
}

/** The latest entries that were asked for, newest first; `total` is how many there are. */
export interface AuditPage {
  file: string;
  total: number;
  rows: AuditRow[];
}

/** A file to save. */
export interface Export {
  name: string;
  content: string;
}

/** All that there is to know before an answer. `preview` is of this side's own object and stays here. */
export interface RequestDetail {
  number: number;
  revision: number;
  reason: Foreign;
  description: string;
  tags: string[];
  preview: string;
  code: Foreign;
  group: number | null;
  log: Foreign;
}
