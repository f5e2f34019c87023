import { LONG, SHORT, visible, visibleLines } from "../foreign";

/** A text that others wrote. Set apart, so that its direction does not reorder what stands next to it. */
export function Words({ text, limit = SHORT }: { text: string; limit?: number }) {
  return <bdi class="words">{visible(text, limit)}</bdi>;
}

/** The same, of several lines. */
export function Lines({ text, label, limit = LONG }: { text: string; label: string; limit?: number }) {
  // scrolls where it is long, which the keyboard can do only with the focus
  return (
    <div>
      <p class="dim">{label}</p>
      <pre class="lines" tabIndex={0} role="region" aria-label={label}>
        {visibleLines(text, limit)}
      </pre>
    </div>
  );
}
