import { useSignal } from "@preact/signals";
import { copy } from "../clipboard";
import type { Code } from "../contract";
import { duration } from "../format";
import { useView } from "./view";

const COPIED_MS = 2000;

/** The code, to be passed on, and the line that takes it. `whom`: one person, or many. */
export function Invitation({ code, whom = "one person" }: { code: Code; whom?: string }) {
  const { pulse } = useView().panel;
  const leftS = code.expires_s - pulse.now.value / 1000;
  return (
    <section class="invitation">
      <h3>
        {code.by_hand ? "Send this text to" : "Tell this code to"} {whom}
      </h3>
      <div class="copyable">
        <code class={code.by_hand ? "blob" : "code"} tabIndex={code.by_hand ? 0 : undefined}>
          {code.code}
        </code>
        <Copy text={code.code} label="Copy the code" />
      </div>
      {code.expires_s > 0 && (
        <p class="dim">
          {leftS > 0 ? `Good once, for ${duration(leftS)} more.` : "It has expired; launch anew for another."}
        </p>
      )}
      <h3>They run</h3>
      <div class="copyable">
        <code class={code.by_hand ? "line blob" : "line"} tabIndex={code.by_hand ? 0 : undefined}>
          {code.line}
        </code>
        <Copy text={code.line} label="Copy the line" />
      </div>
    </section>
  );
}

function Copy({ text, label }: { text: string; label: string }) {
  const said = useSignal("Copy");
  const click = async () => {
    said.value = (await copy(text)) ? "Copied" : "Select it to copy";
    setTimeout(() => (said.value = "Copy"), COPIED_MS);
  };
  return (
    <>
      <button type="button" class="plain" aria-label={label} onClick={click}>
        {said}
      </button>
      <span class="sr" role="status">
        {said.value === "Copy" ? "" : said}
      </span>
    </>
  );
}
