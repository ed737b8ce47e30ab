import { findHostPort, hostPortText, reachableHost } from '../../config';
import { messageOf } from '../../kernel/thrown';
import { ask } from './ask';
import { fail, ok, warn, type Finding } from './check';
import { descriptorLimit, memoryLimit } from './limitChecks';

/** A series of the metrics: its labels as they stand there, and its value. */
interface Series {
  readonly labels: string;
  readonly value: number;
}
type Figures = (name: string) => readonly Series[];

const DOWN_FOR_S = 900;
const WAITS_FOR_S = 86_400;
const NAMED = 3;

/** What the numbers of a running server say; `metrics`: where they are served, as run.json says. */
export async function figures(metrics: string | null): Promise<Finding[]> {
  if (metrics === null) return [ok('metrics', 'switched off: how connections and executions are doing cannot be seen here')];
  const { host, port } = findHostPort(metrics) ?? { host: 'localhost', port: 0 };
  const address = hostPortText({ host: reachableHost(host), port });
  let of: Figures;
  try {
    const { status, body } = await ask(`http://${address}/metrics`);
    if (status !== 200) return [warn('metrics', `${address} says ${status}`, 'look again in a few seconds, then at the log')];
    of = readFigures(body);
  } catch (error) {
    return [warn('metrics', `they are not served on ${address} (${messageOf(error)})`, 'look at the log of the server')];
  }
  return [ok('metrics', `served on ${address}`), ...judged(of)];
}

/** What is said of the numbers of a server. */
export function judged(of: Figures): Finding[] {
  const first = (name: string): number | undefined => of(name)[0]?.value;
  return [storage(of), connections(of), executions(of), ...lost(of), ...descriptorLimit(first('process_max_fds'), first('process_open_fds')), ...memoryLimit(first('plantroom_memory_limit_bytes'), first('process_resident_memory_bytes'))];
}

/** The text of a /metrics page, by the names of the numbers. */
export function readFigures(page: string): Figures {
  const series = new Map<string, Series[]>();
  for (const line of page.split('\n')) {
    const [, name, labels = '', value] = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)$/.exec(line) ?? [];
    if (name !== undefined) series.set(name, [...(series.get(name) ?? []), { labels, value: Number(value) }]);
  }
  return (name) => series.get(name) ?? [];
}

function storage(of: Figures): Finding {
  const state = of('plantroom_storage_state').find(({ labels, value }) => value === 1 && /state="(full|read_only)"/.test(labels));
  if (!state) return ok('storing', 'the disk takes what is written');
  const isFull = state.labels.includes('full');
  return fail('storing', isFull ? 'the disk is full: only what clears up is taken' : 'the disk cannot be written: only what clears up is taken', isFull ? 'make room: delete what is not needed, move backups away; it goes on by itself' : 'see why (mount, dmesg), mount it for writing; it goes on by itself');
}

function connections(of: Figures): Finding {
  const all = of('plantroom_connections').reduce((sum, { value }) => sum + value, 0);
  const down = of('plantroom_connection_down_seconds').filter(({ value }) => value > DOWN_FOR_S);
  if (down.length === 0) return ok('connections', `${all} are switched on, none of them is down for long`);
  const ids = down.slice(0, NAMED).map(({ labels }) => /connection="([^"]*)"/.exec(labels)?.[1] ?? '');
  return warn('connections', `${down.length} of ${all} are down for more than 15 minutes: ${ids.join(', ')}${down.length > NAMED ? ' and others' : ''}`, `see why: plantroom call ConnectionService/GetConnection '{"id": "${ids[0]}"}'; or switch it off`);
}

function executions(of: Figures): Finding {
  const open = of('plantroom_executions_open').reduce((sum, { value }) => sum + value, 0);
  const waits = of('plantroom_executions_oldest_waiting_seconds')[0]?.value ?? 0;
  const found = `${open} are open`;
  return waits > WAITS_FOR_S ? warn('executions', `${found}; the oldest that waits was asked for ${Math.floor(waits / 3600)} hours ago`, 'see whether its device still wakes, or cancel it (CancelExecution)') : ok('executions', found);
}

/** What a server says of itself that went wrong since it started. */
function lost(of: Figures): Finding[] {
  const events = of('plantroom_audit_events_lost_total')[0]?.value ?? 0;
  const errors = of('plantroom_log_lines_total').find(({ labels }) => labels.includes('level="error"'))?.value ?? 0;
  return [
    ...(events > 0 ? [warn('audit events', `${events} events were lost since the start: too many waited`, 'see what keeps the database from writing (audit.sealing_failed in the log)')] : []),
    ...(errors > 0 ? [warn('log', `${errors} lines of level error since the start: a person must act`, "journalctl -u plantroom | grep '\"level\":\"error\"'")] : []),
  ];
}
