import { useComputed, useSignal, useSignalEffect } from "@preact/signals";
import type { RequestRow } from "../contract";
import { SHORT, visible } from "../foreign";
import { count, size } from "../format";
import { Icon } from "./icon";
import { focusFirstRequest } from "./requests";
import { choose, useView } from "./view";
import { Words } from "./words";

const ALERT_EVERY_MS = 5000;

/** The oldest pending request, and a way to it. Nothing is answered here. */
export function Alert() {
  const view = useView();
  const { state } = view.panel;
  const row = state.requests.value.rows.find(({ state }) => state === "pending");
  const more = state.requests.value.pending - 1;
  return (
    <>
      <Announcements />
      {row && !view.panel.pulse.gone.value && view.tab.value !== "requests" && (
        <div class="alert">
          <Icon shape="request" />
          <span class="grow">
            <Words text={row.who} limit={40} /> asks for <Words text={row.name} />
            {row.one_number ? "." : `, ${size(row.size_bytes)}.`}
            {more > 0 && ` And ${count(more, "further request")}.`}
          </span>
          <button
            type="button"
            class="plain"
            onClick={() => {
              choose(view, "requests");
              focusFirstRequest(view);
            }}
          >
            Review
          </button>
        </div>
      )}
    </>
  );
}

/** The same for a screen reader, at once. */
function question(row: RequestRow): string {
  const much = row.one_number ? "one number" : size(row.size_bytes);
  return `${visible(row.who, 40)} asks for ${visible(row.name, SHORT)}, ${much}.`;
}

/** What a screen reader is told without being asked: notices politely, a new request at once, but not more
 * often than a person can listen. Ticks are never told. */
function Announcements() {
  const { state, pulse } = useView().panel;
  const pending = useComputed(() => state.requests.value.rows.filter((row) => row.state === "pending"));
  const said = useSignal("");
  const told = useSignal({ atMs: 0, number: -1 });
  useSignalEffect(() => {
    const newest = pending.value.at(-1);
    const now = pulse.now.value;
    const last = told.peek();
    if (!newest || newest.number <= last.number || now - last.atMs < ALERT_EVERY_MS) return;
    told.value = { atMs: now, number: newest.number };
    said.value = question(newest);
  });
  return (
    <>
      <div class="sr" aria-live="polite">
        {state.notice.value}
      </div>
      <div class="sr" role="alert">
        {said.value}
      </div>
    </>
  );
}
