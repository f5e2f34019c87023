import { useSignal } from "@preact/signals";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { keyOf } from "../connection";
import type { RequestRow } from "../contract";
import { visible } from "../foreign";
import { clock, size, thousands } from "../format";
import { Answered } from "./answered";
import { CommandButton, Refusal } from "./buttons";
import { onEnter } from "./fields";
import { OwnRequests } from "./own_requests";
import { Policies } from "./policies";
import { PolicyLike } from "./policy_like";
import { Detail, detailKey } from "./request_detail";
import { useView, type View } from "./view";
import { Words } from "./words";

/** For so long nothing is answered after the list has changed: the click was meant for what stood there. */
const DEAD_MS = 500;

/** So little is read before it is approved: the oldest request of this size unfolds by itself. */
const SMALL_BYTES = 1000;

const COMMANDS = [
  "approve",
  "run_request",
  "stop_request",
  "fail",
  "deny",
  "add_policy_like",
  "request_detail",
];

/** How much the peer may hear of a failure, the least first. */
const TELLINGS = [
  ["that", "That it failed"],
  ["type", "Also where, and the class of error"],
  ["message", "Also the message, which may quote the data"],
] as const;

/** Puts the focus on the oldest request, on what opens it: never on an answer. Where none waits, on the tab's content. */
export function focusFirstRequest({ root }: View): void {
  // the tab is drawn first
  setTimeout(() => {
    const first =
      root.querySelector<HTMLElement>(".request .open") ?? root.querySelector<HTMLElement>("[role=tabpanel]");
    first?.focus();
  });
}

export function RequestsTab() {
  const { state } = useView().panel;
  const { rows, total, policies } = state.requests.value;
  const waits = (row: RequestRow) => row.state === "pending" || row.state === "running";
  const pending = rows.filter(waits);
  const answered = rows.filter((row) => !waits(row));
  const moves = useSignal(0);
  // a detail that arrives pushes down what is below it
  const places = [
    ...pending.map(({ number, revision }) => `${number}.${revision}`),
    state.details.value.size,
    moves.value,
  ];
  const dead = useDeadTime(places.join());
  const list = useRef<HTMLUListElement>(null);
  const move = (event: KeyboardEvent) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step || !(event.target as Element).matches(".open")) return;
    event.preventDefault();
    const all = [...list.current!.querySelectorAll<HTMLElement>(".open")];
    all[all.indexOf(event.target as HTMLElement) + step]?.focus();
  };
  return (
    <div class="requests">
      {pending.length === 0 && <p class="dim">Nothing waits for your answer.</p>}
      <ul ref={list} onKeyDown={move}>
        {pending.map((row, place) => (
          <Pending key={row.number} row={row} first={place === 0} dead={dead} onMove={() => moves.value++} />
        ))}
      </ul>
      <OwnRequests />
      {policies.length > 0 && <Policies rows={policies} />}
      {answered.length > 0 && <Answered rows={answered} more={total - rows.length} />}
    </div>
  );
}

/** True for a moment after `places` has changed. */
function useDeadTime(places: string): boolean {
  const settled = useSignal("");
  useEffect(() => {
    const timer = setTimeout(() => (settled.value = places), DEAD_MS);
    return () => clearTimeout(timer);
  }, [places]);
  return settled.value !== places;
}

interface PendingProps {
  row: RequestRow;
  first: boolean;
  dead: boolean;
  onMove: () => void;
}

