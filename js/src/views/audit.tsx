import { useEffect } from "preact/hooks";
import { KINDS } from "../audit";
import type { Ack, AuditRow, Export } from "../contract";
import { download } from "../download";
import { clock, count, moment, size, thousands } from "../format";
import { CommandButton, Refusal } from "./buttons";
import { Row } from "./fields";
import { useView } from "./view";
import { Lines, Words } from "./words";

// a log that somebody else wrote to may hold any words, as a state as well
const DOTS = new Map([
  ["approved", "approved"],
  ["complete", "approved"],
  ["added", "approved"],
  ["denied", "denied"],
  ["failed", "denied"],
  ["cancelled", "down"],
  ["removed", "down"],
]);

/** What this side has put down: what left, what was answered, by whom. */
export function AuditTab() {
  const { audit } = useView().panel;
  useEffect(() => audit.watch(), []);
  return (
    <div class="audit">
      <Search />
      {audit.failure.value && (
        <p class="why" role="status">
          <Words text={audit.failure.value} limit={400} />
        </p>
      )}
      {audit.page.value && <Entries />}
      {audit.page.value && <File />}
    </div>
  );
}

function Search() {
  const { audit, connection } = useView().panel;
  const busy = connection.progress.value.get("audit")?.phase === "busy";
  return (
    <div class="search" role="search">
      <span class="field grow">
        <Row label="find">
          {(id) => (
            <input
              id={id}
              type="search"
              placeholder="a name, a person, words"
              maxLength={200}
              value={audit.text}
              onInput={(event) => audit.type(event.currentTarget.value)}
            />
          )}
        </Row>
      </span>
      <span class="field">
        <Row label="what">
          {(id) => (
            <select id={id} value={audit.kind} onChange={(event) => audit.choose(event.currentTarget.value)}>
              <option value="">everything</option>
              {KINDS.map((kind) => (
                <option key={kind}>{kind}</option>
              ))}
            </select>
          )}
        </Row>
      </span>
      <button type="button" class="plain" aria-disabled={busy} onClick={() => busy || void audit.ask()}>
        {busy ? "Kernel busy…" : "Refresh"}
      </button>
    </div>
  );
}

function Entries() {
  const { audit } = useView().panel;
  const { rows, total } = audit.page.value!;
  const wanted = audit.text.value !== "" || audit.kind.value !== "";
  const shown =
    total > rows.length
      ? `${thousands(rows.length)} of ${thousands(total)} shown`
      : count(total, "entry", "entries");
  return (
    <div class="entries">
      {/* said aloud to whoever searches, and not each time that something happens */}
      <p class="dim" aria-live={wanted ? "polite" : "off"}>
        {total === 0 && wanted ? "No entry is like that." : shown}
      </p>
      {rows.length > 0 && (
        <table class="stacks">
          <caption class="sr">Audit log, the latest first</caption>
          <thead>
            <tr>
              <th scope="col" class="snug">
                when
              </th>
              <th scope="col" class="what">
                what
              </th>
              <th scope="col">who</th>
              <th scope="col">object (revision)</th>
              <th scope="col" class="number snug">
                bytes
              </th>
              <th scope="col">by</th>
              <th scope="col">words</th>
              <th scope="col" class="snug">
                path
              </th>
            </tr>
          </thead>
          <tbody>
            {rows.map((row, place) => (
              // a line that cannot be read has no number
              <Entry key={row.number < 0 ? `line ${place}` : row.number} row={row} />
            ))}
          </tbody>
        </table>
      )}
    </div>
  );
}

function Entry({ row }: { row: AuditRow }) {
  const { pulse } = useView().panel;
  return (
    <tr>
      <td class="snug">{row.when_s > 0 ? moment(row.when_s, pulse.now.value) : "–"}</td>
      <td>
        <span class={`dot ${DOTS.get(row.state) ?? ""}`} />
        <Words text={row.kind} limit={24} /> <Words text={row.state} limit={24} />
      </td>
      <td>{row.peer && <Words text={row.peer} limit={40} />}</td>
      <td>
        {row.name && <Words text={row.name} limit={80} />}
        {row.revision !== null && <span class="dim"> ({thousands(row.revision)})</span>}
      </td>
      <td class="number">{bytes(row)}</td>
      <td data-label="by">{row.by && <Words text={row.by} limit={80} />}</td>
      <td class="dim paragraph">{row.words && <Words text={row.words} limit={300} />}</td>
      <td class="snug">{row.path && <Words text={row.path} limit={12} />}</td>
    </tr>
  );
}

/** Of a release that ended early, how much of the object had left. */
function bytes({ size_bytes, left_bytes }: AuditRow): string {
  if (size_bytes === null) return left_bytes === null ? "" : size(left_bytes);
  if (left_bytes === null || left_bytes === size_bytes) return size(size_bytes);
  return `${size(left_bytes)} of ${size(size_bytes)}`;
}

function File() {
  const { audit } = useView().panel;
  const note = ({ ok, error, result }: Ack) =>
    (audit.verdict.value = { intact: ok, words: ok ? String(result) : error, atMs: Date.now() });
  const save = ({ ok, result }: Ack) => {
    if (ok) download((result as Export).name, (result as Export).content);
  };
  return (
    <section class="file">
      <p class="dim">
        The log is on this machine, in <Words text={audit.page.value!.file} limit={400} />
      </p>
      <div class="answers">
        <CommandButton command="verify_audit" onAck={note}>
          Verify
        </CommandButton>
        <CommandButton command="export_audit" args={{ ending: "jsonl" }} onAck={save}>
          Save as JSON lines
        </CommandButton>
        <CommandButton command="export_audit" args={{ ending: "csv" }} onAck={save}>
          Save as CSV
        </CommandButton>
      </div>
      <div role="status">
        <Verdict />
      </div>
      <Refusal keys={["export_audit jsonl", "export_audit csv"]} />
    </section>
  );
}

function Verdict() {
  const verdict = useView().panel.audit.verdict.value;
  if (!verdict) return null;
  const at = clock(verdict.atMs / 1000);
  if (!verdict.intact) return <Lines text={verdict.words} label={`Verified at ${at}, and it is not right`} />;
  return (
    <p class="why">
      <span class="dot up" />
      {at} <Words text={verdict.words} limit={600} />
    </p>
  );
}
