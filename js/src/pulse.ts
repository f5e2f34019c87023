import { computed, effect, signal } from "@preact/signals";
import type { Connection } from "./connection";
import { PAGE_SIGN_S, SCHEMA } from "./contract";
import type { PanelState } from "./state";

const BEAT_MS = 1000;
const PULL_AFTER_MS = 2000;
const SILENT_AFTER_MS = 3000;
/** Then the panel looks dead: at most ten seconds after its kernel has ended, with the beat and a late tick. */
const GONE_AFTER_MS = 6000;
const HELLO_AGAIN_MS = 2000;

/** What goes on while a view of the panel is on the screen: the page says so to the kernel, once in a while
 * again, asks for ticks where none come by themselves (Colab pushes nothing), and notices when they are
 * missing. Nothing runs while no view is on the screen.
 */
export class Pulse {
  /** The time, by the second. */
  readonly now = signal(Date.now());
  /** Since when no data has come, of a kernel that should send some; null where all is well. */
  readonly silentSince = signal<number | null>(null);
  /** Silent for so long that the kernel must be taken for ended. */
  readonly gone = computed(() => {
    const sinceMs = this.silentSince.value;
    if (sinceMs === null) return false;
    return this.now.value - Math.max(sinceMs, this.#state.heardMs.value) >= GONE_AFTER_MS;
  });

  #state: PanelState;
  #connection: Connection;
  #onScreen = new Set<Element>();
  #timer: ReturnType<typeof setInterval> | undefined;
  #helloMs = 0;
  #hellos = 0; // without an answer
  #shownMs = 0;
  #hiddenMs = 0;
  #signMs = 0;
  #tickMs = 0;
  #pulling = false;
  #asked = false;

  constructor(state: PanelState, connection: Connection, ended: AbortSignal) {
    this.#state = state;
    this.#connection = connection;
    document.addEventListener("visibilitychange", () => this.#settle(), { signal: ended });
    const dispose = effect(() => {
      if (state.tick.value || state.groupTick.value) this.#ticked();
    });
    const disposeGreeted = effect(() => {
      if (state.greetings.value) this.#hellos = 0;
    });
    ended.addEventListener("abort", () => {
      dispose();
      disposeGreeted();
      this.#onScreen.clear();
      this.#settle();
    });
  }

  /** Counts `root` while it is on the screen, and says hello for the first view of all. */
  watch(root: Element, ended: AbortSignal, onChange: (shown: boolean) => void): void {
    if (!this.#helloMs) this.#hello();
    const set = (shown: boolean) => {
      if (shown) this.#onScreen.add(root);
      else this.#onScreen.delete(root);
      onChange(shown);
      this.#settle();
    };
    const observer = new IntersectionObserver((entries) => set(entries.at(-1)!.isIntersecting));
    observer.observe(root);
    ended.addEventListener("abort", () => {
      observer.disconnect();
      set(false);
    });
  }

  #settle(): void {
    const on = this.#onScreen.size > 0 && document.visibilityState === "visible";
    if (on === (this.#timer !== undefined)) return;
    const now = Date.now();
    if (on) {
      this.#shownMs = now;
      // rows have passed that nobody sent here
      if (this.#hiddenMs && now - this.#hiddenMs > SILENT_AFTER_MS) this.#hello();
      this.#timer = setInterval(() => this.#beat(), BEAT_MS);
      this.#sign(true);
      this.now.value = now;
    } else {
      this.#hiddenMs = now;
      clearInterval(this.#timer);
      this.#timer = undefined;
      this.#sign(false);
    }
  }

  #hello(): void {
    this.#helloMs = Date.now();
    this.#hellos += 1;
    this.#connection.send({ kind: "hello", schema: SCHEMA });
  }

  #sign(on: boolean): void {
    this.#signMs = Date.now();
    this.#connection.send({ kind: "visible", page: this.#connection.page, on });
  }

  #beat(): void {
    const now = Date.now();
    const closed = this.#state.isClosed();
    // The first may wait behind all the cells of a notebook, where those that come a moment later do not.
    if (this.#hellos && now - this.#helloMs >= HELLO_AGAIN_MS * 2 ** (this.#hellos - 1)) this.#hello();
    if (now - this.#signMs >= PAGE_SIGN_S * 1000) this.#sign(true);
    const lastMs = Math.max(this.#tickMs, this.#shownMs);
    this.#pulling ||= now - lastMs >= PULL_AFTER_MS;
    if (this.#pulling && !closed) {
      this.#asked = true;
      this.#connection.send({ kind: "poll" });
    }
    this.silentSince.value = !closed && now - lastMs >= SILENT_AFTER_MS ? lastMs : null;
    this.now.value = now;
  }

  #ticked(): void {
    this.#tickMs = Date.now();
    // a tick that nobody asked for: the kernel does push
    if (!this.#asked) this.#pulling = false;
    this.#asked = false;
    this.silentSince.value = null;
  }
}
