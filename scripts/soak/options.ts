import { parseArgs } from 'node:util';

/** The command line options of a run. */
export interface SoakOptions {
  readonly seconds: number;
  /** The share of the standard load. */
  readonly share: number;
  readonly seed: number;
  /** A program to run instead of dist/main.js. */
  readonly binary: string | undefined;
  /** The memory limit of the server in MiB; undefined: no limit. */
  readonly memory: number | undefined;
}

const USAGE = `usage: npm run soak -- [options]
  --seconds N    duration of the load, at least 20 (default 600)
  --share X      share of the standard load (default 0.5; with --memory 1)
  --seed N       seed of the random choices, to repeat a run (default: random, printed)
  --memory MIB   memory limit of the server, by a control group (needs root)
  --binary FILE  run this server program instead of dist/main.js`;
const MIN_SECONDS = 20;
const MAX_SHARE = 10;
const MIN_MEMORY_MIB = 32;

/** Parses the command line. Throws an error with the usage if it is invalid. */
export function parseOptions(args: readonly string[]): SoakOptions {
  const text = { type: 'string' } as const;
  const { values } = parseArgs({
    args: [...args],
    options: { seconds: text, share: text, seed: text, memory: text, binary: text, help: { type: 'boolean' } },
  });
  const memory = values.memory === undefined ? undefined : Number(values.memory);
  const options = {
    seconds: Number(values.seconds ?? 600),
    share: Number(values.share ?? (memory === undefined ? 0.5 : 1)),
    seed: Number(values.seed ?? Math.floor(Math.random() * 1e9)),
    memory,
    binary: values.binary,
  };
  if (values.help === true || !isValid(options)) throw new Error(USAGE);
  return options;
}

function isValid({ seconds, share, seed, memory = MIN_MEMORY_MIB }: SoakOptions): boolean {
  return (
    seconds >= MIN_SECONDS && share > 0 && share <= MAX_SHARE && Number.isInteger(seed) && memory >= MIN_MEMORY_MIB
  );
}
