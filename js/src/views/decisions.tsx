import { useSignal } from "@preact/signals";
import { clock, megabytes } from "../format";
import { decisionKey } from "../state";
import { useView } from "./view";
import { Words } from "./words";

const FIRST_SHOWN = 20;

/** What the tuners of both sides decided and why, the latest first. */
export function Decisions() {
  const { state } = useView().panel;
  const all = useSignal(false);
  const rows = [...state.decisions.value].reverse();
  const shown = all.value ? rows : rows.slice(0, FIRST_SHOWN);
  return (
    <section class="decisions">
      <table class="stacks">
        <caption>What the tuners decided</caption>
        <thead>
          <tr>
            <th scope="col" class="snug">
              when
            </th>
            <th scope="col" class="snug">
              sender
            </th>
            <th scope="col">object</th>
            <th scope="col">from → to</th>
            <th scope="col">why</th>
            <th scope="col" class="number snug">
              expected, MB/s
            </th>
            <th scope="col" class="number snug">
              measured, MB/s
            </th>
          </tr>
        </thead>
        <tbody>
          {shown.map((row) => (
            <tr key={decisionKey(row)}>
              <td class="number">{clock(row.when_s)}</td>
              <td>{row.side === "here" ? "here" : "peer"}</td>
              <td>
                <Words text={row.name} limit={60} /> <span class="dim">{row.path}</span>
              </td>
              <td class="paragraph">
                <Words text={row.before || "–"} /> → <Words text={row.after} />
              </td>
              <td class="dim paragraph">
                <Words text={row.why} limit={400} />
              </td>
              <td class="number" data-label="expected">
                {megabytes(row.predicted_bytes_per_s)}
              </td>
              <td class="number" data-label="measured">
                {megabytes(row.measured_bytes_per_s)}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      {rows.length > 1 && (
        <p class="dim">
          What is sent at the same time shares the link and the rate cap: each measures its part.
        </p>
      )}
      {rows.length === 0 && <p class="dim">Nothing yet: a tuner decides once something large is sent.</p>}
      {rows.length > shown.length && (
        <button type="button" class="plain" onClick={() => (all.value = true)}>
          Show all {rows.length}
        </button>
      )}
    </section>
  );
}
