import type { Model } from "./afm";
import type { Answered, Asked } from "./contract";
import { visible } from "./foreign";

interface TrustHandler {
  markTrusted(element: Element): void;
}

interface JupyterLabManager {
  rendermime?: { trustHandler?: TrustHandler };
  /** Of the notebook that the widgets are in. */
  context?: { path: string; model?: { cells?: { get(index: number): { id: string } | undefined } } };
}

/** Who, what and why; JupyterLab shows 140 characters. */
export function news(message: Asked | Answered): string {
  const verb = message.kind === "answered" ? message.answer : message.run ? "asks to run" : "asks for";
  const reason = message.why && `: “${visible(message.why, 60)}”`;
  return `${visible(message.who, 30)} ${verb} ${visible(message.what, 40)}${reason}`;
}

/** What the button Review says of itself, and is known by. */
export function reviewCaption(message: Asked): string {
  return `Show what ${visible(message.who, 30)} asks for in the panel`;
}

/** Tells `text` by JupyterLab's own notification; elsewhere nothing happens.
 *
 * A front end without an extension of its own reaches JupyterLab's commands through its command linker: a
 * click on an element that names one. From 4.6 on the linker asks the person first where the element is not
 * trusted, so it is marked as a renderer marks what it made. `text` is shown as text.
 *
 * With a `review` the notification has a button of that caption, which brings the notebook to the front, at
 * the cell whose output holds `root`.
 */
export function notify(model: Model, text: string, review = "", root: Element | null = null): void {
  const manager = model.widget_manager as JupyterLabManager | undefined;
  const rendermime = manager?.rendermime;
  if (!rendermime) return;
  const link = document.createElement("span");
  link.hidden = true;
  link.dataset.commandlinkerCommand = "apputils:notify";
  const action = {
    label: "Review",
    caption: review,
    commandId: "rendermime:handle-local-link",
    args: place(manager, root),
  };
  link.dataset.commandlinkerArgs = JSON.stringify({
    message: text,
    type: "info",
    options: { autoClose: 8000, ...(review && { actions: [action] }) },
  });
  rendermime.trustHandler?.markTrusted(link);
  document.body.append(link);
  link.click();
  link.remove();
}

/** Where JupyterLab finds `root`: what it opens a link with. */
function place({ context }: JupyterLabManager, root: Element | null): { path?: string; id?: string } {
  if (!context) return {};
  const index = root?.closest<HTMLElement>("[data-windowed-list-index]")?.dataset.windowedListIndex;
  const cell = index === undefined ? undefined : context.model?.cells?.get(Number(index));
  return { path: context.path, ...(cell && { id: `#cell-id=${cell.id}` }) };
}
