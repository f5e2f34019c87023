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
 * One path. `why` is the reason that it is down.
 * 
 * The speed, and the share of datagrams `lost` in the last seconds, are None if they were not measured.
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
 * Trait `tuning`; `compression` is None before there is a peer.
 * 
 * The codecs in force are those of the latest decision of either side, None if nothing has been encoded yet.
 * `changed_by` is who made the latest change, "you" or the peer's name; None if there was none.
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

/** One request of the peer. Long texts are cut here; the command `request_detail` returns them in full. */
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

/** One rule that answers requests. `words` describe it; `used` is what it has released. */
export interface PolicyRow {
  name: string;
  action: "approve" | "deny" | "ask";
  words: string;
  used: string;
}

/** Trait `requests`: pending requests, oldest first, then the latest answered ones. */
export interface RequestsState {
  pending: number;
  total: number;
  rows: RequestRow[];
  policies: PolicyRow[];
}

/** One request of this side; `number` counts them in the order of asking. */
export interface OwnRequestRow {
  number: number;
  state: "asking" | "pending" | "approved" | "denied" | "withdrawn" | "complete" | "failed";
  name: Foreign;
  reason: string;
  answer_reason: Foreign;
  asked_s: number;
  answered_s: number | null;
}

/** Trait `asked`: this side's requests, pending ones first, then the latest. */
export interface AskedState {
  pending: number;
  total: number;
  rows: OwnRequestRow[];
}

/** One object of the store. `look` says that `shared_detail` can show it or its mock. */
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

/** Trait `shared`: the objects that either side shares or has given, this side's own first. */
export interface SharedState {
  total: number;
  rows: SharedRow[];
}

/** One transfer. `paused_here` and `paused_there` are the sides that pause it; it runs if neither does. */
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

/** Trait `transfers`: running ones first, then the latest that ended. Ticks have the progress. */
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
 * One direction of the link between two ranks. Values that were not measured or reported are None.
 * 
 * `now` is False for values that were reported at the beginning of the epoch.
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
 * A member that has left in the last minutes; `rank` is that of the epoch before.
 * 
 * `why` is how its link ended here, empty if only other members know.
 */
export interface GroupGoneRow {
  rank: number | null;
  name: Foreign;
  when_s: number;
  how: "left" | "notebook closed" | "silent" | "put out" | "lost by others";
  why: Foreign;
}

/**
 * The newest sum of this epoch that was called with a codec.
 * 
 * `density` is None if it was not measured, `dense_bytes` 0 if members share memory. `text` is the full
 * report of `group.sums`.
 */
export interface GroupSum {
  codec: string;
  way: string;
  density: number | null;
  sent_bytes: number;
  dense_bytes: number;
  text: string;
}

/** Trait `group`: members by rank, then waiting ones; the links; members that have left, newest last. */
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

/** A session code that a peer can still use; never in a trait, so that no saved notebook contains it. */
export interface Code {
  kind: "code";
  code: string;
  line: string;
  expires_s: number;
  by_hand: boolean;
}

/** Rows of `columns` in one float32 buffer. They replace all rows that the page has. */
export interface History {
  kind: "history";
  schema: number;
  epoch_s: number;
  columns: string[];
}

/** One decision of a tuner, with plans in words. It is sent again with the measured rate. */
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

/** Decisions, oldest first: all of them if `reset`, else those that are new or newly measured. */
export interface Decisions {
  kind: "decisions";
  reset: boolean;
  rows: DecisionRow[];
}

/** The progress of a running transfer. */
export interface Running {
  number: number;
  done_bytes: number;
  wire_bytes: number;
  path: string;
  duration_s: number;
}

/**
 * Sent four times a second while the panel is visible.
 * 
 * The buffer contains history rows: the latest one again, as it grows, and new ones.
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

/** The operation that runs in a group; `waiting_for` are ranks. */
export interface GroupOperation {
  call: string;
  elapsed_s: number;
  done_bytes: number;
  total_bytes: number;
  waiting_for: number[];
  codec: string;
}

/**
 * The tick of a group's panel.
 * 
 * `waited_s` is how long operations have waited for each of `GroupState.members` in this epoch.
 */
export interface GroupTick {
  kind: "group_tick";
  sequence: number;
  operation: GroupOperation | null;
  waited_s: number[];
}

/** The answer to one command. `error` is shown to the user; `result` depends on the command. */
export interface Ack {
  kind: "ack";
  command_id: string;
  ok: boolean;
  error: string;
  result: unknown;
}

/** A notice that is also shown outside the panel. Contains none of the peer's words. */
export interface Notice {
  kind: "notice";
  text: string;
}

/**
 * A new request, also shown outside the panel: `who` asks for `what`, and why.
 * 
 * `run` says that `what` is a function to be run here.
 */
export interface Asked {
  kind: "asked";
  who: Foreign;
  what: Foreign;
  why: Foreign;
  run: boolean;
}

/** The peer's answer to a request of this side, also shown outside the panel. */
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

/** `on` says that a view of this page is visible; repeated every PAGE_SIGN_S while it is. */
export interface Visible {
  kind: "visible";
  page: string;
  on: boolean;
}

/** A request for one tick, from pages that get no messages on their own. */
export interface Poll {
  kind: "poll";
}

/**
 * A click. Answered once, with an Ack of the same `command_id`.
 * 
 * approve            {number, revision}            the revision that the user saw
 * run_request        {number, revision}            runs it here, and releases nothing
 * stop_request       {number}                      stops its run
 * fail               {number, tell}                says "that" it failed, the "type", or the "message"
 * deny               {number, reason}
 * request_detail     {number}                      -> RequestDetail
 * policy_like        {number, count}               -> PolicyDraft: what `add_policy_like` would add
 * add_policy_like    {number, revision, count}     answers the request, and others like it
 * remove_policy      {name}
 * withdraw           {number}                      one of this side's own requests
 * shared_detail      {name, whose}                 -> str: its mock, or what was given
 * audit              {text, kind}                  -> AuditPage: entries with that text, of that kind
 * verify_audit       {}                            -> str: the log is unchanged; fails if it is not
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

/** The latest matching entries, newest first; `total` is the number of all matching entries. */
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

/** The full details of a request. `preview` shows this side's own object and is not sent to the peer. */
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
