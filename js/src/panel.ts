import type { Model } from "./afm";
import { AuditLog } from "./audit";
import { Connection } from "./connection";
import type { Ack } from "./contract";
import { news, notify } from "./notification";
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
      if (message.kind === "asked" || message.kind === "answered") notify(model, news(message));
    };
    model.on("msg:custom", receive);
    ended.addEventListener("abort", () => model.off("msg:custom", receive));
  }
}
