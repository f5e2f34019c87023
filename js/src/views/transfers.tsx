import { keyOf } from "../connection";
import type { TransferRow } from "../contract";
import { visible } from "../foreign";
import { count, duration, percent, ratio, size, speed } from "../format";
import { CommandButton, ConfirmButton, Refusal } from "./buttons";
import { Icon } from "./icon";
import { useView } from "./view";
import { Words } from "./words";

/** What is smaller and has arrived is one line. */
const SMALL_BYTES = 1_000_000;

export function TransfersTab() {
  const { state } = useView().panel;
  const { rows, total } = state.transfers.value;
  if (rows.length === 0) return <p class="dim">Nothing has been transferred yet.</p>;
  return (
    <div class="transfers">
      <ul>
        {rows.map((row) => (
          <Transfer key={row.number} row={row} />
        ))}
      </ul>
      {total > rows.length && <p class="dim">and {count(total - rows.length, "older one")}</p>}
    </div>
  );
}

function Transfer({ row }: { row: TransferRow }) {
  const { state } = useView().panel;
  const running = row.state === "running";
  // a tick may be late by the time that the trait says it has ended
  const course = running ? state.courses.value.get(row.number) : undefined;
  const now = course ?? row;
  const name = visible(row.name, 60);
  const args = { number: row.number };
  if (row.state === "complete" && row.size_bytes < SMALL_BYTES) return <Small row={row} />;
  const commands = ["pause_transfer", "resume_transfer", "cancel_transfer", "retry_transfer"];
  return (
    <li class="transfer" data-state={row.state}>
      <div class="transfer-name">
        <Icon shape={row.direction} />
        <span class="sr">{row.direction === "in" ? "receiving " : "sending "}</span>
        <Words text={row.name} limit={80} />
        <span class="dim grow">{stateWords(row)}</span>
        {running && (
          <>
            <CommandButton
              command={row.paused_here ? "resume_transfer" : "pause_transfer"}
              args={args}
              label={`${row.paused_here ? "Resume" : "Pause"} ${name}`}
            >
              {row.paused_here ? "Resume" : "Pause"}
            </CommandButton>
            <ConfirmButton
              command="cancel_transfer"
              args={args}
              label={`Cancel ${name}`}
              question="Cancel this transfer?"
              yes="Cancel it"
              no="Go on"
            >
              Cancel
            </ConfirmButton>
          </>
        )}
        {row.can_retry && (
          <CommandButton command="retry_transfer" args={args} label={`Retry ${name}`}>
            Retry
          </CommandButton>
        )}
      </div>
      <progress
        aria-label={`${name}: ${percent(now.done_bytes, row.size_bytes)}`}
        max={row.size_bytes || 1}
        value={row.size_bytes ? now.done_bytes : 1}
      />
      <dl class="facts">
        <div>
          <dt class="sr">done</dt>
          <dd class="done">
            {row.state === "complete"
              ? size(row.size_bytes)
              : `${size(now.done_bytes)} of ${size(row.size_bytes)}`}
          </dd>
        </div>
        <div>
          <dt>{running ? "speed" : "on average"}</dt>
          <dd>
            <span class="speed">{speed(running ? course?.bytesPerS : average(row))}</span>
            {course && course.speeds.length > 1 && <Spark speeds={course.speeds} />}
          </dd>
        </div>
        <div>
          <dt>smaller</dt>
          <dd class="ratio">{ratio(now.done_bytes, now.wire_bytes)}</dd>
        </div>
        <div>
          <dt>path</dt>
          <dd>{now.path}</dd>
        </div>
        <div>
          <dt>time</dt>
          <dd>{duration(now.duration_s)}</dd>
        </div>
      </dl>
      <Refusal keys={commands.map((command) => keyOf(command, args))} />
    </li>
  );
}

/** Nobody looks for the speed of what took no time. */
function Small({ row }: { row: TransferRow }) {
  return (
    <li class="transfer" data-state={row.state}>
      <div class="transfer-name">
        <Icon shape={row.direction} />
        <span class="sr">{row.direction === "in" ? "received " : "sent "}</span>
        <Words text={row.name} limit={80} />
        <span class="dim grow">{row.state}</span>
        <span class="done">{size(row.size_bytes)}</span>
        <span class="dim">{row.path}</span>
      </div>
    </li>
  );
}

function stateWords(row: TransferRow): string {
  if (row.state === "running") {
    if (row.paused_here && row.paused_there) return "paused on both sides";
    if (row.paused_here) return "paused here";
    return row.paused_there ? "paused by the peer" : "";
  }
  return row.why ? `${row.state}: ${visible(row.why, 300)}` : row.state;
}

function average(row: TransferRow): number | null {
  return row.duration_s > 0 ? row.done_bytes / row.duration_s : null;
}

const SPARK = { width: 60, height: 16, most: 40 };

function Spark({ speeds }: { speeds: readonly number[] }) {
  const top = Math.max(...speeds, 1);
  const points = speeds.map((speed, index) => {
    const x = SPARK.width - ((speeds.length - 1 - index) * SPARK.width) / (SPARK.most - 1);
    return `${x.toFixed(1)},${(SPARK.height - 1 - (speed / top) * (SPARK.height - 2)).toFixed(1)}`;
  });
  return (
    <svg class="spark" viewBox={`0 0 ${SPARK.width} ${SPARK.height}`} aria-hidden="true">
      <polyline points={points.join(" ")} />
    </svg>
  );
}
