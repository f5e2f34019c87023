/** What this panel uses of an anywidget model: https://anywidget.dev/en/afm. It only reads traits and sends
 * messages; Python is the only writer of traits, so `set` and `save_changes` are left out on purpose. */
export interface Model {
  get(trait: string): unknown;
  on(event: string, listener: (...args: never[]) => void): void;
  off(event: string, listener: (...args: never[]) => void): void;
  send(content: object): void;
  /** Whatever the host has; JupyterLab's knows how to mark elements as trusted. */
  widget_manager?: unknown;
}

export interface InitializeContext {
  model: Model;
  signal: AbortSignal;
}

export interface RenderContext extends InitializeContext {
  el: HTMLElement;
}
