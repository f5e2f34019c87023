import type { GroupGoneRow, GroupSum } from "../contract";
import { clock, ratio, share } from "../format";
import { DEPARTURES } from "../words";
import { useView } from "./view";
import { Lines, Words } from "./words";

/** Who has gone in the last minutes, the newest first. */
export function Departed() {
  const { gone } = useView().panel.state.group.value;
  // it is there before anybody has gone: a screen reader tells what changes in it
  return (
    <div role="status">
      {gone.length > 0 && (
        <ul class="departed" aria-label="Who has gone">
          {[...gone].reverse().map((one) => (
            <Departure key={`${one.when_s} ${one.name}`} one={one} />
          ))}
        </ul>
      )}
    </div>
  );
}

function Departure({ one }: { one: GroupGoneRow }) {
  return (
    <li>
      <span class="dim number">{clock(one.when_s)}</span>{" "}
      <strong>
        <Words text={one.name} limit={40} />
      </strong>
      {one.rank !== null && <span class="dim"> (rank {one.rank})</span>} {DEPARTURES[one.how]}
      {one.why && (
        <div class="dim">
          <Words text={one.why} limit={160} />
        </div>
      )}
    </li>
  );
}

/** What the newest coded sum has chosen; why and how exactly, when it is opened. */
export function LastSum({ sum }: { sum: GroupSum }) {
  return (
    <details class="sum">
      <summary>{sumLine(sum)}</summary>
      <Lines text={sum.text} label="How it was made" />
    </details>
  );
}

/** In one line: `all_reduce: union, 5.0 % of the places, 16.2× fewer bytes`. */
export function sumLine({ way, density, sent_bytes, dense_bytes }: GroupSum): string {
  const parts = [way];
  if (density !== null) parts.push(`${share(density)} of the places`);
  if (dense_bytes > 1.005 * sent_bytes && sent_bytes > 0)
    parts.push(`${ratio(dense_bytes, sent_bytes)} fewer bytes`);
  return `all_reduce: ${parts.join(", ")}`;
}
