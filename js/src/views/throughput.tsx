import { useSignal } from "@preact/signals";
import { size } from "../format";
import { Charts } from "./charts";
import { Controls } from "./controls";
import { Decisions } from "./decisions";
import { HistoryTable } from "./history_table";
import { useView } from "./view";

const MINUTES = [1, 5, 15];

/** What compression and deduplication were good for. */
function Headline() {
  const { saved_bytes, sent_bytes, received_bytes } = useView().panel.state.link.value;
  const moved = sent_bytes + received_bytes;
  if (moved === 0) return null;
  if (saved_bytes === 0) return <p class="headline">{size(moved)} have moved, all of it over the wire</p>;
  return (
    <p class="headline">
      <strong>{size(saved_bytes)}</strong> of {size(moved)} kept off the wire (
      {Math.round((100 * saved_bytes) / moved)} %)
    </p>
  );
}

export function ThroughputTab() {
  const { panel, id } = useView();
  const minutes = useSignal(panel.state.minutes);
  const asTable = useSignal(false);
  if (panel.state.transfers.value.total === 0) {
    return (
      <div class="throughput">
        <p class="dim">Nothing has moved yet. What moves is drawn here, second by second.</p>
        <Controls />
      </div>
    );
  }
  return (
    <div class="throughput">
      <Headline />
      <section class="charts">
        <div class="bar">
          <fieldset class="choice">
            <legend class="sr">Show the last</legend>
            {MINUTES.map((choice) => (
              <label key={choice}>
                <input
                  type="radio"
                  name={`${id}-minutes`}
                  checked={minutes.value === choice}
                  onChange={() => {
                    panel.state.minutes = choice;
                    minutes.value = choice;
                  }}
                />
                <span>{choice} min</span>
              </label>
            ))}
          </fieldset>
          <button
            type="button"
            class="plain"
            aria-pressed={asTable.value}
            onClick={() => (asTable.value = !asTable.value)}
          >
            Show as table
          </button>
        </div>
        {asTable.value ? (
          <HistoryTable minutes={minutes.value} />
        ) : (
          <Charts key={minutes.value} minutes={minutes.value} />
        )}
      </section>
      <Controls />
      <Decisions />
    </div>
  );
}
