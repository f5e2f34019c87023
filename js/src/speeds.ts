import type { Running } from "./contract";

export interface Sample {
  atS: number;
  doneBytes: number;
}

/** One running transfer, as the latest tick has it. */
export interface Course extends Running {
  bytesPerS: number | null;
  /** Its speed, at most one value per second, oldest first: the spark line. */
  speeds: readonly number[];
  samples: readonly Sample[];
}

const WINDOW_S = 2;
const SPARKS = 40;

/** The courses after a tick. Speeds are over the last two seconds of the transfer's own clock, which stands
 * still while nothing runs; those that run no more are left out. */
export function advanced(
  before: ReadonlyMap<number, Course>,
  running: readonly Running[],
): ReadonlyMap<number, Course> {
  return new Map(running.map((now) => [now.number, course(before.get(now.number), now)]));
}

function course(before: Course | undefined, now: Running): Course {
  const known = before && before.done_bytes <= now.done_bytes ? before.samples : [];
  const samples = [
    ...known.filter(({ atS }) => atS > now.duration_s - WINDOW_S),
    { atS: now.duration_s, doneBytes: now.done_bytes },
  ];
  const first = samples[0]!;
  const elapsedS = now.duration_s - first.atS;
  const bytesPerS =
    elapsedS > 0 ? (now.done_bytes - first.doneBytes) / elapsedS : (before?.bytesPerS ?? null);
  const speeds = before?.speeds ?? [];
  const nextSecond = Math.floor(now.duration_s) > Math.floor(before?.duration_s ?? 0);
  return {
    ...now,
    bytesPerS,
    samples,
    speeds: nextSecond && bytesPerS !== null ? [...speeds, bytesPerS].slice(-SPARKS) : speeds,
  };
}
