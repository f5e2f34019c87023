import type { Model } from "./afm";
import { AuditLog } from "./audit";
import { Connection } from "./connection";
import type { Ack } from "./contract";
import { notify } from "./notification";
import { Pulse } from "./pulse";
import { type Message, PanelState } from "./state";

/** The panel of one model; any number of views show it. */
export class Panel {
  readonly state = new PanelState();
  readonly connection: Connection;
  readonly pulse: Pulse;
  readonly audit: AuditLog;

  constructor(model: Model, ended: AbortSignal) {
    this.connection = new Connection(model);
    this.pulse = new Pulse(this.state, this.connection, ended);
    this.audit = new AuditLog(this.state, this.connection, this.pulse.now, ended);
    this.state.follow(model, ended);
    const receive = (message: Message | Ack, buffers: readonly DataView[]) => {
      if (message.kind === "ack") this.connection.acknowledge(message);
      else this.state.receive(message, buffers);
      if (message.kind === "notice") notify(model, message.text);
    };
    model.on("msg:custom", receive);
    ended.addEventListener("abort", () => model.off("msg:custom", receive));
  }
}
