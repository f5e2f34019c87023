import { useSignal } from "@preact/signals";
import { useRef } from "preact/hooks";
import type { CompressionFields } from "../contract";
import { clock } from "../format";
import { CommandButton, Refusal } from "./buttons";
import { type Change, CodecOfRole, type FieldsProps, type Role } from "./codec_of_role";
import { Check, NumberField, Row } from "./fields";
import { useView } from "./view";
import { Words } from "./words";

const ROLES: Role[] = ["bytes", "tensor", "gradient"];
const OBJECTIVES: Record<CompressionFields["objective"], string> = {
  throughput: "throughput",
  latency: "latency",
  bytes: "fewest bytes",
  cpu: "least processor time",
};

/** `duet.compression`. The controls show what the kernel says, and so what the peer changes; what a person
 * has just chosen is shown until the kernel has answered. */
export function Controls() {
  const { state, connection } = useView().panel;
  const { compression, codecs, sending_codec, receiving_codec, ...last } = state.tuning.value;
  const draft = useSignal<Change>({});
  const queue = useRef(Promise.resolve());
  const waiting = useRef(0);
  const phase = connection.progress.value.get("set_compression")?.phase;
  if (!compression) {
    return (
      <section class="controls">
        <h3>Compression</h3>
        <p class="dim">Both sides agree on it once they are connected.</p>
      </section>
    );
  }
  const now: CompressionFields = { ...compression, ...draft.value };
  const set = (change: Change) => {
    draft.value = { ...draft.value, ...merged(now, change) };
    waiting.current++;
    // one after the other: a second choice made while the kernel is busy is not lost
    queue.current = queue.current.then(async () => {
      await connection.run("set_compression", change);
      // the trait has it by now, or the kernel has refused
      if (--waiting.current === 0) draft.value = {};
    });
  };
  return (
    <section
      class="controls"
      aria-label="Compression"
      aria-busy={phase !== undefined && phase !== "failed"}
      inert={state.link.value.state === "closed"}
    >
      <div class="bar">
        <h3>Compression</h3>
        <span class="dim" role="status">
          {phase === "busy" ? "Kernel busy…" : ""}
        </span>
        <fieldset class="choice">
          <legend class="sr">Who chooses the codecs</legend>
          <Mode mode="auto" title="Auto" now={now} set={set} />
          <Mode mode="manual" title="Manual" now={now} set={set} />
        </fieldset>
      </div>
      <div class="grid">
        <Row label="objective">
          {(id) => (
            <select
              id={id}
              value={now.objective}
              onChange={(event) =>
                set({ objective: event.currentTarget.value as CompressionFields["objective"] })
              }
            >
              {Object.entries(OBJECTIVES).map(([value, words]) => (
                <option key={value} value={value} selected={value === now.objective}>
                  {words}
                </option>
              ))}
            </select>
          )}
        </Row>
        <span>in force</span>
        <output class="in-force">
          {sending_codec ?? "–"} <span class="dim">out,</span> {receiving_codec ?? "–"}{" "}
          <span class="dim">in</span>
        </output>
        {ROLES.map((role) => (
          <CodecOfRole key={role} role={role} now={now} codecs={codecs} set={set} />
        ))}
        <Row label="greatest error" title="how far off a lossy codec may be; lossless ones change nothing">
          {(id) => (
            <NumberField
              id={id}
              value={
                now.max_relative_error === null
                  ? null
                  : Number((now.max_relative_error * 100).toPrecision(12))
              }
              unit="% off"
              placeholder="any"
              least={0}
              most={100}
              onSet={(value) => set({ max_relative_error: value === null ? null : value / 100 })}
            />
          )}
        </Row>
        <Row label="rate cap">
          {(id) => (
            <NumberField
              id={id}
              value={now.rate_cap_bytes_per_s === null ? null : now.rate_cap_bytes_per_s / 1e6}
              unit="MB/s"
              placeholder="none"
              least={0.01}
              most={1e6}
              onSet={(value) => set({ rate_cap_bytes_per_s: value === null ? null : value * 1e6 })}
            />
          )}
        </Row>
        <Check
          label="lossless only"
          checked={now.lossless_only}
          onSet={(lossless_only) => set({ lossless_only })}
        />
        <Check label="keep the codecs in force" checked={now.pin} onSet={(pin) => set({ pin })} />
      </div>
      <div class="bar">
        <CommandButton
          command="undo_compression"
          inert={compression.version === 0}
          label="Undo the last change of compression"
        >
          Undo
        </CommandButton>
        <span class="dim" title={`change ${compression.version}`}>
          {last.changed_by === null ? (
            "the same on both sides"
          ) : (
            <>
              <Words text={last.changed_by} limit={40} /> set <Words text={last.changed_words} limit={200} />,{" "}
              {clock(last.changed_s)}
            </>
          )}
        </span>
      </div>
      <Refusal keys={["set_compression", "undo_compression"]} />
    </section>
  );
}

function Mode({ mode, title, now, set }: FieldsProps & { mode: CompressionFields["mode"]; title: string }) {
  const { id } = useView();
  return (
    <label>
      <input type="radio" name={`${id}-mode`} checked={now.mode === mode} onChange={() => set({ mode })} />
      <span>{title}</span>
    </label>
  );
}

/** What the fields will be: of `codec` and `level` a change names only the roles that it changes. */
function merged(now: CompressionFields, change: Change): Change {
  return {
    ...change,
    ...(change.codec && { codec: { ...now.codec, ...change.codec } }),
    ...(change.level && { level: { ...now.level, ...change.level } }),
  };
}
