import { effect, signal } from "@preact/signals";
import { render } from "preact";
import type { Panel } from "../panel";
import css from "../panel.css";
import { isDark, onThemeChange } from "../theme";
import { Alert } from "./alert";
import { Group } from "./group";
import { Header } from "./header";
import { Outage } from "./outage";
import { focusFirstRequest } from "./requests";
import { Tabs } from "./tabs";
import { choose, type View, ViewContext } from "./view";

let views = 0;

/** Shows `panel` in `el` until `ended`. */
export function show(panel: Panel, el: HTMLElement, ended: AbortSignal): void {
  const root = document.createElement("section");
  root.className = "duetlink-panel";
  root.setAttribute("aria-label", panel.isGroup ? "Group" : "Duet");
  // JupyterLab would take the letters typed here for its own: `d d` on a button deletes the cell. It looks for
  // this mark from what has the focus upwards, but not before it has compared that with its own selectors
  root.addEventListener("focusin", (event) => {
    (event.target as HTMLElement).dataset.lmSuppressShortcuts = "true";
  });
  root.dataset.key = panel.key;
  root.tabIndex = -1;
  el.append(root);

  const view: View = {
    panel,
    root,
    id: `duetlink-${panel.connection.page}-${++views}`,
    tab: signal(panel.state.tab),
    shown: signal(false),
    theme: signal(0),
  };
  const settleTheme = () => {
    root.dataset.theme = isDark(root) ? "dark" : "light";
    view.theme.value++;
  };
  onThemeChange(settleTheme, ended);
  panel.pulse.watch(root, ended, (shown) => {
    // only what is in the document has colours
    if (shown) settleTheme();
    view.shown.value = shown;
  });
  const stopGone = effect(() => {
    root.dataset.gone = String(panel.pulse.gone.value);
    // what had the focus goes; on the notebook itself, letters would edit it
    if (panel.pulse.gone.value && root.contains(document.activeElement)) root.focus();
  });
  let reviewed = panel.reviews.peek();
  const stopReviews = effect(() => {
    const reviews = panel.reviews.value;
    if (reviews === reviewed || panel.root() !== root) return;
    choose(view, "requests");
    root.scrollIntoView({ block: "nearest" });
    // a notebook behind another one is brought to the front first
    if (!view.shown.value) return;
    reviewed = reviews;
    focusFirstRequest(view);
  });
  render(
    <ViewContext.Provider value={view}>
      <style>{css}</style>
      {panel.isGroup ? (
        <Group />
      ) : (
        <>
          <Header />
          <Outage />
          <Alert />
          <Tabs />
        </>
      )}
    </ViewContext.Provider>,
    root,
  );
  ended.addEventListener("abort", () => {
    stopGone();
    stopReviews();
    render(null, root);
    root.remove();
  });
}
