import { duration } from "../format";
import { CommandButton, ConfirmButton, Refusal } from "./buttons";
import { choose, useView } from "./view";
import { Words } from "./words";

/** Why there is no link, on whatever tab; while the peer is looked for, for how long, and what can be done. */
export function Outage() {
  const view = useView();
  const { state, pulse } = view.panel;
  const link = state.link.value;
  if (!link.why || pulse.gone.value) return null;
  return (
    <div class="outage">
      <p class="why">
        <Words text={link.why} limit={400} />
      </p>
      {link.gives_up_in_s !== null && (
        <>
          <span class="dim">given up in {duration(link.gives_up_in_s)}</span>
          <CommandButton command="reconnect" label="Try now to reach the peer">
            Try now
          </CommandButton>
          {link.role === "owner" && (
            <ConfirmButton
              command="invite"
              question="Whoever joins with a new code takes this peer's place, with all that it was granted."
              yes="Make the code"
              no="Wait"
              onAck={(ack) => ack.ok && choose(view, "link")}
            >
              New code for <Words text={link.peer ?? ""} limit={40} />
            </ConfirmButton>
          )}
        </>
      )}
      <Refusal keys={["reconnect", "invite"]} />
    </div>
  );
}
