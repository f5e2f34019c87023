import type { Cell } from "./history";

// One picture of lines over time, on a canvas. A charting library would do it too, and would be two thirds of
// what every page that shows the panel, and every notebook that saves it, has to carry.

export interface Line {
  cells: readonly Cell[];
  colour: string;
  axis: Axis;
  dashed?: boolean;
  /** Holds each value until the next, and does not lean towards it. */
  stepped?: boolean;
  /** What is between this line and that one is shaded; or between it and zero. */
  shadedTo?: readonly Cell[] | "zero";
  /** Places with a mark. */
  marks?: readonly number[];
}

export interface Axis {
  least: number;
  most: number;
  ticks: readonly number[];
  words: (value: number) => string;
}

export interface Plot {
  /** Unix seconds, one apart; the place of each cell. */
  times: readonly number[];
  lines: readonly Line[];
  left: Axis;
  right?: Axis;
  /** Whether the times stand below it. */
  timed: boolean;
  /** Whether they are told to the second. */
  seconds: boolean;
}

export interface Ink {
  text: string;
  font: string;
}

/** Where the lines are, in the coordinates of the canvas. */
export interface Frame {
  left: number;
  top: number;
  width: number;
  height: number;
}

const EDGE = { side: 56, top: 7, bottom: 5, times: 18 };
/** Between an axis and its words. */
const GAP = 4;
const TIME_STEPS_S = [5, 10, 15, 30, 60, 120, 300];
const TIME_SPACE = 64;
const MARK = 3.5;
/** In every theme there, and never as strong as what is drawn over it. */
const GRID_ALPHA = 0.16;

/** All plots of one width have one frame, so that their times are below each other. */
export function frameOf(width: number, height: number, timed: boolean): Frame {
  const below = timed ? EDGE.times : EDGE.bottom;
  return {
    left: EDGE.side,
    top: EDGE.top,
    width: Math.max(1, width - 2 * EDGE.side),
    height: height - EDGE.top - below,
  };
}

/** The place whose time is nearest to `x`, of `count` places. */
export function placeAt(x: number, frame: Frame, count: number): number {
  const place = Math.round(((x - frame.left) / frame.width) * (count - 1));
  return Math.min(Math.max(place, 0), count - 1);
}

/** Where that place is. */
export function xOf(place: number, frame: Frame, count: number): number {
  return frame.left + (place / Math.max(1, count - 1)) * frame.width;
}

/** An axis from zero to the next round number, so that it seldom changes; `least` is where noise begins. */
export function axis(
  cells: readonly Cell[],
  least: number,
  parts: "few" | "many",
  words: Axis["words"],
): Axis {
  const most = ceiling(Math.max(least, ...cells.map((cell) => cell ?? 0)));
  const count = parts === "few" ? 2 : most.toExponential()[0] === "3" ? 3 : 4;
  return {
    least: 0,
    most,
    words,
    ticks: Array.from({ length: count + 1 }, (_, tick) => (tick * most) / count),
  };
}

