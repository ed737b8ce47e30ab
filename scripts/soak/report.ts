import { sparkline, type Finding } from './analysis';
import type { Pacer, WorkCounter } from './pacer';
import type { Sample } from './probe';

const WIDTH = 24;
const PRINT_INTERVAL = 10;

/** Prints a line. */
export const print = (text: string): void => void process.stdout.write(`${text}\n`);

/** Shows the progress: one updated line on a terminal, otherwise an occasional line. */
export class ProgressLine {
  private displayed = 0;

  constructor(private readonly seconds: number) {}

  show(samples: readonly Sample[], pacer: Pacer): void {
    const last = samples.at(-1);
    if (!last) return;
    const filled = Math.min(WIDTH, Math.round((last.at / this.seconds) * WIDTH));
    const memory = samples.map(({ rss }) => rss);
    const text = `[${'#'.repeat(filled)}${'-'.repeat(WIDTH - filled)}] ${last.at.toFixed(0)}/${this.seconds} s  ${pacer.done} done, ${pacer.failed} failed  memory ${last.rss.toFixed(0)} MiB ${sparkline(memory, 20)}  descriptors ${last.descriptors}`;
    if (process.stdout.isTTY) process.stdout.write(`\r\u001b[K${text}`);
    else if (this.displayed % PRINT_INTERVAL === 0) print(text);
    this.displayed += 1;
  }

  clear(): void {
    if (process.stdout.isTTY) process.stdout.write('\r\u001b[K');
  }
}

/** Prints the work, the measurements over time, and the findings. */
export function printReport(
  seconds: number,
  counters: readonly WorkCounter[],
  samples: readonly Sample[],
  live: readonly number[],
  findings: readonly Finding[],
): void {
  print('\nwork                        done    per second   failed');
  for (const { name, done, failed } of counters)
    print(
      `  ${name.padEnd(22)}${String(done).padStart(8)}${(done / seconds).toFixed(1).padStart(14)}${String(failed).padStart(9)}`,
    );
  const rows: readonly (readonly [string, readonly number[]])[] = [
    ['memory, MiB', samples.map(({ rss }) => rss)],
    ['  anonymous', samples.map(({ own }) => own)],
    ['heap, MiB', samples.map(({ heap }) => heap)],
    ['  live', live],
    ['CPU, % of a core', toPercent(samples, 'cpu')],
    ['  waiting for a core', toPercent(samples, 'starved')],
    ['event loop delay, ms', samples.map(({ lag }) => lag)],
    ['descriptors', samples.map(({ descriptors }) => descriptors)],
    ['threads', samples.map(({ threads }) => threads)],
    ['write-ahead log, MiB', samples.map(({ wal }) => wal)],
  ];
  print('\nover time                    min    median       max');
  for (const [name, all] of rows) {
    const values = all.filter(Number.isFinite);
    if (values.length === 0) continue;
    const sorted = values.toSorted((a, b) => a - b);
    const displayed = [sorted[0], sorted[Math.floor(sorted.length / 2)], sorted.at(-1)]
      .map((value) => (value ?? Number.NaN).toFixed(1).padStart(10))
      .join('');
    print(`  ${name.padEnd(20)}${displayed}  ${sparkline(values)}`);
  }
  print('');
  for (const { name, ok, text } of findings) print(`  ${ok ? 'ok    ' : 'FAILED'}  ${name.padEnd(16)}${text}`);
}

/** Converts a running total of milliseconds to percentages of the time between samples. */
function toPercent(samples: readonly Sample[], field: 'cpu' | 'starved'): number[] {
  return samples.slice(1).map((sample, n) => {
    const last = samples[n] ?? sample;
    return (sample[field] - last[field]) / 10 / (sample.at - last.at);
  });
}
