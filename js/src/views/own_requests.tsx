import { keyOf } from "../connection";
import { visible } from "../foreign";
import { clock, count } from "../format";
import { ConfirmButton, Refusal } from "./buttons";
import { useView } from "./view";
import { Words } from "./words";

const DOTS = new Map([
  ["approved", "approved"],
  ["complete", "approved"],
  ["denied", "denied"],
  ["failed", "denied"],
]);

const WORDS = new Map([
  ["asking", "on its way"],
  ["pending", "waits for the owner"],
  ["approved", "approved, arriving"],
  ["complete", "approved, here"],
]);

/** What this side has asked the peer for, and what became of it. */
export function OwnRequests() {
  const { rows, total } = useView().panel.state.asked.value;
  if (rows.length === 0) return null;
  return (
    <section>
      <table class="stacks">
        <caption>Asked by you</caption>
        <thead>
          <tr>
            <th scope="col">object</th>
            <th scope="col">your reason</th>
            <th scope="col" class="snug">
              answer
            </th>
            <th scope="col">the owner's words</th>
            <th scope="col" class="number snug">
              when
            </th>
            <th scope="col" class="snug">
              <span class="sr">withdraw</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={row.number}>
              <th scope="row">
                <Words text={row.name} />
              </th>
              <td class="dim paragraph">{row.reason && <Words text={row.reason} limit={200} />}</td>
              <td class="snug">
                <span class={`dot ${DOTS.get(row.state) ?? ""}`} />
                {WORDS.get(row.state) ?? row.state}
              </td>
              <td class="paragraph">{row.answer_reason && <Words text={row.answer_reason} limit={200} />}</td>
              <td class="number">{clock(row.answered_s ?? row.asked_s)}</td>
              <td class="act">
                {row.answered_s === null && (
                  <ConfirmButton
                    command="withdraw"
                    args={{ number: row.number }}
                    label={`Withdraw the request for ${visible(row.name, 60)}`}
                    question="Take it back?"
                    yes="Withdraw"
                    no="Keep"
                  >
                    Withdraw
                  </ConfirmButton>
                )}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      {total > rows.length && <p class="dim">and {count(total - rows.length, "older one")}</p>}
      <Refusal keys={rows.map(({ number }) => keyOf("withdraw", { number }))} />
    </section>
  );
}
