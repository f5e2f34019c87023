import { latency, megabytes } from "./format";
import type { Cell, Stretch } from "./history";
import type { Steps } from "./steps";

// What the charts show, for those who do not see them.

export function trafficSummary(stretch: Stretch, minutes: number): string {
  return [
    `Payload and wire speed of the last ${minutes === 1 ? "minute" : `${minutes} minutes`}.`,
    wayWords("Sending", stretch.sent, stretch.sent_wire),
    wayWords("Receiving", stretch.received, stretch.received_wire),
  ].join(" ");
}

export function waitingSummary(stretch: Stretch): string {
  const known = stretch.round_trip_s.filter((cell) => cell !== null);
  if (!known.length) return "Round trip: not measured yet.";
  const [least, most] = [Math.min(...known), Math.max(...known)];
  return `Round trip ${latency(known.at(-1))} now, from ${latency(least)} to ${latency(most)}.`;
}

export function codecSummary({ names, here, peer, hereMarks, peerMarks }: Steps): string {
  const now = (cells: readonly Cell[]) => names[cells.at(-1) ?? -1] ?? "none yet";
  const changes = hereMarks.length + peerMarks.length;
  return `Codec of what is sent: ${now(here)}; of what is received: ${now(peer)}. Decisions: ${changes}.`;
}

function wayWords(way: string, payload: readonly Cell[], wire: readonly Cell[]): string {
  const [now, onWire] = [megabytes(payload.at(-1)), megabytes(wire.at(-1))];
  const most = megabytes(Math.max(0, ...payload.map((cell) => cell ?? 0)));
  return `${way} ${now} megabytes per second now, ${onWire} on the wire, at most ${most}.`;
}
