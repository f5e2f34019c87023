import type { DecisionRow } from "./contract";
import type { Cell } from "./history";

/** The codecs of both sides over time, as lines over `names`. */
export interface Steps {
  names: string[];
  here: Cell[];
  peer: Cell[];
  /** Places at which a tuner decided. */
  hereMarks: number[];
  peerMarks: number[];
}

/** For each of `times` (Unix seconds, one apart) the codec of the latest decision until then. */
export function steps(times: readonly number[], decisions: readonly DecisionRow[]): Steps {
  const names: string[] = [];
  const line = (side: DecisionRow["side"]): [Cell[], number[]] => {
    const rows = decisions.filter((row) => row.side === side);
    const marks = new Set<number>();
    let next = 0;
    const values = times.map((time, place) => {
      while (next < rows.length && rows[next]!.when_s < time + 1) {
        if (rows[next]!.when_s >= time) marks.add(place);
        next++;
      }
      const row = rows[next - 1];
      return row ? nameIndex(names, codecOf(row)) : null;
    });
    return [values, [...marks]];
  };
  const [here, hereMarks] = line("here");
  const [peer, peerMarks] = line("peer");
  return { names, here, peer, hereMarks, peerMarks };
}

export function codecOf(row: DecisionRow): string {
  return row.codec === "raw" ? "raw" : `${row.codec} ${row.level}`;
}

function nameIndex(names: string[], name: string): number {
  const known = names.indexOf(name);
  return known >= 0 ? known : names.push(name) - 1;
}
