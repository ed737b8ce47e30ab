import { sparkline, type Finding } from './analysis';
import type { Pacer, Tally } from './pacer';
import type { Sample } from './probe';

const WIDTH = 24;
const EVERY_LINES = 10;

/** Prints a line. */
export const say = (text: string): void => void process.stdout.write(`${text}\n`);

/** How far it is: on a terminal one line that is drawn anew, else a line now and then. */
export class Live {
  private shown = 0;

  constructor(private readonly seconds: number) {}

  show(samples: readonly Sample[], pacer: Pacer): void {
    const last = samples.at(-1);
    if (!last) return;
    const filled = Math.min(WIDTH, Math.round((last.at / this.seconds) * WIDTH));
    const memory = samples.map(({ rss }) => rss);
    const text = `[${'#'.repeat(filled)}${'-'.repeat(WIDTH - filled)}] ${last.at.toFixed(0)}/${this.seconds} s  ${pacer.done} done, ${pacer.failed} failed  memory ${last.rss.toFixed(0)} MiB ${sparkline(memory, 20)}  descriptors ${last.descriptors}`;
    if (process.stdout.isTTY) process.stdout.write(`\r\u001b[K${text}`);
    else if (this.shown % EVERY_LINES === 0) say(text);
    this.shown += 1;
  }

  clear(): void {
    if (process.stdout.isTTY) process.stdout.write('\r\u001b[K');
  }
}

/** What was done, how it went over time, and what was found. */
export function report(seconds: number, tallies: readonly Tally[], samples: readonly Sample[], live: readonly number[], findings: readonly Finding[]): void {
  say('\nwork                        done   each second   failed');
  for (const { name, done, failed } of tallies) say(`  ${name.padEnd(22)}${String(done).padStart(8)}${(done / seconds).toFixed(1).padStart(14)}${String(failed).padStart(9)}`);
  const rows: readonly (readonly [string, readonly number[]])[] = [
    ['memory, MiB', samples.map(({ rss }) => rss)],
    ['  its own', samples.map(({ own }) => own)],
    ['heap, MiB', samples.map(({ heap }) => heap)],
    ['  alive', live],
    ['CPU, % of a core', shares(samples, 'cpu')],
    ['  waited for one', shares(samples, 'starved')],
    ['event loop late, ms', samples.map(({ lag }) => lag)],
    ['descriptors', samples.map(({ descriptors }) => descriptors)],
    ['threads', samples.map(({ threads }) => threads)],
    ['write-ahead log, MiB', samples.map(({ wal }) => wal)],
  ];
  say('\nover time                  least    middle      most');
  for (const [name, all] of rows) {
    const values = all.filter(Number.isFinite);
    if (values.length === 0) continue;
    const sorted = values.toSorted((a, b) => a - b);
    const shown = [sorted[0], sorted[Math.floor(sorted.length / 2)], sorted.at(-1)].map((value) => (value ?? Number.NaN).toFixed(1).padStart(10)).join('');
    say(`  ${name.padEnd(20)}${shown}  ${sparkline(values)}`);
  }
  say('');
  for (const { name, ok, text } of findings) say(`  ${ok ? 'ok    ' : 'FAILED'}  ${name.padEnd(16)}${text}`);
}

/** What a sum of milliseconds grew by from sample to sample, in percent of the time. */
function shares(samples: readonly Sample[], field: 'cpu' | 'starved'): number[] {
  return samples.slice(1).map((sample, n) => {
    const last = samples[n] ?? sample;
    return (sample[field] - last[field]) / 10 / (sample.at - last.at);
  });
}