/** The next of 1, 2, 3, 4, 6 and 8 times a power of ten. */
export function ceiling(value: number): number {
  if (!(value > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return ([1, 2, 3, 4, 6, 8].find((digit) => digit * power >= value) ?? 10) * power;
}

/** Round times within [first, last], far enough apart for their words; whole minutes where no seconds are told. */
export function timeTicks(first: number, last: number, width: number, seconds: boolean): number[] {
  const most = Math.max(1, Math.floor(width / TIME_SPACE));
  const steps = TIME_STEPS_S.filter((step) => seconds || step >= 60);
  const step = steps.find((step) => (last - first) / step <= most) ?? steps.at(-1)!;
  const ticks = [];
  for (let tick = Math.ceil(first / step) * step; tick <= last; tick += step) ticks.push(tick);
  return ticks;
}

export function draw(
  to: CanvasRenderingContext2D,
  width: number,
  height: number,
  plot: Plot,
  ink: Ink,
  clock: (time: number) => string,
): void {
  const frame = frameOf(width, height, plot.timed);
  const { times } = plot;
  const x = (place: number) => xOf(place, frame, times.length);
  to.clearRect(0, 0, width, height);
  to.font = ink.font;
  to.fillStyle = ink.text;
  to.strokeStyle = ink.text;
  to.lineWidth = 1;
  to.setLineDash([]);
  to.textBaseline = "middle";

  for (const [scale, align, at] of [
    [plot.left, "right", frame.left - GAP],
    [plot.right, "left", frame.left + frame.width + GAP],
  ] as const) {
    if (!scale) continue;
    to.textAlign = align;
    for (const tick of scale.ticks) {
      const y = Math.round(yOf(tick, scale, frame)) + 0.5;
      to.fillText(fitted(to, scale.words(tick), EDGE.side - GAP), at, y);
      if (scale === plot.left) gridLine(to, [frame.left, y], [frame.left + frame.width, y]);
    }
  }
  to.textAlign = "center";
  for (const tick of timeTicks(times[0] ?? 0, times.at(-1) ?? 0, frame.width, plot.seconds)) {
    const at = Math.round(x(tick - times[0]!)) + 0.5;
    gridLine(to, [at, frame.top], [at, frame.top + frame.height]);
    if (plot.timed) to.fillText(clock(tick), at, frame.top + frame.height + 11);
  }
  for (const line of plot.lines) {
    const y = (value: number) => yOf(value, line.axis, frame);
    for (const [from, until] of runs(line.cells)) trace(to, line, x, y, from, until);
    to.fillStyle = line.colour;
    for (const place of line.marks ?? []) {
      const value = line.cells[place];
      if (value == null) continue;
      to.beginPath();
      to.arc(x(place), y(value), MARK, 0, 7);
      to.fill();
    }
  }
}

/** The beginning of `words`, if all of it is wider than `room`. */
export function fitted(
  to: Pick<CanvasRenderingContext2D, "measureText">,
  words: string,
  room: number,
): string {
  let shown = words;
  for (let length = words.length - 1; length > 0 && to.measureText(shown).width > room; length--)
    shown = `${words.slice(0, length)}…`;
  return shown;
}

function trace(
  to: CanvasRenderingContext2D,
  { cells, colour, dashed, stepped, shadedTo }: Line,
  x: (place: number) => number,
  y: (value: number) => number,
  from: number,
  until: number,
): void {
  const path = new Path2D();
  path.moveTo(x(from), y(cells[from]!));
  for (let place = from + 1; place < until; place++) {
    if (stepped) path.lineTo(x(place), y(cells[place - 1]!));
    path.lineTo(x(place), y(cells[place]!));
  }
  // alone between two gaps: a line of no length would not be drawn
  if (until === from + 1) path.lineTo(x(from) + 1, y(cells[from]!));
  to.strokeStyle = colour;
  to.lineWidth = 1.5;
  to.setLineDash(dashed ? [4, 3] : []);
  to.stroke(path);
  if (!shadedTo) return;
  for (let place = until - 1; place >= from; place--) {
    path.lineTo(x(place), y(shadedTo === "zero" ? 0 : (shadedTo[place] ?? cells[place]!)));
  }
  to.globalAlpha = 0.2;
  to.fillStyle = colour;
  to.fill(path);
  to.globalAlpha = 1;
}

function yOf(value: number, { least, most }: Axis, frame: Frame): number {
  return frame.top + frame.height * (1 - (value - least) / (most - least));
}

/** The stretches [from, until) without a gap. */
export function runs(cells: readonly Cell[]): [number, number][] {
  const found: [number, number][] = [];
  for (let place = 0; place < cells.length; place++) {
    if (cells[place] === null) continue;
    const last = found.at(-1);
    if (last && last[1] === place) last[1]++;
    else found.push([place, place + 1]);
  }
  return found;
}

function gridLine(
  to: CanvasRenderingContext2D,
  [fromX, fromY]: [number, number],
  [toX, toY]: [number, number],
): void {
  to.beginPath();
  to.moveTo(fromX, fromY);
  to.lineTo(toX, toY);
  to.globalAlpha = GRID_ALPHA;
  to.stroke();
  to.globalAlpha = 1;
}
