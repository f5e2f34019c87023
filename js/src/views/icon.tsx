// Drawn, since the glyphs of fonts differ in size and some turn into coloured pictures.
const SHAPES = {
  connected: "M8 3a5 5 0 1 1 0 10a5 5 0 0 1 0-10z",
  waiting: "M8 3a5 5 0 1 1 0 10a5 5 0 0 1 0-10zm0 2a3 3 0 1 0 0 6a3 3 0 0 0 0-6z",
  pairing: "M8 3a5 5 0 1 1 0 10zm0 0a5 5 0 1 0 0 10v-2a3 3 0 1 1 0-6z",
  reconnecting: "M8 2.5l6 11h-12zm-.8 4v4h1.6v-4zm0 5v1.2h1.6v-1.2z",
  closed: "M4 4h8v8h-8z",
  in: "M7 2h2v7h3l-4 5l-4-5h3z",
  out: "M7 14h2v-7h3l-4-5l-4 5h3z",
  pause: "M4 3h3v10h-3zm5 0h3v10h-3z",
  play: "M5 3l8 5l-8 5z",
  request: "M2 3h12v8h-5l-3 3v-3h-4zm5.2 1.5v3.5h1.6v-3.5zm0 4.2v1.3h1.6v-1.3z",
} as const;

export type Shape = keyof typeof SHAPES;

/** Says nothing to a screen reader: the word stands beside it. */
export function Icon({ shape }: { shape: Shape }) {
  return (
    <svg class="icon" data-shape={shape} viewBox="0 0 16 16" width="16" height="16" aria-hidden="true">
      <path fill-rule="evenodd" d={SHAPES[shape]} />
    </svg>
  );
}
