import { useSignal } from "@preact/signals";
import { keyOf } from "../connection";
import type { SharedRow } from "../contract";
import { count, size } from "../format";
import { Refusal } from "./buttons";
import { useView } from "./view";
import { Lines, Words } from "./words";

const HEADINGS = {
  peer: "Shared by the peer",
  received: "Given by the peer",
  mine: "Shared by you",
  awaiting: "Shared by you before; share it again",
};

/** What either side shares or has given: everything but its content. */
export function SharedTab() {
  const { rows, total } = useView().panel.state.shared.value;
  if (rows.length === 0) return <p class="dim">Neither side shares anything yet.</p>;
  return (
    <div class="shared">
      {Object.entries(HEADINGS).map(([whose, heading]) => {
        const these = rows.filter((row) => row.whose === whose);
        return (
          these.length > 0 && (
            <section key={whose}>
              <h3>{heading}</h3>
              <ul>
                {these.map((row) => (
                  <Shared key={row.name} row={row} />
                ))}
              </ul>
            </section>
          )
        );
      })}
      {total > rows.length && (
        <p class="dim">and {count(total - rows.length, "more", "more")}: see duet.store</p>
      )}
    </div>
  );
}

function Shared({ row }: { row: SharedRow }) {
  const { id, panel } = useView();
  const look = useSignal<string | null>(null);
  const open = useSignal(false);
  const lookId = `${id}-shared-${row.whose}-${row.name}`;
  const asked = { name: row.name, whose: row.whose };
  const toggle = () => {
    open.value = !open.value;
    if (!open.value || look.value !== null) return;
    void panel.connection.run("shared_detail", asked).then((ack) => {
      if (ack?.ok) look.value = String(ack.result);
    });
  };
  return (
    <li class="request">
      <div class="request-head">
        {row.look ? (
          <button
            type="button"
            class="open"
            aria-expanded={open.value}
            aria-controls={open.value ? lookId : undefined}
            onClick={toggle}
          >
            <span class="twist" aria-hidden="true" />
            <Words text={row.name} />
          </button>
        ) : (
          <strong>
            <Words text={row.name} />
          </strong>
        )}
        <span class="dim">
          <Words text={`${row.kind} ${row.detail}`.trim()} />, {size(row.size_bytes)}
        </span>
      </div>
      {row.description && (
        <p>
          <Words text={row.description} limit={200} />
        </p>
      )}
      {row.whose !== "received" && (
        <p class="dim">
          {row.mock ? (
            <>
              works from afar on a mock (<Words text={row.mock} limit={200} />)
            </>
          ) : (
            "no mock: it can only be asked for as it is"
          )}
          {row.budget && (
            <>
              ; private statistics: <Words text={row.budget} limit={200} />
            </>
          )}
        </p>
      )}
      {open.value && (
        <div id={lookId} aria-busy={look.value === null}>
          {look.value === null ? (
            <p class="dim">Asking the kernel…</p>
          ) : (
            <Lines
              text={look.value}
              label={row.whose === "received" ? "What it holds" : "Its mock, made up"}
            />
          )}
        </div>
      )}
      <Refusal keys={[keyOf("shared_detail", asked)]} />
    </li>
  );
}
