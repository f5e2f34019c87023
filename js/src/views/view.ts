import type { Signal } from "@preact/signals";
import { createContext } from "preact";
import { useContext } from "preact/hooks";
import type { Panel } from "../panel";
import type { Tab } from "../state";

/** One place on a page where a panel is shown. */
export interface View {
  panel: Panel;
  root: HTMLElement;
  /** Names of elements begin with it: a page may have several views, of several panels. */
  id: string;
  tab: Signal<Tab>;
  /** Whether it is on the screen; what is not is not drawn. */
  shown: Signal<boolean>;
  /** Changes with the host's colours. */
  theme: Signal<number>;
}

export const ViewContext = createContext<View | null>(null);

export function useView(): View {
  return useContext(ViewContext)!;
}

/** Goes to a tab, which a further view will open with as well. */
export function choose({ panel, tab }: View, chosen: Tab): void {
  panel.state.tab = chosen;
  tab.value = chosen;
}
