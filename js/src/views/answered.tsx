import type { RequestRow } from "../contract";
import { clock, count, size, thousands } from "../format";
import { Words } from "./words";

/** What became of the requests that wait no more. */
export function Answered({ rows, more }: { rows: readonly RequestRow[]; more: number }) {
  return (
    <table class="stacks">
      <caption>Answered</caption>
      <thead>
        <tr>
          <th scope="col">object</th>
          <th scope="col">who</th>
          <th scope="col">answer</th>
          <th scope="col">by</th>
          <th scope="col">reason</th>
          <th scope="col" class="number snug">
            when
          </th>
        </tr>
      </thead>
      <tbody>
        {rows.map((row) => (
          <tr key={row.number}>
            <th scope="row" class="paragraph">
              <Words text={row.name} />{" "}
              <span class="dim number">{row.one_number ? "one number" : size(row.size_bytes)}</span>
            </th>
            <td>
              <Words text={row.who} limit={40} />
            </td>
            <td class="snug">
              <span class={`dot ${row.state}`} />
              {row.state}
              {row.times > 1 && <span class="dim"> ×{thousands(row.times)}</span>}
            </td>
            <td class="dim" data-label="by">
              {row.by && <Words text={row.by} limit={60} />}
            </td>
            <td class="dim paragraph">
              {row.answer_reason && <Words text={row.answer_reason} limit={200} />}
            </td>
            <td class="number">{row.answered_s === null ? "–" : clock(row.answered_s)}</td>
          </tr>
        ))}
      </tbody>
      {more > 0 && (
        <tfoot>
          <tr>
            <td colSpan={6} class="dim">
              and {count(more, "older one")}
            </td>
          </tr>
        </tfoot>
      )}
    </table>
  );
}
