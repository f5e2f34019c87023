import { clock, latency, megabytes, size } from "../format";
import { means } from "../history";
import { useView } from "./view";

const ROWS = 12;

/** The charts in numbers: the means of twelve stretches, the latest first. */
export function HistoryTable({ minutes }: { minutes: number }) {
  const { state } = useView().panel;
  state.historyEnd.value;
  const stretch = state.history.stretch(60 * minutes);
  const columns = {
    sent: means(stretch.sent, ROWS),
    sentWire: means(stretch.sent_wire, ROWS),
    received: means(stretch.received, ROWS),
    receivedWire: means(stretch.received_wire, ROWS),
    roundTrip: means(stretch.round_trip_s, ROWS),
    queued: means(stretch.queued_bytes, ROWS),
  };
  const lengthS = (60 * minutes) / ROWS;
  const firstS = state.history.epochS + stretch.second[0]!;
  return (
    <table class="numbers">
      <caption>Means over {lengthS} s each, MB/s</caption>
      <thead>
        <tr>
          <th scope="col">from</th>
          <th scope="col">sent</th>
          <th scope="col">on the wire</th>
          <th scope="col">received</th>
          <th scope="col">on the wire</th>
          <th scope="col">round trip</th>
          <th scope="col">waits</th>
        </tr>
      </thead>
      <tbody>
        {columns.sent
          .map((sent, row) => (
            <tr key={row}>
              <th scope="row">{clock(firstS + row * lengthS)}</th>
              <td>{megabytes(sent)}</td>
              <td>{megabytes(columns.sentWire[row])}</td>
              <td>{megabytes(columns.received[row])}</td>
              <td>{megabytes(columns.receivedWire[row])}</td>
              <td>{latency(columns.roundTrip[row])}</td>
              <td>{columns.queued[row] == null ? "–" : size(columns.queued[row])}</td>
            </tr>
          ))
          .reverse()}
      </tbody>
    </table>
  );
}
