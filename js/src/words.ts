import type { CodecChoice, GroupGoneRow, LinkState, PathRow } from "./contract";

// The words that people see for what the contract names. One place, so that no view has its own.

export const PATH_MEANINGS: Record<string, string> = {
  local: "both on one machine, through shared memory",
  tcp: "straight to the peer's address, by TCP",
  punched: "through both routers, by TCP that both sides open at once",
  udp: "through both routers, by UDP",
  relay: "through a relay server; it sees only encrypted bytes",
  channel: "through the control connection: the last resort",
};

export const LINK_STATES: Record<LinkState["state"], string> = {
  waiting: "Waiting for the peer",
  pairing: "Pairing",
  connected: "Connected",
  reconnecting: "Reconnecting",
  closed: "Closed",
};

export const PATH_STATES: Record<PathRow["state"], string> = {
  up: "open",
  opening: "opening",
  down: "down",
  idle: "not needed",
  unknown: "not known now",
};

/** What a codec can be chosen for. */
export const ROLE_MEANINGS: Record<CodecChoice["roles"][number], string> = {
  bytes: "texts, tables of Arrow and Polars, and all else that is no array of numbers",
  tensor: "arrays of numbers",
  gradient: 'what its sender has marked with lossy="gradient"',
};

/** What follows the name of a member. */
export const DEPARTURES: Record<GroupGoneRow["how"], string> = {
  left: "left",
  "notebook closed": "closed its notebook",
  silent: "fell silent",
  "put out": "broke the protocol and was put out",
  "lost by others": "was lost by others",
};
