const UNKNOWN = "–";

/** Bytes in decimal units, three digits, as Python's tables have them: 1.07 GB. */
export function size(bytes: number): string {
  for (const unit of ["B", "kB", "MB", "GB"]) {
    if (bytes < 999.5) return `${unit === "B" ? Math.round(bytes) : Number(threeDigits(bytes))} ${unit}`;
    bytes /= 1000;
  }
  return `${bytes < 999.5 ? Number(threeDigits(bytes)) : thousands(Math.round(bytes))} TB`;
}

/** Always MB/s, for tables and charts whose heads say so: two speeds compare at a glance. */
export function megabytes(bytesPerSecond: number | null | undefined): string {
  return known(bytesPerSecond) ? threeDigits(bytesPerSecond / 1e6) : UNKNOWN;
}

/** A speed with its unit: MB/s, also below one, so that the unit seldom jumps; 103 GB/s within one machine. */
export function speed(bytesPerSecond: number | null | undefined): string {
  if (!known(bytesPerSecond)) return UNKNOWN;
  for (const [unit, bytes] of [
    ["MB", 1e6],
    ["GB", 1e9],
  ] as const) {
    if (bytesPerSecond < 999.5 * bytes) return `${threeDigits(bytesPerSecond / bytes)} ${unit}/s`;
  }
  return `${threeDigits(bytesPerSecond / 1e12)} TB/s`;
}

/** A latency: 0.4 ms, 38 ms, 1.20 s. */
export function latency(seconds: number | null | undefined): string {
  if (!known(seconds)) return UNKNOWN;
  if (seconds === 0) return "0 ms";
  if (seconds >= 0.9995) return `${threeDigits(seconds)} s`;
  return seconds < 0.00995 ? `${(seconds * 1e3).toFixed(1)} ms` : `${Math.round(seconds * 1e3)} ms`;
}

/** A stretch of time: 20 ms, 8 s, 4:05, 1:02:03. */
export function duration(seconds: number): string {
  if (seconds > 0 && seconds < 1) return latency(seconds);
  const whole = Math.max(0, Math.floor(seconds));
  const [hours, minutes, rest] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60];
  if (hours) return `${hours}:${two(minutes)}:${two(rest)}`;
  return minutes ? `${minutes}:${two(rest)}` : `${rest} s`;
}

/** The time of day of a Unix time, always as 24 hours with leading zeros: its width never changes. */
export function clock(unixSeconds: number): string {
  const date = new Date(unixSeconds * 1000);
  return [date.getHours(), date.getMinutes(), date.getSeconds()].map(two).join(":");
}

/** The same, with the day where it is not the day of `now`. */
export function moment(unixSeconds: number, nowMs: number): string {
  const [date, today] = [new Date(unixSeconds * 1000), new Date(nowMs)];
  if (date.toDateString() === today.toDateString()) return clock(unixSeconds);
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())} ${clock(unixSeconds)}`;
}

/** When something ends: the coming midnight by name. */
export function ending(unixSeconds: number, nowMs: number): string {
  const midnight = new Date(nowMs).setHours(24, 0, 0, 0);
  return unixSeconds * 1000 === midnight ? "midnight" : moment(unixSeconds, nowMs);
}

/** How many times smaller it was on the wire: 2.1×. */
export function ratio(doneBytes: number, wireBytes: number): string {
  return doneBytes > 0 && wireBytes > 0 ? `${threeDigits(doneBytes / wireBytes)}×` : UNKNOWN;
}

/** A part of one: 0 %, 0.1 %, 5.2 %, 38 %. */
export function share(part: number): string {
  const percents = 100 * part;
  return percents === 0 || percents >= 9.95 ? `${Math.round(percents)} %` : `${percents.toFixed(1)} %`;
}

export function percent(part: number, whole: number): string {
  return whole > 0 ? `${Math.floor((100 * part) / whole)} %` : "100 %";
}

export function count(number: number, one: string, many = `${one}s`): string {
  return `${thousands(number)} ${number === 1 ? one : many}`;
}

/** A number as Python's tables have it, whatever the browser's language: 1,234. */
export function thousands(number: number): string {
  return number.toLocaleString("en-US");
}

function known(value: number | null | undefined): value is number {
  return typeof value === "number" && Number.isFinite(value);
}

function two(whole: number): string {
  return String(whole).padStart(2, "0");
}

/** At least three digits, at most two after the point: 1.23, 12.3, 123, 12,345. */
function threeDigits(value: number): string {
  return value < 999.5
    ? value.toFixed(value < 9.995 ? 2 : value < 99.95 ? 1 : 0)
    : thousands(Math.round(value));
}
