import type { PathRow } from "../contract";
import { count, share, size, speed } from "../format";
import { Invitation } from "./invitation";
import { PATH_MEANINGS, PATH_STATES } from "../words";
import { useView } from "./view";
import { Words } from "./words";

export function LinkTab() {
  const { state, pulse } = useView().panel;
  const link = state.link.value;
  const code = pulse.gone.value ? null : state.code.value;
  return (
    <div class="link">
      {(link.state === "waiting" || link.invited) && code && (
        <Invitation code={code} whom={link.invited ? "whoever takes the peer's place" : "one person"} />
      )}
      {link.state !== "closed" && link.paths.length > 0 && <Paths rows={link.paths} inUse={link.path} />}
      {link.peer !== null && <Facts />}
    </div>
  );
}

function Paths({ rows, inUse }: { rows: readonly PathRow[]; inUse: string | null }) {
  return (
    <table class="stacks">
      <caption>Ways to the peer, best first</caption>
      <thead>
        <tr>
          <th scope="col" class="snug">
            path
          </th>
          <th scope="col" class="snug">
            state
          </th>
          <th scope="col" class="number snug">
            speed
          </th>
          <th scope="col">what it is, or what keeps it down</th>
        </tr>
      </thead>
      <tbody>
        {rows.map((row) => (
          <tr key={row.name} class={row.name === inUse ? "in-use" : undefined}>
            <th scope="row">{row.name}</th>
            <td class="snug">
              <span class={`dot ${row.state}`} />
              {row.name === inUse ? "in use" : PATH_STATES[row.state]}
            </td>
            <td class="number">
              {row.bytes_per_s === null ? "–" : `${row.at_least ? "≥ " : ""}${speed(row.bytes_per_s)}`}
              {row.lost !== null && <div class="dim">{share(row.lost)} lost</div>}
            </td>
            <td class="dim paragraph">
              <Words text={row.why || (PATH_MEANINGS[row.name] ?? "")} limit={300} />
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function Facts() {
  const link = useView().panel.state.link.value;
  return (
    <dl class="facts">
      <div>
        <dt>you are the</dt>
        <dd>{link.role}</dd>
      </div>
      {link.path !== null && (
        <>
          <div>
            <dt>messages</dt>
            <dd>over the data channel</dd>
          </div>
          <div>
            <dt>arrays</dt>
            <dd>{link.path === "local" ? "through shared memory" : `by Flight, ${link.path}`}</dd>
          </div>
        </>
      )}
      <div>
        <dt>sent</dt>
        <dd>{size(link.sent_bytes)}</dd>
      </div>
      <div>
        <dt>received</dt>
        <dd>{size(link.received_bytes)}</dd>
      </div>
      <div>
        <dt>reconnects</dt>
        <dd>{link.reconnects ? count(link.reconnects, "time") : "none"}</dd>
      </div>
    </dl>
  );
}