function Pending({ row, first, dead, onMove }: PendingProps) {
  const view = useView();
  const { id } = view;
  const chosen = useSignal<boolean | null>(null); // by a click; else its size decides
  const open = chosen.value ?? (first && row.made && row.size_bytes <= SMALL_BYTES);
  const answering = useSignal<"" | "deny" | "like" | "fail">("");
  const item = useRef<HTMLLIElement>(null);
  useLayoutEffect(() => {
    const shown = item.current!;
    return () => {
      // what is answered leaves the list, and would take the focus with it
      if (shown.contains(document.activeElement)) focusFirstRequest(view);
    };
  }, []);
  const cancel = () => {
    const opener = `[data-opens=${answering.value}]`;
    answering.value = "";
    // the focus goes back to where it came from, once that is there again
    requestAnimationFrame(() => item.current?.querySelector<HTMLElement>(opener)?.focus());
  };
  const { details } = view.panel.state;
  // a run tells more
  const forget = (number: number) => {
    details.value = new Map([...details.peek()].filter(([, detail]) => detail.number !== number));
    chosen.value = true;
  };
  const args = { number: row.number };
  const detailId = `${id}-request-${row.number}`;
  const refused = row.refusal !== "";
  const refusalId = `${id}-refusal-${row.number}`;
  // nothing is approved whose code and content do not stand here
  const unread = !open || !details.value.has(detailKey(row));
  const unreadId = `${id}-unread-${row.number}`;
  const why = refused ? refusalId : unread ? unreadId : undefined;
  return (
    <li class="request" ref={item}>
      <div class="request-head">
        <button
          type="button"
          class="open"
          aria-expanded={open}
          aria-controls={open ? detailId : undefined}
          onClick={() => (chosen.value = !open)}
        >
          <span class="twist" aria-hidden="true" />
          <Words text={row.name} />
        </button>
        <span class="dim number">
          revision {thousands(row.revision)}, {clock(row.arrived_s)}
        </span>
      </div>
      <dl class="facts">
        <div>
          <dt>who</dt>
          <dd>
            <Words text={row.who} limit={60} />
            {row.times > 1 && ` (asked ${thousands(row.times)} times)`}
          </dd>
        </div>
        <div>
          <dt>why</dt>
          <dd>
            {row.reason ? <Words text={row.reason} limit={200} /> : <span class="dim">no reason given</span>}
          </dd>
        </div>
        <div>
          <dt>what would leave</dt>
          <dd>
            {row.made ? (
              <>
                {row.one_number ? (
                  <Words text={`one number, ${row.kind}`} />
                ) : (
                  <>
                    <Words text={`${row.kind} ${row.detail}`.trim()} />, {size(row.size_bytes)}
                  </>
                )}
                , {row.lossy ? <Words text={`changed on the way by ${row.lossy}`} /> : "bit for bit"}
              </>
            ) : (
              <Words text={row.detail} limit={400} />
            )}
          </dd>
        </div>
        {row.privacy && (
          <div>
            <dt>privacy</dt>
            <dd>
              {row.privacy}
              {row.budgets && (
                <>
                  ; <Words text={row.budgets} limit={200} />
                </>
              )}
            </dd>
          </div>
        )}
      </dl>
      {refused && (
        <p class="refusal" id={refusalId}>
          It cannot be approved: <Words text={row.refusal} limit={200} />
        </p>
      )}
      {row.state === "running" && (
        <p class="dim" role="status">
          It runs here{course(row)}
        </p>
      )}
      {row.failure && (
        <p class="refusal" role="status">
          It failed here: <Words text={row.failure} limit={200} />. The peer knows nothing of it.
        </p>
      )}
      {open && <Detail row={row} id={detailId} />}
      {answering.value === "deny" && <Denial row={row} dead={dead} onCancel={cancel} />}
      {answering.value === "like" && (
        <PolicyLike row={row} dead={dead || unread} onMove={onMove} onCancel={cancel} />
      )}
      {answering.value === "fail" && <Telling row={row} dead={dead} onCancel={cancel} />}
      {!answering.value && (
        <div class="answers">
          <CommandButton
            command="approve"
            args={{ number: row.number, revision: row.revision }}
            kind="primary"
            inert={dead || refused || unread}
            why={why}
            label={`${row.made ? "Approve" : "Run and approve"} ${visible(row.name)}`}
            onAck={(ack) => !ack.ok && !row.made && forget(row.number)}
          >
            {row.made ? "Approve" : "Run and approve"}
          </CommandButton>
          {!row.made && row.state === "pending" && (
            <CommandButton
              command="run_request"
              args={{ number: row.number, revision: row.revision }}
              inert={dead || refused}
              why={refused ? refusalId : undefined}
              label={`Run ${visible(row.name)} here, and only here`}
              onAck={() => forget(row.number)}
            >
              Run here
            </CommandButton>
          )}
          {row.state === "running" && (
            <CommandButton
              command="stop_request"
              args={{ number: row.number }}
              inert={dead}
              label={`Stop the run of ${visible(row.name)}`}
            >
              Stop
            </CommandButton>
          )}
          {row.failure && (
            <button
              type="button"
              class="plain"
              data-opens="fail"
              aria-label={`Tell the peer that ${visible(row.name)} failed…`}
              onClick={() => (answering.value = "fail")}
            >
              Tell the peer…
            </button>
          )}
          <button type="button" class="plain" data-opens="deny" onClick={() => (answering.value = "deny")}>
            Deny…
          </button>
          <button
            type="button"
            class="plain"
            data-opens="like"
            aria-label={`Approve like this… for ${visible(row.name)}`}
            aria-disabled={refused || unread}
            aria-describedby={why}
            onClick={() => refused || unread || (answering.value = "like")}
          >
            Approve like this…
          </button>
          {!refused && unread && (
            <span class="dim" id={unreadId}>
              {open ? "It can be approved once all of it is shown." : "Open it to approve it."}
            </span>
          )}
        </div>
      )}
      <Refusal keys={COMMANDS.map((command) => keyOf(command, args))} />
    </li>
  );
}

