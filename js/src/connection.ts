import { signal } from "@preact/signals";
import type { Model } from "./afm";
import type { Ack, Command, Hello, Poll, Visible } from "./contract";

/** How long a click may go without an answer before the panel says that the kernel is busy. */
export const BUSY_MS = 700;

export interface Progress {
  phase: "sent" | "busy" | "failed";
  error: string;
}

/** Sends messages to the kernel, and matches acks to commands.
 *
 * Commands belong to the model, not to a view: a click in one view shows in all of them, and outlives the
 * tab it was made in. A command has no end but its ack: a kernel that runs a cell may answer much later.
 */
export class Connection {
  /** Commands that have no answer yet, or were refused, by their key. */
  readonly progress = signal<ReadonlyMap<string, Progress>>(new Map());
  #model: Model;
  #waiting = new Map<string, (ack: Ack) => void>();
  #sent = 0;
  // two pages may show one panel, and both get every ack
  #page = Math.random().toString(36).slice(2);

  constructor(model: Model) {
    this.#model = model;
  }

  get page(): string {
    return this.#page;
  }

  send(message: Hello | Visible | Poll | Command): void {
    try {
      this.#model.send(message);
    } catch {
      // the kernel is gone; the header says so as soon as its ticks are missing
    }
  }

  /** Sends a command, once: while one with this key is under way, null comes back and nothing is sent. */
  async run(name: string, args: Record<string, unknown> = {}, key = keyOf(name, args)): Promise<Ack | null> {
    if (this.#underWay(key)) return null;
    const id = `${this.#page}-${++this.#sent}`;
    const answer = new Promise<Ack>((resolve) => this.#waiting.set(id, resolve));
    this.#note(key, { phase: "sent", error: "" });
    const busy = setTimeout(() => this.#note(key, { phase: "busy", error: "" }), BUSY_MS);
    this.send({ kind: "command", command_id: id, name, args });
    const ack = await answer;
    clearTimeout(busy);
    this.#note(key, ack.ok ? null : { phase: "failed", error: ack.error || "the kernel refused" });
    return ack;
  }

  acknowledge(ack: Ack): void {
    this.#waiting.get(ack.command_id)?.(ack);
    this.#waiting.delete(ack.command_id);
  }

  /** Forgets a refusal, once it has been read. */
  dismiss(key: string): void {
    if (!this.#underWay(key)) this.#note(key, null);
  }

  #underWay(key: string): boolean {
    const phase = this.progress.peek().get(key)?.phase;
    return phase === "sent" || phase === "busy";
  }

  #note(key: string, progress: Progress | null): void {
    const all = new Map(this.progress.peek());
    if (progress) all.set(key, progress);
    else all.delete(key);
    this.progress.value = all;
  }
}

/** Commands on different requests, transfers or policies are different commands. */
export function keyOf(name: string, args: Record<string, unknown> = {}): string {
  const target = args.number ?? args.name ?? args.ending;
  return target === undefined ? name : `${name} ${target}`;
}
