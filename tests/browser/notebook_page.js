// What NotebookPage asks of JupyterLab or Notebook 7 from within; needs their `expose_app_in_browser`.
window.notebookPage = {
  runs: [],

  panel() {
    for (const widget of window.jupyterapp?.shell?.widgets("main") ?? []) {
      if (widget.sessionContext && widget.content?.model?.cells) return widget;
    }
    return null;
  },

  kernel() {
    return this.panel()?.sessionContext.session?.kernel;
  },

  isReady() {
    const panel = this.panel();
    return Boolean(
      panel?.context.isReady &&
        panel.sessionContext.isReady &&
        this.kernel()?.connectionStatus === "connected",
    );
  },

  append(source) {
    const notebook = this.panel().content.model.sharedModel;
    const index = notebook.cells.length;
    notebook.insertCell(index, { cell_type: "code", source, metadata: { trusted: true } });
    return index;
  },

  // Begins to run a cell by the command that Ctrl-Enter stands for; returns its place in `runs`.
  begin(index) {
    const run = { ended: false, failure: null };
    const end = (failure) => Object.assign(run, { ended: true, failure });
    this.panel().content.activeCellIndex = index;
    window.jupyterapp.commands.execute("notebook:run-cell").then(
      () => end(null),
      (failure) => end(String(failure)),
    );
    return this.runs.push(run) - 1;
  },

  outputs(index) {
    return this.panel().content.widgets[index].model.outputs.toJSON();
  },
};
