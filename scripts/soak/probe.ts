import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import type { PlantroomServer } from '../bench/plantroomServer';
import { fetchMetrics, parseMetric } from '../bench/serverMetrics';

/** Resource usage of the server at one time; memory in MiB. NaN where the machine does not report a value. */
export interface Sample {
  /** Seconds since the start. */
  readonly at: number;
  /** Resident memory, and its anonymous part (without mapped files). */
  readonly rss: number;
  readonly own: number;
  /** JavaScript heap in use, including garbage, from /metrics. */
  readonly heap: number;
  /** Event loop delay of the last 15 to 30 seconds, 99th percentile, in milliseconds, from /metrics. */
  readonly lag: number;
  readonly descriptors: number;
  readonly threads: number;
  /** SQLite's write-ahead log, in MiB. */
  readonly wal: number;
  /** CPU time so far, in milliseconds. */
  readonly cpu: number;
  /** Total time that its main thread was ready to run but had no core, in milliseconds. */
  readonly starved: number;
}

const MIB = 1024 * 1024;

/** Measures a server from outside. */
export class Probe {
  private began = performance.now();

  constructor(private readonly server: PlantroomServer) {}

  /** Marks the start of the load. */
  begin(): void {
    this.began = performance.now();
  }

  async sample(): Promise<Sample> {
    const { pid } = this.server.process;
    const status = readIfExists(`/proc/${pid}/status`);
    const kib = (field: string): number => Number(new RegExp(`${field}:\\s+(\\d+) kB`).exec(status)?.[1]) / 1024;
    const metrics = await fetchMetrics(this.server);
    return {
      at: (performance.now() - this.began) / 1000,
      rss: kib('VmRSS'),
      own: kib('RssAnon'),
      heap: parseMetric(metrics, 'nodejs_heap_size_used_bytes') / MIB,
      lag: parseMetric(metrics, 'plantroom_event_loop_delay_seconds', 'percentile="99"') * 1000,
      descriptors: countEntries(`/proc/${pid}/fd`),
      threads: Number(/Threads:\s+(\d+)/.exec(status)?.[1]),
      wal: getFileSize(join(this.server.folder, 'data', 'plantroom.db-wal')) / MIB,
      cpu: this.server.process.cpuMilliseconds(),
      starved: Number(readIfExists(`/proc/${pid}/schedstat`).split(' ')[1]) / 1e6,
    };
  }
}

/** Reads the error lines of the server log. */
export function readErrorLines(server: PlantroomServer): string[] {
  return readIfExists(join(server.folder, 'server.log'))
    .split('\n')
    .filter((line) => line.includes('"level":"error"'));
}

/** Returns the URL of the server's debugger; undefined if it was started without one. */
export function findDebuggerUrl(server: PlantroomServer): string | undefined {
  return /Debugger listening on (ws:\S+)/.exec(readIfExists(join(server.folder, 'server.log')))?.[1];
}

function readIfExists(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return '';
  }
}

function countEntries(folder: string): number {
  try {
    return readdirSync(folder).length;
  } catch {
    return Number.NaN;
  }
}

function getFileSize(file: string): number {
  return statSync(file, { throwIfNoEntry: false })?.size ?? Number.NaN;
}
