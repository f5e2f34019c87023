import { useComputed } from "@preact/signals";
import { count, duration, percent, size, thousands } from "../format";
import { CommandButton, ConfirmButton, Refusal } from "./buttons";
import { GroupMatrix } from "./group_matrix";
import { Departed, LastSum } from "./group_news";
import { Gone } from "./header";
import { Icon } from "./icon";
import { Invitation } from "./invitation";
import { useView } from "./view";
import { Words } from "./words";

const STATES: Record<string, { title: string; shape: "waiting" | "connected" | "pairing" | "closed" }> = {
  waiting: { title: "Waiting for members", shape: "waiting" },
  ready: { title: "Together", shape: "connected" },
  changing: { title: "Members are changing", shape: "pairing" },
  closed: { title: "Closed", shape: "closed" },
};

/** A group: who is in it, the links between all of them, and what runs. */
export function Group() {
  const { state, pulse } = useView().panel;
  const group = state.group.value;
  const gone = pulse.gone.value;
  const { title, shape } = STATES[group.state] ?? STATES.waiting!;
  const code = gone ? null : state.code.value;
  const open = group.state !== "closed" && !gone;
  return (
    <>
      <header class="header">
        <div class="who">
          <Icon shape={gone ? "closed" : shape} />
          <strong>{gone ? "The kernel does not answer" : title}</strong>
          {group.size > 0 && <span>{count(group.size, "member")}</span>}
          {group.verifier !== null && (
            <span class="verifier" title="All notebooks show the same three words: compare them aloud">
              <span class="sr">verifier </span>
              {group.verifier}
            </span>
          )}
        </div>
        {gone && <Gone />}
        {group.size > 0 && !gone && (
          <dl class="figures">
            <div>
              <dt>you are</dt>
              <dd>{group.rank === null ? "not in yet" : `rank ${group.rank}`}</dd>
            </div>
            <div>
              <dt>epoch</dt>
              <dd title="how often the members have changed">{thousands(group.epoch)}</dd>
            </div>
          </dl>
        )}
        {open && (
          <div class="actions">
            {group.state === "waiting" && state.code.value && group.size === 0 && (
              <CommandButton command="close_doors">Begin with who is there</CommandButton>
            )}
            <ConfirmButton command="leave" question="Leave this group?" yes="Leave" no="Stay">
              Leave
            </ConfirmButton>
          </div>
        )}
        <Refusal keys={["close_doors", "leave"]} />
      </header>
      <div class="content group" inert={gone}>
        {group.why && (
          <p class="why">
            <Words text={group.why} limit={400} />
          </p>
        )}
        {open && group.state === "waiting" && code && (
          <Invitation code={code} whom="everybody who may come" />
        )}
        {open && group.state !== "waiting" && <Operation />}
        {group.sum !== null && <LastSum sum={group.sum} />}
        <Departed />
        {group.members.length > 1 && <GroupMatrix />}
      </div>
    </>
  );
}

/** What runs, how far it is, and who keeps it waiting. */
function Operation() {
  const { state } = useView().panel;
  const operation = useComputed(() => state.groupTick.value?.operation ?? null).value;
  if (!operation) return <p class="dim">Nothing runs.</p>;
  const { members } = state.group.value;
  const late = operation.waiting_for.map(
    (rank) => members.find((member) => member.rank === rank)?.name ?? `${rank}`,
  );
  return (
    <section class="transfer">
      <div class="transfer-name">
        <Words text={operation.call} limit={160} />
        {operation.codec && (
          <span class="dim">
            codec <Words text={operation.codec} limit={40} />
          </span>
        )}
        <span class="dim grow">
          {late.length > 0 && (
            <>
              waits for <Words text={late.join(", ")} limit={120} />
            </>
          )}
        </span>
        <span class="dim">{duration(operation.elapsed_s)}</span>
      </div>
      {operation.total_bytes > 0 && (
        <>
          <progress
            aria-label={`${operation.call}: ${percent(operation.done_bytes, operation.total_bytes)}`}
            max={operation.total_bytes}
            value={operation.done_bytes}
          />
          <span class="dim">
            {size(operation.done_bytes)} of {size(operation.total_bytes)}
          </span>
        </>
      )}
    </section>
  );
}
