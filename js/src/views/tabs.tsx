import type { JSX } from "preact";
import { useRef } from "preact/hooks";
import { thousands } from "../format";
import type { Tab } from "../state";
import { AuditTab } from "./audit";
import { LinkTab } from "./link";
import { RequestsTab } from "./requests";
import { SharedTab } from "./shared";
import { ThroughputTab } from "./throughput";
import { TransfersTab } from "./transfers";
import { choose, useView } from "./view";

const TABS: { name: Tab; title: string; content: () => JSX.Element }[] = [
  { name: "link", title: "Link", content: LinkTab },
  { name: "throughput", title: "Throughput", content: ThroughputTab },
  { name: "shared", title: "Shared", content: SharedTab },
  { name: "requests", title: "Requests", content: RequestsTab },
  { name: "transfers", title: "Transfers", content: TransfersTab },
  { name: "audit", title: "Audit", content: AuditTab },
];

/** Arrows move the focus, Enter opens: https://www.w3.org/WAI/ARIA/apg/patterns/tabs/examples/tabs-manual. */
export function Tabs() {
  const view = useView();
  const { state } = view.panel;
  const buttons = useRef<HTMLDivElement>(null);
  const counts: Partial<Record<Tab, number>> = {
    requests: state.requests.value.pending,
    transfers: state.transfers.value.running,
  };
  const current = TABS.find(({ name }) => name === view.tab.value)!;
  const move = (event: KeyboardEvent) => {
    const all = [...buttons.current!.querySelectorAll<HTMLElement>("[role=tab]")];
    const at = all.indexOf(event.target as HTMLElement);
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: -1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    all.at(to % all.length)!.focus();
  };
  return (
    <>
      <div class="tabs" role="tablist" aria-label="Duet" ref={buttons} onKeyDown={move}>
        {TABS.map(({ name, title }) => {
          const selected = name === current.name;
          return (
            <button
              key={name}
              type="button"
              role="tab"
              id={`${view.id}-tab-${name}`}
              aria-selected={selected}
              aria-controls={selected ? `${view.id}-content` : undefined}
              tabIndex={selected ? 0 : -1}
              onClick={() => choose(view, name)}
            >
              {title}
              {counts[name] ? <span class="count">{thousands(counts[name]!)}</span> : null}
            </button>
          );
        })}
      </div>
      <div
        class="content"
        role="tabpanel"
        id={`${view.id}-content`}
        aria-labelledby={`${view.id}-tab-${current.name}`}
        tabIndex={0}
        inert={view.panel.pulse.gone.value}
      >
        <current.content key={current.name} />
      </div>
    </>
  );
}
