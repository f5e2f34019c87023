import type { GroupLinkRow, GroupMemberRow } from "../contract";
import { duration, latency, speed } from "../format";
import { PATH_MEANINGS } from "../words";
import { useView } from "./view";
import { Words } from "./words";

/** Whoever others have waited for so long, and longer than for all others together, is called slow. */
const SLOW_S = 1;

/** Everybody's links to everybody: path, round trip and speed. */
export function GroupMatrix() {
  const { state } = useView().panel;
  const { members, links } = state.group.value;
  const waited = state.groupTick.value?.waited_s ?? [];
  const all = waited.reduce((sum, one) => sum + one, 0);
  const ranked = members.filter((member) => member.rank !== null);
  const measured = links.flatMap((link) => (link.round_trip_s === null ? [] : [link.round_trip_s]));
  const [quickest, slowest] = [Math.min(...measured), Math.max(...measured)];
  const link = new Map(links.map((one) => [`${one.of} ${one.to}`, one]));
  return (
    <div class="wide" tabIndex={0} role="region" aria-label="Links">
      <table class="matrix">
        <caption>Links, from each member (row) to each other (column)</caption>
        <thead>
          <tr>
            <th scope="col">member</th>
            {ranked.map((member) => (
              <th key={member.rank} scope="col">
                {member.rank}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {members.map((member, place) => (
            <tr key={place}>
              <Name
                member={member}
                slow={(waited[place] ?? 0) >= SLOW_S && waited[place]! * 2 > all ? waited[place]! : 0}
              />
              {member.rank !== null &&
                ranked.map((other) => (
                  <Cell
                    key={other.rank}
                    own={other.rank === member.rank}
                    link={link.get(`${member.rank} ${other.rank}`)}
                    heat={(one) => Math.round((16 * (one - quickest)) / slowest)}
                  />
                ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Name({ member, slow }: { member: GroupMemberRow; slow: number }) {
  return (
    <th scope="row">
      <span class="dim number">{member.rank ?? "–"}</span> <Words text={member.name} limit={40} />
      {member.state === "this member" && <span class="dim"> (you)</span>}
      {!["this member", "connected"].includes(member.state) && <div class="dim">{member.state}</div>}
      {slow > 0 && <div class="slow">slow: waited {duration(slow)} for it</div>}
    </th>
  );
}

interface CellProps {
  own: boolean;
  link: GroupLinkRow | undefined;
  heat: (round_trip_s: number) => number;
}

function Cell({ own, link, heat }: CellProps) {
  if (own) return <td class="own" />;
  if (!link) return <td class="dim">–</td>;
  return (
    <td
      style={`--heat: ${link.round_trip_s ? heat(link.round_trip_s) : 0}%`}
      data-now={link.now}
      title={link.path ? PATH_MEANINGS[link.path] : undefined}
    >
      {latency(link.round_trip_s)}
      <div class="dim">{link.path ?? (link.now ? "no path" : "not known")}</div>
      <div class="dim">{speed(link.bytes_per_s)}</div>
    </td>
  );
}
