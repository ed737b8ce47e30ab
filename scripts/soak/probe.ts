import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import type { PlantroomServer } from '../bench/plantroomServer';

/** What the server takes at a moment; memory in MiB. What the machine does not tell is NaN. */
export interface Sample {
  /** Seconds since the beginning. */
  readonly at: number;
  /** Resident memory, and the part of it that is no file. */
  readonly rss: number;
  readonly own: number;
  /** JavaScript heap in use, with what is not collected yet, from /metrics. */
  readonly heap: number;
  /** How late the event loop was, the 99th percentile since the last look, in milliseconds, from /metrics. */
  readonly lag: number;
  readonly descriptors: number;
  readonly threads: number;
  /** SQLite's write-ahead log, in MiB. */
  readonly wal: number;
  /** CPU time so far, in milliseconds. */
  readonly cpu: number;
  /** How long its main thread was ready to run and got no core so far, in milliseconds. */
  readonly starved: number;
}

const MIB = 1024 * 1024;

/** Looks at a server from outside. */
export class Probe {
  private began = performance.now();

  constructor(private readonly server: PlantroomServer) {}

  /** The load begins. */
  begin(): void {
    this.began = performance.now();
  }

  async look(): Promise<Sample> {
    const { pid, ready } = this.server.process;
    const status = read(`/proc/${pid}/status`);
    const kib = (field: string): number => Number(new RegExp(`${field}:\\s+(\\d+) kB`).exec(status)?.[1]) / 1024;
    const metrics = await this.metrics(ready.metrics ?? undefined);
    return {
      at: (performance.now() - this.began) / 1000,
      rss: kib('VmRSS'),
      own: kib('RssAnon'),
      heap: metric(metrics, 'nodejs_heap_size_used_bytes') / MIB,
      lag: metric(metrics, 'nodejs_eventloop_lag_p99_seconds') * 1000,
      descriptors: entries(`/proc/${pid}/fd`),
      threads: Number(/Threads:\s+(\d+)/.exec(status)?.[1]),
      wal: bytes(join(this.server.folder, 'data', 'plantroom.db-wal')) / MIB,
      cpu: this.server.process.cpuMilliseconds(),
      starved: Number(read(`/proc/${pid}/schedstat`).split(' ')[1]) / 1e6,
    };
  }

  private async metrics(address: string | undefined): Promise<string> {
    if (address === undefined) return '';
    try {
      return await (await fetch(`http://${address}/metrics`, { signal: AbortSignal.timeout(2000) })).text();
    } catch {
      return ''; // the server is busy or gone: others see that
    }
  }
}

/** The error lines that a server wrote: each says that a person must act. */
export function errorLines(server: PlantroomServer): string[] {
  return read(join(server.folder, 'server.log')).split('\n').filter((line) => line.includes('"level":"error"'));
}

/** Where the server's debugger listens, if it was started with one. */
export function debuggerUrl(server: PlantroomServer): string | undefined {
  return /Debugger listening on (ws:\S+)/.exec(read(join(server.folder, 'server.log')))?.[1];
}

function metric(text: string, name: string): number {
  return Number(new RegExp(`^${name}(?:\\{[^}]*\\})? (\\S+)`, 'm').exec(text)?.[1]);
}

function read(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return '';
  }
}

function entries(folder: string): number {
  try {
    return readdirSync(folder).length;
  } catch {
    return Number.NaN;
  }
}

function bytes(file: string): number {
  return statSync(file, { throwIfNoEntry: false })?.size ?? Number.NaN;
}