/** How far a run is, by what is measured here and by the function's own word. */
function course({ running, progress }: RequestRow): string {
  const parts = [running, progress === null ? "" : `${Math.round(progress * 100)} %`].filter(Boolean);
  return parts.length > 0 ? `: ${parts.join(", ")}` : "…";
}

interface AnswerProps {
  row: RequestRow;
  dead: boolean;
  onCancel: () => void;
}

function Telling({ row, dead, onCancel }: AnswerProps) {
  const group = useRef<HTMLDivElement>(null);
  useEffect(() => group.current?.querySelector("button")?.focus(), []);
  return (
    <div
      ref={group}
      class="answers"
      role="group"
      aria-label={`What the peer hears of the failure of ${visible(row.name)}`}
      onKeyDown={(event) => event.key === "Escape" && onCancel()}
    >
      {TELLINGS.map(([tell, words]) => (
        <CommandButton key={tell} command="fail" args={{ number: row.number, tell }} inert={dead}>
          {words}
        </CommandButton>
      ))}
      <button type="button" class="plain" onClick={onCancel}>
        Cancel
      </button>
    </div>
  );
}

function Denial({ row, dead, onCancel }: AnswerProps) {
  const { connection } = useView().panel;
  const reason = useSignal("");
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => field.current?.focus(), []);
  const phase = connection.progress.value.get(keyOf("deny", { number: row.number }))?.phase;
  const disabled = dead || phase === "sent" || phase === "busy";
  const deny = () => {
    if (!disabled) void connection.run("deny", { number: row.number, reason: reason.value });
  };
  return (
    <div class="answers" role="group" onKeyDown={(event) => event.key === "Escape" && onCancel()}>
      <input
        ref={field}
        type="text"
        aria-label={`Reason to deny ${visible(row.name)}; the peer reads it`}
        placeholder="reason, which the peer reads"
        maxLength={500}
        value={reason}
        onInput={(event) => (reason.value = event.currentTarget.value)}
        onKeyDown={onEnter(deny)}
      />
      <button type="button" class="primary" aria-disabled={disabled} onClick={deny}>
        {phase === "busy" ? "Kernel busy…" : "Deny"}
      </button>
      <button type="button" class="plain" onClick={onCancel}>
        Cancel
      </button>
    </div>
  );
}
