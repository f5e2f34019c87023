import { signal } from "@preact/signals";
import type { Model } from "./afm";
import { AuditLog } from "./audit";
import { Connection } from "./connection";
import type { Ack } from "./contract";
import { news, notify, reviewCaption } from "./notification";
import { Pulse } from "./pulse";
import { type Message, PanelState } from "./state";

/** The panel of one model; any number of views show it. */
export class Panel {
  readonly state = new PanelState();
  readonly connection: Connection;
  readonly pulse: Pulse;
  readonly audit: AuditLog;
  /** By which the table that a saved notebook shows in its place is hidden while it is there. */
  readonly key: string;
  readonly isGroup: boolean;
  /** How often a person has asked, by the button of a notification, to be shown the requests. */
  readonly reviews = signal(0);
  #review = "";

  constructor(model: Model, ended: AbortSignal) {
    this.connection = new Connection(model);
    this.pulse = new Pulse(this.state, this.connection, ended);
    this.audit = new AuditLog(this.state, this.connection, this.pulse.now, ended);
    this.isGroup = model.get("kind") === "group";
    this.key = String(model.get("key") ?? "");
    this.state.follow(model, ended);
    const receive = (message: Message | Ack, buffers: readonly DataView[]) => {
      this.state.heardMs.value = Date.now();
      if (message.kind === "ack") this.connection.acknowledge(message);
      else this.state.receive(message, buffers);
      if (message.kind === "notice") notify(model, message.text);
      if (message.kind === "answered") notify(model, news(message));
      if (message.kind === "asked") {
        this.#review = reviewCaption(message);
        notify(model, news(message), this.#review, this.root());
      }
    };
    model.on("msg:custom", receive);
    ended.addEventListener("abort", () => model.off("msg:custom", receive));
    document.addEventListener("click", (event) => this.#clicked(event), { capture: true, signal: ended });
  }

  /** The first view of this panel that the document has. */
  root(): HTMLElement | null {
    return document.querySelector(`.duetlink-panel[data-key="${CSS.escape(this.key)}"]`);
  }

  /** Notifications are JupyterLab's, and their buttons tell nobody here: one is known by its caption. */
  #clicked({ target }: MouseEvent): void {
    const button = target instanceof Element ? target.closest<HTMLElement>("button[title]") : null;
    if (this.#review && button?.title === this.#review) this.reviews.value += 1;
  }
}
