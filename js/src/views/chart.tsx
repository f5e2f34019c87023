import { type ReadonlySignal, type Signal, useComputed, useSignal, useSignalEffect } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { clock } from "../format";
import { draw, frameOf, type Plot, placeAt, xOf } from "../plot";
import { colour } from "../theme";
import { useView } from "./view";

interface ChartProps {
  height: number;
  summary: string;
  /** Given the way to a colour of the panel's by its name. */
  plot: (paint: (name: string) => string) => Plot;
  /** The place that the pointer is over, of all charts together. */
  cursor: Signal<number | null>;
  children: ComponentChildren;
}

/** One canvas: drawn anew when its data, width or colours change, while it is on the screen. */
export function Chart({ height, summary, plot, cursor, children }: ChartProps) {
  const view = useView();
  const canvas = useRef<HTMLCanvasElement>(null);
  const width = useSignal(0);
  const now = useComputed(() => {
    view.theme.value;
    return plot((name) => (canvas.current ? colour(canvas.current, name) : ""));
  });

  useEffect(() => {
    const element = canvas.current!;
    const observer = new ResizeObserver(() => (width.value = element.clientWidth));
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  useSignalEffect(() => {
    if (!view.shown.value || !width.value) return;
    view.theme.value;
    const element = canvas.current!;
    const drawn = now.value;
    // setting a size clears the canvas, so only where it is another
    const [across, down] = [width.value, height].map((length) => Math.round(length * devicePixelRatio));
    if (element.width !== across || element.height !== down)
      [element.width, element.height] = [across!, down!];
    const context = element.getContext("2d")!;
    context.setTransform(devicePixelRatio, 0, 0, devicePixelRatio, 0, 0);
    const ink = {
      text: colour(element, "--dl-text-dim"),
      font: `11px ${getComputedStyle(element).fontFamily}`,
    };
    draw(context, width.value, height, drawn, ink, (time) => clock(time).slice(0, drawn.seconds ? 8 : 5));
  });

  const point = (event: PointerEvent) => {
    const { timed, times } = now.value;
    cursor.value = placeAt(event.offsetX, frameOf(width.value, height, timed), times.length);
  };
  return (
    <figure class="chart">
      <figcaption>{children}</figcaption>
      <div class="drawing" onPointerMove={point} onPointerLeave={() => (cursor.value = null)}>
        <canvas ref={canvas} role="img" aria-label={summary} style={{ height: `${height}px` }} />
        <Cursor now={now} cursor={cursor} width={width} height={height} />
      </div>
    </figure>
  );
}

interface CursorProps {
  now: ReadonlySignal<Plot>;
  cursor: ReadonlySignal<number | null>;
  width: ReadonlySignal<number>;
  height: number;
}

/** Above the canvas, which need not be drawn again for it. */
function Cursor({ now, cursor, width, height }: CursorProps) {
  if (cursor.value === null) return null;
  const { timed, times } = now.value;
  const frame = frameOf(width.value, height, timed);
  const left = xOf(cursor.value, frame, times.length);
  return (
    <i class="cursor" style={{ left: `${left}px`, top: `${frame.top}px`, height: `${frame.height}px` }} />
  );
}
