import { keyOf } from "../connection";
import type { PolicyRow } from "../contract";
import { visible } from "../foreign";
import { ConfirmButton, Refusal } from "./buttons";
import { Words } from "./words";

/** The rules that answer in the person's place. */
export function Policies({ rows }: { rows: readonly PolicyRow[] }) {
  return (
    <section>
      <table class="stacks">
        <caption>Policies, first match answers</caption>
        <thead>
          <tr>
            <th scope="col">name</th>
            <th scope="col" class="snug">
              answer
            </th>
            <th scope="col">which requests, how much</th>
            <th scope="col">has let out</th>
            <th scope="col" class="snug">
              <span class="sr">remove</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={row.name}>
              <th scope="row">
                <Words text={row.name} limit={60} />
              </th>
              <td class="snug">
                <span class={`dot ${DOTS[row.action]}`} />
                {row.action}
              </td>
              <td class="paragraph">
                <Words text={row.words} limit={200} />
              </td>
              <td class="dim" data-label="has let out">
                {row.used ? <Words text={row.used} /> : "nothing yet"}
              </td>
              <td class="act">
                <ConfirmButton
                  command="remove_policy"
                  args={{ name: row.name }}
                  label={`Remove policy ${visible(row.name, 60)}`}
                  question="Remove it?"
                  yes="Remove"
                  no="Keep"
                >
                  Remove
                </ConfirmButton>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      <Refusal keys={rows.map(({ name }) => keyOf("remove_policy", { name }))} />
    </section>
  );
}

const DOTS: Record<PolicyRow["action"], string> = { approve: "approved", deny: "denied", ask: "" };
