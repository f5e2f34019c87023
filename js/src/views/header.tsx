import { useComputed } from "@preact/signals";
import { clock, count, latency, speed } from "../format";
import { LINK_STATES, PATH_MEANINGS } from "../words";
import { CommandButton, ConfirmButton, Refusal } from "./buttons";
import { Icon } from "./icon";
import { choose, useView } from "./view";
import { Words } from "./words";

export function Header() {
  const view = useView();
  const { state } = view.panel;
  const link = state.link.value;
  const { pending } = state.requests.value;
  const gone = view.panel.pulse.gone.value;
  const open = link.state !== "closed" && !gone;
  return (
    <header class="header">
      <div class="who">
        <Icon shape={gone ? "closed" : link.state} />
        <strong>{gone ? "The kernel does not answer" : LINK_STATES[link.state]}</strong>
        {link.peer !== null && (
          <span class="peer">
            <span class="sr">with </span>
            <Words text={link.peer} limit={40} />
          </span>
        )}
        {link.verifier !== null && (
          <span class="verifier" title="Both notebooks show the same three words: compare them aloud">
            <span class="sr">verifier </span>
            {link.verifier}
          </span>
        )}
        <Silence />
      </div>
      {gone && <Gone />}
      {link.peer !== null && open && <Figures />}
      <div class="actions">
        <button
          type="button"
          class="plain badge"
          data-pending={pending > 0}
          onClick={() => choose(view, "requests")}
        >
          {count(pending, "request")}
        </button>
        {link.peer !== null && open && (
          <CommandButton
            command={link.paused ? "resume" : "pause"}
            label={link.paused ? "Resume sending" : "Pause sending"}
          >
            <Icon shape={link.paused ? "play" : "pause"} />
            {link.paused ? "Resume" : "Pause"}
          </CommandButton>
        )}
        {open && (
          <ConfirmButton command="disconnect" question="End this duet?" yes="Disconnect" no="Stay">
            Disconnect
          </ConfirmButton>
        )}
      </div>
      <Refusal keys={["pause", "resume", "disconnect"]} />
    </header>
  );
}

function Silence() {
  const { state, pulse } = useView().panel;
  const sinceMs = pulse.silentSince.value;
  if (sinceMs === null || pulse.gone.value) return null;
  return (
    <span class="silence" role="status">
      no data from kernel since {clock(sinceMs / 1000)}
      {state.tick.value === null && state.link.value.summary && (
        <Words text={` (${state.link.value.summary})`} limit={300} />
      )}
    </span>
  );
}

/** Nothing else in the panel is true any more, perhaps. */
export function Gone() {
  const { state, pulse, isGroup } = useView().panel;
  const opener = isGroup ? "group" : state.link.value.role === "owner" ? "launch" : "join";
  return (
    <p class="why" role="status">
      No data since {clock(pulse.silentSince.value! / 1000)}. If the kernel has ended or was restarted, its{" "}
      {isGroup ? "membership" : "duet"} has ended with it: run duetlink.{opener}(…) again. A kernel that is
      only busy comes back by itself.
      {state.tick.value === null && state.link.value.summary && (
        <Words text={` (${state.link.value.summary})`} limit={300} />
      )}
    </p>
  );
}

/** Four times a second only the texts of these change: each is bound to its own signal. */
function Figures() {
  const { state } = useView().panel;
  const sent = useComputed(() => speed(state.tick.value?.sent_bytes_per_s));
  const received = useComputed(() => speed(state.tick.value?.received_bytes_per_s));
  const roundTrip = useComputed(() => latency(state.tick.value?.round_trip_s));
  const { path, paused } = state.link.value;
  return (
    <dl class="figures">
      <div>
        <dt>path</dt>
        <dd title={path ? PATH_MEANINGS[path] : undefined}>{path || "–"}</dd>
      </div>
      <div>
        <dt>{paused ? "sending paused" : "sending"}</dt>
        <dd>
          <span class="rate">{sent}</span>
        </dd>
      </div>
      <div>
        <dt>receiving</dt>
        <dd>
          <span class="rate">{received}</span>
        </dd>
      </div>
      <div class="time">
        <dt>round trip</dt>
        <dd>{roundTrip}</dd>
      </div>
    </dl>
  );
}
