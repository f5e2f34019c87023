import { duration } from "../format";
import { CommandButton, Refusal } from "./buttons";
import { useView } from "./view";
import { Words } from "./words";

/** Why there is no link, on whatever tab; while the peer is looked for, for how long, and what can be done. */
export function Outage() {
  const { state, pulse } = useView().panel;
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
        </>
      )}
      <Refusal keys={["reconnect"]} />
    </div>
  );
}
