// What a host gives to a widget of anywidget's, without a kernel: the test writes traits and messages, and reads
// what the panel has sent.
export class FakeModel {
  sent = [];
  notified = [];
  #traits;
  #listeners = {};

  constructor(traits) {
    this.#traits = traits;
    // as in JupyterLab, whose command linker asks the person where an element is not trusted
    const trusted = new WeakSet();
    this.widget_manager = { rendermime: { trustHandler: { markTrusted: (element) => trusted.add(element) } } };
    document.body.addEventListener("click", ({ target }) => {
      const { commandlinkerCommand: command, commandlinkerArgs: args } = target.dataset;
      if (command) this.notified.push({ command, args: JSON.parse(args), trusted: trusted.has(target) });
    });
  }

  get(name) {
    return this.#traits[name];
  }
  on(event, listener) {
    (this.#listeners[event] ??= new Set()).add(listener);
  }
  off(event, listener) {
    this.#listeners[event]?.delete(listener);
  }
  send(content) {
    this.sent.push(content);
  }
  set() {
    throw new Error("the panel has set a trait, which only Python may");
  }
  save_changes() {
    this.set();
  }

  change(name, value) {
    this.#traits[name] = value;
    this.#call(`change:${name}`);
  }
  receive(message, floats) {
    // not at the beginning of its memory, as ipywidgets has it
    const buffers = floats ? [new DataView(new Float32Array([0, ...floats]).buffer, 4)] : [];
    this.#call("msg:custom", message, buffers);
  }
  #call(event, ...args) {
    for (const listener of this.#listeners[event] ?? []) listener(...args);
  }
}

let model, widget;
const ended = new AbortController();

window.begin = async (traits) => {
  const { default: make } = await import("/panel.js");
  widget = await make();
  model = window.model = new FakeModel(traits);
  await widget.initialize({ model, signal: ended.signal });
};

/** A further view; hosts attach its element after they have asked for its content. */
window.view = async (id, width) => {
  const el = document.createElement("div");
  el.id = id;
  if (width) el.style.width = `${width}px`;
  const closed = new AbortController();
  // each view gets a model object of its own, as from anywidget
  const own = Object.create(model);
  await widget.render({ model: own, el, signal: AbortSignal.any([ended.signal, closed.signal]) });
  document.querySelector("main").append(el);
  el.close = () => {
    closed.abort();
    el.remove();
  };
};
