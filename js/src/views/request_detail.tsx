import { useEffect } from "preact/hooks";
import { keyOf } from "../connection";
import type { RequestDetail, RequestRow } from "../contract";
import { useView } from "./view";
import { Lines, Words } from "./words";

/** Characters: more than any code has. Of what is approved nothing may be cut. */
const WHOLE = 10_000_000;

const WAITS = {
  sent: "Asking the kernel…",
  busy: "Kernel busy…",
  failed: "It could not be shown. Close it and open it to ask again.",
};

/** What a detail is kept by: one of a function that has not been run lacks what it makes. */
export function detailKey({ number, revision, made }: RequestRow): string {
  return `${number}.${revision}.${made}`;
}

/** All that there is to know before an answer, as soon as the kernel has told it. */
export function Detail({ row, id }: { row: RequestRow; id: string }) {
  const { state, connection } = useView().panel;
  const key = detailKey(row);
  const detail = state.details.value.get(key);
  useEffect(() => {
    if (detail) return;
    void connection.run("request_detail", { number: row.number }).then((ack) => {
      if (ack?.ok) state.details.value = new Map(state.details.peek()).set(key, ack.result as RequestDetail);
    });
  }, [key, !detail]);
  const phase = connection.progress.value.get(keyOf("request_detail", { number: row.number }))?.phase;
  return (
    <div class="detail" id={id} aria-busy={!detail}>
      {!detail && <p class="dim">{WAITS[phase ?? "sent"]}</p>}
      {detail?.description && (
        <p>
          <Words text={detail.description} limit={1000} />
        </p>
      )}
      {detail && detail.tags.length > 0 && (
        <p class="dim">
          tags: <Words text={detail.tags.join(", ")} limit={400} />
        </p>
      )}
      {detail && detail.reason.length > row.reason.length && (
        <Lines text={detail.reason} label="The whole reason" />
      )}
      {detail?.code && <Lines text={detail.code} limit={WHOLE} label="How it was made" />}
      {detail?.code && detail.group !== null && (
        <p class="dim">
          {detail.group > 1
            ? `each number of at least ${detail.group} rows`
            : "it may hold what belongs to one row"}
        </p>
      )}
      {detail?.log && <Lines text={detail.log} label="What it printed, shown here only" />}
      {detail?.preview && <Lines text={detail.preview} label="What it holds, shown here only" />}
    </div>
  );
}
