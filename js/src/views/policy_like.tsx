import { useSignal } from "@preact/signals";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import type { PolicyDraft, RequestRow } from "../contract";
import { visible } from "../foreign";
import { ending } from "../format";
import { CommandButton, Refusal } from "./buttons";
import { NumberField } from "./fields";
import { useView } from "./view";
import { Words } from "./words";

const TIMES = 10;
const MOST_TIMES = 1000;

let opened = 0;

interface PolicyLikeProps {
  row: RequestRow;
  dead: boolean;
  /** What is below has moved, and other words stand above the button. */
  onMove: () => void;
  onCancel: () => void;
}

/** The second step to a policy that approves this request and others like it. The first has opened this; what
 * would be in force is read here before it is. No key but one on the button itself sends anything.
 */
export function PolicyLike({ row, dead, onMove, onCancel }: PolicyLikeProps) {
  const { id, panel } = useView();
  const times = useSignal(TIMES);
  const place = useRef<HTMLDivElement>(null);
  useEffect(() => place.current?.querySelector("input")?.focus(), []);
  // of its own: opened once more, it does not wait for an answer to the one before
  const [key] = useState(() => `policy_like ${row.number} ${++opened}`);
  const draft = useDraft(row, times.value, key);
  useLayoutEffect(() => void onMove(), [draft]);
  const timesId = `${id}-times-${row.number}`;
  const busy = panel.connection.progress.value.get(key)?.phase === "busy";
  return (
    <div
      class="policy-like"
      role="group"
      aria-label={`Approve requests like this one for ${visible(row.name)}`}
      aria-busy={!draft}
      ref={place}
      onKeyDown={(event) => event.key === "Escape" && onCancel()}
    >
      <p class="sentence">
        <Words text={row.who} limit={40} /> may {row.function ? "run" : "have"} <Words text={row.name} />{" "}
        again, <label for={timesId}>at most</label>{" "}
        <NumberField
          id={timesId}
          value={times.value}
          unit={times.value === 1 ? "time" : "times"}
          placeholder=""
          least={1}
          most={MOST_TIMES}
          step={1}
          required
          onSet={(value) => (times.value = value ?? TIMES)}
        />
        , until {draft ? ending(draft.until_s, panel.pulse.now.value) : "…"}, without asking you.
      </p>
      <div aria-live="polite">
        {draft ? (
          <details>
            <summary class="dim">
              The policy “<Words text={draft.name} limit={200} />” in full
            </summary>
            <Words text={draft.words} limit={2000} />
          </details>
        ) : (
          <span class="dim">{busy ? "Kernel busy…" : "Asking the kernel…"}</span>
        )}
      </div>
      <div class="answers">
        <CommandButton
          command="add_policy_like"
          args={{ number: row.number, revision: row.revision, count: times.value }}
          kind="primary"
          inert={dead || !draft || row.refusal !== ""}
        >
          Approve these from now on
        </CommandButton>
        <button type="button" class="plain" onClick={onCancel}>
          Cancel
        </button>
      </div>
      <Refusal keys={[key]} />
    </div>
  );
}

/** What the kernel would add for this revision and so many times; null until it has said so. */
function useDraft({ number, revision }: RequestRow, times: number, key: string): PolicyDraft | null {
  const { connection } = useView().panel;
  const wanted = `${revision}.${times}`;
  const latest = useRef({ wanted, times });
  const asking = useRef(false);
  const answer = useSignal<{ wanted: string; draft: PolicyDraft } | null>(null);
  latest.current = { wanted, times };
  useEffect(() => {
    if (asking.current) return;
    const ask = async () => {
      asking.current = true;
      for (let asked = ""; asked !== latest.current.wanted;) {
        asked = latest.current.wanted;
        const ack = await connection.run("policy_like", { number, count: latest.current.times }, key);
        if (ack?.ok) answer.value = { wanted: asked, draft: ack.result as PolicyDraft };
      }
      asking.current = false;
    };
    void ask();
  }, [wanted]);
  return answer.value?.wanted === wanted ? answer.value.draft : null;
}
