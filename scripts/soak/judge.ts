import { back, bounded, growth, type Finding, type Point } from './analysis';
import type { Tally } from './pacer';
import type { Sample } from './probe';

/** What was seen of a run. */
export interface Seen {
  readonly samples: readonly Sample[];
  /** Live heap and what buffers hold outside of it, in MiB; empty where no debugger could be asked. */
  readonly live: readonly Point[];
  readonly buffers: readonly Point[];
  /** Before the load, and when it was over. */
  readonly before: Sample;
  readonly after: Sample;
  readonly tallies: readonly Tally[];
  readonly errors: readonly string[];
}

/**
 * The live heap moves by some MiB with what is under way when it is looked at and with caches that fill: over the half of a minute that CI has
 * it shows only what leaks 130 kB a second, over that of ten minutes what leaks 14 kB a second: at half load, some 70 bytes for each thing that is done.
 */
const LIVE_GROWTH = { perHour: 10, least: 4 };
/** Messages under way and what their pools keep. */
const BUFFER_GROWTH = { perHour: 20, least: 8 };
/** Own memory moves with the collector and with the pages of SQLite's caches; it is there for what leaks in the engine's own code and in other threads, and sees only much of it. */
const RESIDENT_GROWTH = { perHour: 100, least: 40 };
/** Files that the server opens when it first needs them. */
const MORE_DESCRIPTORS = 4;
/** Threads of the sandbox and of pictures that are started when they are first needed. */
const MORE_THREADS = 2;
/** After a checkpoint SQLite cuts the log to 64 MiB; between two of them it may be half as much again. */
const MOST_WAL = 96;
const MOST_STARVED = 30;
const MOST_SHOWN = 3;

const UNSEEN_HEAP: Finding = { name: 'live heap', ok: true, text: 'NOT MEASURED: no debugger could be asked (a single binary hears of none, and under a limit of memory it would help the collector); only own memory tells' };

/** Everything that fails a run, or does not. */
export function judge({ samples, live, buffers, before, after, tallies, errors }: Seen): readonly Finding[] {
  const points = (field: 'own' | 'wal'): readonly Point[] => samples.map((sample) => ({ at: sample.at, value: sample[field] }));
  return [
    ...(live.length > 0 ? [growth('live heap', 'MiB', live, LIVE_GROWTH), growth('buffers', 'MiB', buffers, BUFFER_GROWTH)] : [UNSEEN_HEAP]),
    growth('own memory', 'MiB', points('own'), RESIDENT_GROWTH),
    back('descriptors', before.descriptors, after.descriptors, MORE_DESCRIPTORS),
    back('threads', before.threads, after.threads, MORE_THREADS),
    bounded('write-ahead log', 'MiB', samples.map(({ wal }) => wal), MOST_WAL),
    answered(tallies),
    machine(samples),
    { name: 'error lines', ok: errors.length === 0, text: errors.length === 0 ? 'none' : `${errors.length}: ${errors.slice(0, MOST_SHOWN).join(' ').slice(0, 600)}` },
  ];
}

/** On a machine that is busy with other things the server is late: it fails nothing by itself, and may explain what failed. */
function machine(samples: readonly Sample[]): Finding {
  const [first, last] = [samples[0], samples.at(-1)];
  const share = first && last ? (last.starved - first.starved) / 10 / (last.at - first.at) : Number.NaN;
  return { name: 'machine', ok: true, text: `the server waited ${share.toFixed(0)} % of the time for a core${share > MOST_STARVED ? ': this machine has much else to do; if something failed, run it again when it has not' : ''}` };
}

function answered(tallies: readonly Tally[]): Finding {
  const failed = tallies.filter((tally) => tally.failed > 0);
  const done = tallies.reduce((sum, tally) => sum + tally.done, 0);
  const idle = tallies.filter((tally) => tally.done === 0).map(({ name }) => name);
  const text = failed.length > 0 ? failed.map(({ name, failed: n, fault }) => `${n} of ${name}: ${fault}`).join('; ').slice(0, 800) : `${done} done, none failed`;
  return { name: 'work', ok: failed.length === 0 && idle.length === 0, text: idle.length > 0 ? `${text}; never done: ${idle.join(', ')}` : text };
}
