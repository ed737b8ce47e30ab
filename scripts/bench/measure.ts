import type { Measured } from './latencies';
import { type Load, runLoad } from './load';
import type { ServerProcess } from './serverProcess';

/** `--short`: sizes and rounds are so small that all benchmarks finish within a minute. */
export const isShort = process.argv.includes('--short');

/** `--large`: also runs what takes many minutes and gigabytes. */
export const isLarge = process.argv.includes('--large');

/** Returns the value after a command line flag, for example `--only`; undefined if the flag is missing. */
export function readArgument(flag: string): string | undefined {
  const at = process.argv.indexOf(flag);
  return at < 0 ? undefined : process.argv[at + 1];
}

/** Prints a line. */
export const print = (text: string): void => void process.stdout.write(`${text}\n`);

/** The duration of one round of a subject, in milliseconds. */
export const turnMs = isShort ? 300 : 1000;

/** A load on a server that is measured. */
export interface Subject {
  readonly name: string;
  readonly server: ServerProcess;
  /** A gRPC load, or a function that runs another load for so many milliseconds. */
  readonly load: Load | ((milliseconds: number) => Promise<Measured>);
}

/** The result of a subject: the medians of all rounds. */
export interface Row extends Measured {
  readonly name: string;
  /** CPU time of the server per call, in microseconds. */
  readonly cpu: number;
}

/** Returns the median; NaN for no values. */
export function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN;
}

/** Measures the subjects alternately, so that disturbances of the machine affect all alike, and prints the medians. */
export async function compare(subjects: readonly Subject[], rounds: number): Promise<Row[]> {
  const turns = new Map(subjects.map((subject) => [subject, [] as Row[]]));
  for (const { load } of subjects) await runOnce(load);
  for (let round = 0; round < rounds; round += 1) {
    for (const subject of subjects) turns.get(subject)?.push(await measureRound(subject));
  }
  return subjects.map((subject) => printRow(subject.name, turns.get(subject) ?? []));
}

async function runOnce(load: Subject['load']): Promise<Measured> {
  return typeof load === 'function' ? await load(turnMs) : await runLoad({ ...load, milliseconds: turnMs });
}

async function measureRound({ name, server, load }: Subject): Promise<Row> {
  const before = server.cpuMilliseconds();
  const measured = await runOnce(load);
  return { name, ...measured, cpu: ((server.cpuMilliseconds() - before) * 1000) / measured.calls };
}

/** Prints the medians of some rounds as one row and returns them. A failed call fails the benchmark. */
export function printRow(name: string, turns: readonly Omit<Row, 'name'>[]): Row {
  const getMedian = (field: 'perSecond' | 'p50' | 'p99' | 'cpu'): number => median(turns.map((one) => one[field]));
  const sum = (field: 'calls' | 'failed'): number => turns.reduce((total, one) => total + one[field], 0);
  const all = {
    name,
    calls: sum('calls'),
    failed: sum('failed'),
    perSecond: getMedian('perSecond'),
    p50: getMedian('p50'),
    p99: getMedian('p99'),
    cpu: getMedian('cpu'),
  };
  const failed = all.failed > 0 ? `  ${all.failed} FAILED` : '';
  print(
    `  ${name.padEnd(58)}${all.perSecond.toFixed(0).padStart(7)}/s  p50 ${all.p50.toFixed(2).padStart(6)} ms  p99 ${all.p99.toFixed(2).padStart(6)} ms  cpu ${all.cpu.toFixed(0).padStart(5)} us${failed}`,
  );
  if (all.failed > 0) process.exitCode = 1;
  return all;
}
