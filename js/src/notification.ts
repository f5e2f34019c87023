import type { Model } from "./afm";
import type { Answered, Asked } from "./contract";
import { visible } from "./foreign";

interface TrustHandler {
  markTrusted(element: Element): void;
}

interface JupyterLabManager {
  rendermime?: { trustHandler?: TrustHandler };
}

/** Who, what and why; JupyterLab shows 140 characters. */
export function news(message: Asked | Answered): string {
  const verb = message.kind === "answered" ? message.answer : message.run ? "asks to run" : "asks for";
  const reason = message.why && `: “${visible(message.why, 60)}”`;
  return `${visible(message.who, 30)} ${verb} ${visible(message.what, 40)}${reason}`;
}

/** Tells `text` by JupyterLab's own notification; elsewhere nothing happens.
 *
 * A front end without an extension of its own reaches JupyterLab's commands through its command linker: a
 * click on an element that names one. From 4.6 on the linker asks the person first where the element is not
 * trusted, so it is marked as a renderer marks what it made. `text` is shown as text.
 */
export function notify(model: Model, text: string): void {
  const rendermime = (model.widget_manager as JupyterLabManager | undefined)?.rendermime;
  if (!rendermime) return;
  const link = document.createElement("span");
  link.hidden = true;
  link.dataset.commandlinkerCommand = "apputils:notify";
  link.dataset.commandlinkerArgs = JSON.stringify({
    message: text,
    type: "info",
    options: { autoClose: 8000 },
  });
  rendermime.trustHandler?.markTrusted(link);
  document.body.append(link);
  link.click();
  link.remove();
}
