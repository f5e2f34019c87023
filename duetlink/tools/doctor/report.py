"""The report: all findings and the verdict, for a terminal, a notebook, a file or another program.

The JSON (`SCHEMA`) is stable: fields and names of findings may be added, but are never changed or removed.
"""

from __future__ import annotations

import dataclasses
import io
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from duetlink.settings import PATHS
from duetlink.tools.doctor.finding import Finding
from duetlink.tools.doctor.rungs import Rung, expect_rungs

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType

SCHEMA = "duetlink-doctor/1"
TEXT_WIDTH = 100

_STYLES = {
    "ok": "green",
    "likely": "green",
    "limited": "yellow",
    "some": "yellow",
    "failed": "red",
    "unlikely": "red",
    "unknown": "bright_black",
}
_HTML = '<pre style="white-space:pre;overflow-x:auto;line-height:normal">{code}</pre>'


@dataclass(frozen=True, slots=True)
class Report:
    """The findings of `examine`. It displays itself in terminals and notebooks; programs use `to_json`."""

    findings: tuple[Finding, ...]
    took_s: float
    allowed: tuple[str, ...] = PATHS  # the paths that the settings allow

    @property
    def rungs(self) -> tuple[Rung, ...]:
        """The estimates for the paths tcp, punched, udp and relay."""
        return expect_rungs(self.findings, self.allowed)

    @property
    def reachable(self) -> bool:
        """True if peers can be reached: in other networks if servers are configured, else in this network."""
        if not self._in_a_network:
            return False
        outlook = {rung.name: rung.outlook for rung in self.rungs}
        crosses = any(outlook[name] in ("likely", "some") for name in ("punched", "udp", "relay"))
        return not self._has_servers or outlook["tcp"] == "likely" or crosses

    @property
    def _in_a_network(self) -> bool:
        return not any(one.name == "addresses" and one.outcome == "failed" for one in self.findings)

    @property
    def _has_servers(self) -> bool:
        return any(finding.name in ("stun", "turn") for finding in self.findings)

    @property
    def verdict(self) -> str:
        """The verdict in one sentence."""
        named = {
            outlook: [rung.name for rung in self.rungs if rung.outlook == outlook]
            for outlook in ("likely", "some")
        }
        if not self._in_a_network:
            return "No peer on another machine can be reached from here."
        if not self.reachable:
            return "Peers in other networks cannot be reached from here."
        if named["likely"]:
            return f"Most peers can be reached from here, by {_and(named['likely'])}."
        if not self._has_servers:
            return (
                "Peers of the same network or VPN can be reached from here; for others, configure STUN and "
                "TURN servers."
            )
        return f"Some peers can be reached from here, by {_and(named['some'])}."

    def to_json(self) -> dict[str, Any]:
        """Return the report as JSON values: schema, reachable, verdict, rungs, findings, took_s."""
        return {
            "schema": SCHEMA,
            "reachable": self.reachable,
            "verdict": self.verdict,
            "rungs": [dataclasses.asdict(rung) for rung in self.rungs],
            "findings": [finding.to_json() for finding in self.findings],
            "took_s": round(self.took_s, 3),
        }

    def json(self) -> str:
        return json.dumps(self.to_json(), indent=2, ensure_ascii=False)

    # -- display ---------------------------------------------------------------------------------------------

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        from rich.table import Table
        from rich.text import Text

        found, expected = (Table.grid(padding=(0, 2, 0, 0)) for _ in range(2))
        for table in (found, expected):
            for width in (12, 8):
                table.add_column(width=width, no_wrap=True)
            table.add_column(ratio=1, overflow="fold")

        above = ""
        for finding in self.findings:
            name = "" if finding.name == above else finding.name
            found.add_row(Text(name, "bold"), _mark(finding.outcome), Text(finding.words))
            if finding.advice:
                found.add_row("", "", Text(f"→ {finding.advice}", "cyan"))
            above = finding.name
        for rung in self.rungs:
            expected.add_row(Text(rung.name, "bold"), _mark(rung.outlook), Text(rung.why))
        yield Text("\nWhat was found", "bold")
        yield found
        yield Text("\nWhat to expect of each path", "bold")
        yield expected
        yield Text(f"\n{self.verdict}", "bold green" if self.reachable else "bold red")

    def __str__(self) -> str:
        from rich.console import Console

        out = io.StringIO()
        Console(file=out, width=TEXT_WIDTH, no_color=True, force_terminal=False, force_jupyter=False).print(
            self
        )
        return "\n".join(line.rstrip() for line in out.getvalue().splitlines())

    __repr__ = __str__

    def _repr_html_(self) -> str:
        from rich.console import Console

        console = Console(file=io.StringIO(), record=True, width=TEXT_WIDTH, force_jupyter=False)
        console.print(self)
        return console.export_html(inline_styles=True, code_format=_HTML)


def _mark(outcome: str) -> Any:
    from rich.text import Text

    return Text(outcome, _STYLES[outcome])


def _and(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
