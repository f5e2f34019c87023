// A text that others wrote may hold characters that hide or reorder its neighbours: line breaks, zero-width
// and direction characters, lone surrogates. They are shown as Python shows them, so that the panel and the
// tables of `duet` say the same.

const HIDDEN = /[\p{C}\p{Z}]/gu;
/** So many marks over one letter grow out of its line. */
const PILE = /(\p{M}{4})\p{M}+/gu;
const NAMED: Record<string, string> = { "\n": "\\n", "\r": "\\r", "\t": "\\t" };

export const SHORT = 120;
export const LONG = 4000;

/** `text` on one line, of at most `limit` characters, with what could hide made visible. */
export function visible(text: string, limit = SHORT): string {
  return capped(text, limit, (character) => (character === " " ? " " : escaped(character)));
}

/** The same, with line breaks and tabs left as they are. */
export function visibleLines(text: string, limit = LONG): string {
  return capped(text, limit, (character) => (/[ \n\t]/.test(character) ? character : escaped(character)));
}

function capped(text: string, limit: number, show: (character: string) => string): string {
  // first by code units, which is cheap: the text may have megabytes
  const characters = Array.from(text.slice(0, 2 * (limit + 1)));
  const shown = characters.slice(0, limit).join("").replace(PILE, "$1…").replace(HIDDEN, show);
  return characters.length > limit ? `${shown}…` : shown;
}

function escaped(character: string): string {
  const code = character.codePointAt(0) ?? 0;
  const hex = (digits: number) => code.toString(16).padStart(digits, "0");
  return (
    NAMED[character] ?? (code < 0x100 ? `\\x${hex(2)}` : code < 0x10000 ? `\\u${hex(4)}` : `\\U${hex(8)}`)
  );
}
