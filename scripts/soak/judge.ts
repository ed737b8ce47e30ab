import { checkGrowth, checkReturn, checkUpperBound, type Finding, type Point } from './analysis';
import type { WorkCounter } from './pacer';
import type { Sample } from './probe';

/** The measurements of a run. */
export interface RunResult {
  readonly samples: readonly Sample[];
  /** Live heap and memory of buffers outside of it, in MiB; empty without a debugger. */
  readonly live: readonly Point[];
  readonly buffers: readonly Point[];
  /** Before and after the load. */
  readonly before: Sample;
  readonly after: Sample;
  readonly counters: readonly WorkCounter[];
  readonly errors: readonly string[];
}

/**
 * The live heap fluctuates by some MiB with the work in progress and with caches. The 30 s that CI evaluates reveal a leak
 * of 260 kB/s, the 5 minutes of a ten-minute run a leak of 27 kB/s: at half load, about 130 bytes per operation.
 */
const LIVE_GROWTH = { perHour: 10, min: 8 };
/** Messages in progress and their pools. */
const BUFFER_GROWTH = { perHour: 20, min: 8 };
/**
 * Anonymous memory fluctuates with the garbage collector and with SQLite's caches. It reveals only large leaks, but also
 * those in native code and in other threads.
 */
const RESIDENT_GROWTH = { perHour: 100, min: 40 };
/** Files that the server opens on first use. */
const MORE_DESCRIPTORS = 4;
/** Codec and media threads that are started on first use. */
const MORE_THREADS = 2;
/** A checkpoint truncates the log to 64 MiB; in between it may grow by half of that. */
const MAX_WAL_MIB = 96;
const MAX_STARVED_PERCENT = 30;
const MAX_SHOWN = 3;

const HEAP_NOT_MEASURED: Finding = {
  name: 'live heap',
  ok: true,
  text: 'NOT MEASURED: no debugger is available (a single binary has none, and with a memory limit it would influence the garbage collector); see own memory',
};

/** Runs all checks of a run. */
export function judge({ samples, live, buffers, before, after, counters, errors }: RunResult): readonly Finding[] {
  const points = (field: 'own' | 'wal'): readonly Point[] =>
    samples.map((sample) => ({ at: sample.at, value: sample[field] }));
  return [
    ...(live.length > 0
      ? [checkGrowth('live heap', 'MiB', live, LIVE_GROWTH), checkGrowth('buffers', 'MiB', buffers, BUFFER_GROWTH)]
      : [HEAP_NOT_MEASURED]),
    checkGrowth('own memory', 'MiB', points('own'), RESIDENT_GROWTH),
    checkReturn('descriptors', before.descriptors, after.descriptors, MORE_DESCRIPTORS),
    checkReturn('threads', before.threads, after.threads, MORE_THREADS),
    checkUpperBound(
      'write-ahead log',
      'MiB',
      samples.map(({ wal }) => wal),
      MAX_WAL_MIB,
    ),
    checkWork(counters),
    describeMachine(samples),
    {
      name: 'error lines',
      ok: errors.length === 0,
      text: errors.length === 0 ? 'none' : `${errors.length}: ${errors.slice(0, MAX_SHOWN).join(' ').slice(0, 600)}`,
    },
  ];
}

/** Describes how busy the machine was. This never fails, but may explain other failures. */
function describeMachine(samples: readonly Sample[]): Finding {
  const [first, last] = [samples[0], samples.at(-1)];
  const share = first && last ? (last.starved - first.starved) / 10 / (last.at - first.at) : Number.NaN;
  return {
    name: 'machine',
    ok: true,
    text: `the server waited ${share.toFixed(0)} % of the time for a core${share > MAX_STARVED_PERCENT ? ': the machine is busy; if a check failed, repeat the run on an idle machine' : ''}`,
  };
}

function checkWork(counters: readonly WorkCounter[]): Finding {
  const failed = counters.filter((counter) => counter.failed > 0);
  const done = counters.reduce((sum, counter) => sum + counter.done, 0);
  const idle = counters.filter((counter) => counter.done === 0).map(({ name }) => name);
  const text =
    failed.length > 0
      ? failed
          .map(({ name, failed: n, firstError }) => `${n} of ${name}: ${firstError}`)
          .join('; ')
          .slice(0, 800)
      : `${done} done, none failed`;
  return {
    name: 'work',
    ok: failed.length === 0 && idle.length === 0,
    text: idle.length > 0 ? `${text}; never done: ${idle.join(', ')}` : text,
  };
}
