import { effect, type ReadonlySignal, signal } from "@preact/signals";
import type { Connection } from "./connection";
import type { AuditPage } from "./contract";
import type { PanelState } from "./state";

const TYPING_MS = 300;

/** What happens, as the log calls it. */
export const KINDS = [
  "opened",
  "connected",
  "share",
  "unshare",
  "request",
  "withdrawn",
  "answer",
  "release",
  "gift",
  "policy",
  "recovered",
  "closed",
] as const;

/** The audit log on the kernel's disk, as it was when it was last asked for; the same in all views.
 *
 * It is read whole each time. So one question is under way at most, and what goes on in the duet leads to a
 * new one each second at most, only while a view shows the log.
 */
export class AuditLog {
  /** What is looked for; "" is everything. */
  readonly text = signal("");
  readonly kind = signal("");
  readonly page = signal<AuditPage | null>(null);
  /** Why there is no page. */
  readonly failure = signal("");
  /** What the latest verification found. */
  readonly verdict = signal<{ intact: boolean; words: string; atMs: number } | null>(null);

  #connection: Connection;
  #watching = 0;
  #stale = true;
  #asking = false;
  #again = false;
  #typing: ReturnType<typeof setTimeout> | undefined;

  /** `second` changes each second while the panel is on a screen. */
  constructor(
    { link, requests, transfers }: PanelState,
    connection: Connection,
    second: ReadonlySignal<number>,
    ended: AbortSignal,
  ) {
    this.#connection = connection;
    const disposals = [
      effect(() => {
        // whatever is put down changes one of these
        void [link.value, requests.value, transfers.value];
        this.#stale = true;
      }),
      effect(() => {
        void second.value;
        if (this.#stale && this.#watching) void this.ask();
      }),
    ];
    ended.addEventListener("abort", () => {
      for (const dispose of disposals) dispose();
      clearTimeout(this.#typing);
    });
  }

  /** A view shows it, until what comes back is called. */
  watch(): () => void {
    this.#watching++;
    void this.ask();
    return () => void this.#watching--;
  }

  /** Looks for `text`, once no further key has followed. */
  type(text: string): void {
    this.text.value = text;
    clearTimeout(this.#typing);
    this.#typing = setTimeout(() => void this.ask(), TYPING_MS);
  }

  choose(kind: string): void {
    this.kind.value = kind;
    void this.ask();
  }

  /** Asks now; where a question is under way, once more after it. */
  async ask(): Promise<void> {
    this.#again = true;
    if (this.#asking) return;
    this.#asking = true;
    while (this.#again) {
      this.#again = this.#stale = false;
      clearTimeout(this.#typing);
      const ack = await this.#connection.run("audit", { text: this.text.peek(), kind: this.kind.peek() });
      if (!ack) break;
      this.page.value = ack.ok ? (ack.result as AuditPage) : null;
      this.failure.value = ack.ok ? "" : ack.error || "the kernel refused";
    }
    this.#asking = false;
  }
}
