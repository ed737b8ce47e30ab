import { type Load, type Measured, run } from './load';
import type { ServerProcess } from './serverProcess';

/** Every size and every round is small enough that the whole bench ends within a minute. */
export const short = process.argv.includes('--short');

/** What takes many minutes and gigabytes is measured too. */
export const large = process.argv.includes('--large');

/** What follows a flag on the command line, for example `--only`. */
export function argument(flag: string): string | undefined {
  const at = process.argv.indexOf(flag);
  return at < 0 ? undefined : process.argv[at + 1];
}

/** Prints a line. */
export const say = (text: string): void => void process.stdout.write(`${text}\n`);

/** How long a turn of one subject takes, in milliseconds. */
export const turnMs = short ? 300 : 1000;

/** What is measured: a load on a server. */
export interface Subject {
  readonly name: string;
  readonly server: ServerProcess;
  /** Calls of gRPC, or what else is done for so many milliseconds. */
  readonly load: Load | ((milliseconds: number) => Promise<Measured>);
}

/** What came of it, as the median of all turns. */
export interface Row extends Measured {
  readonly name: string;
  /** CPU time of the server per call, in microseconds. */
  readonly cpu: number;
}

/** The middle of the values; NaN for none. */
export function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN;
}

/** The value below which this share of the values lies, for example 0.99; NaN for none. */
export function quantile(values: readonly number[], share: number): number {
  const sorted = Float64Array.from(values).toSorted();
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
}

/** Measures in turns and takes the medians: the machine's own ups and downs meet all alike. */
export async function compare(subjects: readonly Subject[], rounds: number): Promise<Row[]> {
  const turns = new Map(subjects.map((subject) => [subject, [] as Row[]]));
  for (const { load } of subjects) await once(load);
  for (let round = 0; round < rounds; round += 1) {
    for (const subject of subjects) turns.get(subject)?.push(await turn(subject));
  }
  return subjects.map((subject) => row(subject.name, turns.get(subject) ?? []));
}

async function once(load: Subject['load']): Promise<Measured> {
  return typeof load === 'function' ? await load(turnMs) : await run({ ...load, milliseconds: turnMs });
}

async function turn({ name, server, load }: Subject): Promise<Row> {
  const before = server.cpuMilliseconds();
  const measured = await once(load);
  return { name, ...measured, cpu: ((server.cpuMilliseconds() - before) * 1000) / measured.calls };
}

/** The medians of some turns as one row, which it prints. A failed call fails the bench. */
export function row(name: string, turns: readonly Omit<Row, 'name'>[]): Row {
  const of = (field: 'perSecond' | 'p50' | 'p99' | 'cpu'): number => median(turns.map((one) => one[field]));
  const sum = (field: 'calls' | 'failed'): number => turns.reduce((total, one) => total + one[field], 0);
  const all = { name, calls: sum('calls'), failed: sum('failed'), perSecond: of('perSecond'), p50: of('p50'), p99: of('p99'), cpu: of('cpu') };
  const failed = all.failed > 0 ? `  ${all.failed} FAILED` : '';
  say(`  ${name.padEnd(58)}${all.perSecond.toFixed(0).padStart(7)}/s  p50 ${all.p50.toFixed(2).padStart(6)} ms  p99 ${all.p99.toFixed(2).padStart(6)} ms  cpu ${all.cpu.toFixed(0).padStart(5)} us${failed}`);
  if (all.failed > 0) process.exitCode = 1;
  return all;
}
