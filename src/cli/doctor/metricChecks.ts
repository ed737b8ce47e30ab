import { parseHostPort, formatHostPort, getLocalHost } from '../../config';
import { formatMessage } from '../../kernel/errorUtils';
import { fetchPage } from './fetchPage';
import { fail, ok, warn, type Finding } from './check';
import { checkDescriptors, checkMemory } from './limitChecks';

/** One series of a metric: its labels in Prometheus text format, and its value. */
interface Series {
  readonly labels: string;
  readonly value: number;
}
/** Returns the series of a metric by name; empty if there are none. */
type Metrics = (name: string) => readonly Series[];

const MAX_DOWN_S = 900;
const MAX_QUEUE_AGE_S = 86_400;
const MAX_LISTED_IDS = 3;

/** Checks a running server by its metrics. `metrics`: the listening address of run.json; null if disabled. */
export async function checkMetrics(metrics: string | null): Promise<Finding[]> {
  if (metrics === null) return [ok('metrics', 'disabled: connections and executions cannot be checked')];
  const { host, port } = parseHostPort(metrics) ?? { host: 'localhost', port: 0 };
  const address = formatHostPort({ host: getLocalHost(host), port });
  let getSeries: Metrics;
  try {
    const { status, body } = await fetchPage(`http://${address}/metrics`);
    if (status !== 200)
      return [
        warn('metrics', `${address} returned status ${status}`, 'try again in a few seconds, then check the log'),
      ];
    getSeries = parseMetrics(body);
  } catch (error) {
    return [warn('metrics', `not reachable on ${address} (${formatMessage(error)})`, 'check the log of the server')];
  }
  return [ok('metrics', `served on ${address}`), ...judgeMetrics(getSeries)];
}

/** Judges the metrics of a server. */
export function judgeMetrics(getSeries: Metrics): Finding[] {
  const getFirstValue = (name: string): number | undefined => getSeries(name)[0]?.value;
  return [
    judgeStorage(getSeries),
    judgeConnections(getSeries),
    judgeExecutions(getSeries),
    ...judgeCounters(getSeries),
    ...checkDescriptors(getFirstValue('process_max_fds'), getFirstValue('process_open_fds')),
    ...checkMemory(getFirstValue('plantroom_memory_limit_bytes'), getFirstValue('process_resident_memory_bytes')),
  ];
}

/**
 * Parses the text of a /metrics page: each line is a comment, or `name{labels} value`, where the labels are optional.
 */
export function parseMetrics(page: string): Metrics {
  const seriesByName = new Map<string, Series[]>();
  for (const line of page.split('\n')) {
    const [, name, labels = '', value] = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)$/.exec(line) ?? [];
    if (name !== undefined)
      seriesByName.set(name, [...(seriesByName.get(name) ?? []), { labels, value: Number(value) }]);
  }
  return (name) => seriesByName.get(name) ?? [];
}

/** Fails if the disk is full or read-only: the metric has the value 1 for the current state. */
function judgeStorage(getSeries: Metrics): Finding {
  const state = getSeries('plantroom_storage_state').find(
    ({ labels, value }) => value === 1 && /state="(full|read_only)"/.test(labels),
  );
  if (!state) return ok('storing', 'the disk is writable');
  const isFull = state.labels.includes('full');
  return fail(
    'storing',
    isFull
      ? 'the disk is full: the server only accepts calls that free space'
      : 'the disk is read-only: the server only accepts calls that free space',
    isFull
      ? 'free disk space: delete unused data, move backups elsewhere; the server then continues automatically'
      : 'find the reason (mount, dmesg) and mount the disk read-write; the server then continues automatically',
  );
}

/** Warns about connections that have been disconnected for more than 15 minutes. */
function judgeConnections(getSeries: Metrics): Finding {
  const all = getSeries('plantroom_connections').reduce((sum, { value }) => sum + value, 0);
  const down = getSeries('plantroom_connection_down_seconds').filter(({ value }) => value > MAX_DOWN_S);
  if (down.length === 0) return ok('connections', `${all} enabled, none disconnected for more than 15 minutes`);
  const ids = down.slice(0, MAX_LISTED_IDS).map(({ labels }) => /connection="([^"]*)"/.exec(labels)?.[1] ?? '');
  return warn(
    'connections',
    `${down.length} of ${all} disconnected for more than 15 minutes: ${ids.join(', ')}${down.length > MAX_LISTED_IDS ? ' and others' : ''}`,
    `find the reason: plantroom call ConnectionService/GetConnection '{"id": "${ids[0]}"}'; or disable the connection`,
  );
}

/** Warns if an execution has been waiting for more than a day. */
function judgeExecutions(getSeries: Metrics): Finding {
  const active = getSeries('plantroom_executions_active').reduce((sum, { value }) => sum + value, 0);
  const oldestAgeS = getSeries('plantroom_execution_queue_oldest_age_seconds')[0]?.value ?? 0;
  const found = `${active} active`;
  return oldestAgeS > MAX_QUEUE_AGE_S
    ? warn(
        'executions',
        `${found}; the oldest has been waiting for ${Math.floor(oldestAgeS / 3600)} hours`,
        'check whether its device still wakes up, or cancel the execution (CancelExecution)',
      )
    : ok('executions', found);
}

/** Reports lost audit events and logged errors since the start of the server. */
function judgeCounters(getSeries: Metrics): Finding[] {
  const lostEvents = getSeries('plantroom_audit_events_lost_total')[0]?.value ?? 0;
  const loggedErrors =
    getSeries('plantroom_log_messages_total').find(({ labels }) => labels.includes('level="error"'))?.value ?? 0;
  return [
    ...(lostEvents > 0
      ? [
          warn(
            'audit events',
            `${lostEvents} events lost since the start: too many were pending`,
            'find out why the database cannot write (search the log for audit.sealing_failed)',
          ),
        ]
      : []),
    ...(loggedErrors > 0
      ? [
          warn(
            'log',
            `${loggedErrors} messages of level error since the start: each needs attention`,
            'journalctl -u plantroom | grep \'"level":"error"\'',
          ),
        ]
      : []),
  ];
}
