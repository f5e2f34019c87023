import { useComputed, useSignal } from "@preact/signals";
import { clock, latency, megabytes, size, thousands } from "../format";
import { type Cell, held } from "../history";
import { axis, type Plot } from "../plot";
import { steps } from "../steps";
import { codecSummary, trafficSummary, waitingSummary } from "../summary";
import { Chart } from "./chart";
import { useView } from "./view";

const SUMMARY_EVERY_MS = 10_000;
/** A round trip is measured every few seconds; after so many without one the link is silent. */
const ROUND_TRIP_HOLDS_S = 10;

type Paint = (name: string) => string;

/** Three charts over one time: what moved, what waited, and what the tuners chose. */
export function Charts({ minutes }: { minutes: number }) {
  const { state, pulse } = useView().panel;
  const cursor = useSignal<number | null>(null);
  const stretch = useComputed(() => {
    state.historyEnd.value;
    const now = state.history.stretch(60 * minutes);
    return { ...now, round_trip_s: held(now.round_trip_s, ROUND_TRIP_HOLDS_S) };
  });
  const times = useComputed(() => stretch.value.second.map((second) => state.history.epochS + second!));
  const plan = useComputed(() => steps(times.value, state.decisions.value));
  const seldom = useComputed(() => Math.floor(pulse.now.value / SUMMARY_EVERY_MS));
  const summaries = useComputed(() => {
    // a screen reader may say it each time that it changes
    seldom.value;
    const now = stretch.peek();
    return [trafficSummary(now, minutes), waitingSummary(now), codecSummary(plan.peek())] as const;
  });

  const shared = (): Pick<Plot, "times" | "seconds"> => ({ times: times.value, seconds: minutes === 1 });
  const traffic = (paint: Paint): Plot => {
    const { sent, sent_wire, received, received_wire } = stretch.value;
    const all = [...sent, ...sent_wire, ...received, ...received_wire];
    const left = axis(all, 1e6, "many", (bytes) => thousands(bytes / 1e6));
    const [out, back] = [paint("--dl-sent"), paint("--dl-received")];
    return {
      ...shared(),
      timed: false,
      left,
      lines: [
        { cells: sent, colour: out, axis: left, shadedTo: sent_wire },
        { cells: sent_wire, colour: out, axis: left, dashed: true },
        { cells: received, colour: back, axis: left, shadedTo: received_wire },
        { cells: received_wire, colour: back, axis: left, dashed: true },
      ],
    };
  };
  const waiting = (paint: Paint): Plot => {
    const { round_trip_s, queued_bytes } = stretch.value;
    const left = axis(round_trip_s, 0.001, "few", latency);
    const right = axis(queued_bytes, 1e6, "few", size);
    return {
      ...shared(),
      timed: false,
      left,
      right,
      lines: [
        { cells: queued_bytes, colour: paint("--dl-received"), axis: right, dashed: true, shadedTo: "zero" },
        { cells: round_trip_s, colour: paint("--dl-third"), axis: left },
      ],
    };
  };
  const codecs = (paint: Paint): Plot => {
    const { names, here, peer, hereMarks, peerMarks } = plan.value;
    const left = {
      least: -0.5,
      most: Math.max(names.length, 2) - 0.5,
      ticks: names.map((_, index) => index),
      words: (index: number) => names[index]!,
    };
    return {
      ...shared(),
      timed: true,
      left,
      lines: [
        { cells: here, colour: paint("--dl-sent"), axis: left, stepped: true, marks: hereMarks },
        {
          cells: peer,
          colour: paint("--dl-received"),
          axis: left,
          stepped: true,
          dashed: true,
          marks: peerMarks,
        },
      ],
    };
  };

  const at = (cells: readonly Cell[]) => cells.at(cursor.value ?? -1) ?? null;
  const { sent, sent_wire, received, received_wire, round_trip_s, queued_bytes } = stretch.value;
  const codecAt = (cells: readonly Cell[]) => plan.value.names[at(cells) ?? -1] ?? "–";
  const queued = at(queued_bytes);
  return (
    <div class="plots" data-stale={pulse.silentSince.value !== null}>
      <Chart height={160} summary={summaries.value[0]} plot={traffic} cursor={cursor}>
        <Key sample="sent" name="sent" value={megabytes(at(sent))} />
        <Key sample="sent wire" name="on the wire" value={megabytes(at(sent_wire))} />
        <Key sample="received" name="received" value={megabytes(at(received))} />
        <Key sample="received wire" name="on the wire" value={megabytes(at(received_wire))} />
        <span class="dim">MB/s {cursor.value === null ? "" : `at ${clock(at(times.value)!)}`}</span>
      </Chart>
      <Chart height={72} summary={summaries.value[1]} plot={waiting} cursor={cursor}>
        <Key sample="third" name="round trip" value={latency(at(round_trip_s))} />
        <Key sample="received wire" name="waits to be sent" value={queued === null ? "–" : size(queued)} />
      </Chart>
      <Chart height={92} summary={summaries.value[2]} plot={codecs} cursor={cursor}>
        <Key sample="sent" name="codec out" value={codecAt(plan.value.here)} />
        <Key sample="received wire" name="codec in" value={codecAt(plan.value.peer)} />
      </Chart>
    </div>
  );
}

function Key({ sample, name, value }: { sample: string; name: string; value: string }) {
  return (
    <span class="key">
      <i class={`sample ${sample}`} />
      {name} <b>{value}</b>
    </span>
  );
}
