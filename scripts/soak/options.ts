import { parseArgs } from 'node:util';

/** What a run is told. */
export interface SoakOptions {
  readonly seconds: number;
  /** Of the standard load. */
  readonly share: number;
  readonly seed: number;
  /** A built program instead of dist/main.js. */
  readonly binary: string | undefined;
  /** MiB that the server may take; undefined: what it wants. */
  readonly memory: number | undefined;
}

const USAGE = `usage: npm run soak -- [options]
  --seconds N    how long the load lasts, at least 20 (default 600)
  --share X      which part of the standard load (default 0.5; with --memory 1)
  --seed N       repeats the choices of another run (default: by chance, printed)
  --memory MIB   the server has so much memory and no more, in a control group (needs root)
  --binary FILE  the server is this program, not dist/main.js`;
const LEAST_SECONDS = 20;
const MOST_SHARE = 10;
const LEAST_MEMORY = 32;

/** Reads the command line. Throws the usage for what it does not know. */
export function soakOptions(args: readonly string[]): SoakOptions {
  const text = { type: 'string' } as const;
  const { values } = parseArgs({ args: [...args], options: { seconds: text, share: text, seed: text, memory: text, binary: text, help: { type: 'boolean' } } });
  const memory = values.memory === undefined ? undefined : Number(values.memory);
  const options = {
    seconds: Number(values.seconds ?? 600),
    share: Number(values.share ?? (memory === undefined ? 0.5 : 1)),
    seed: Number(values.seed ?? Math.floor(Math.random() * 1e9)),
    memory,
    binary: values.binary,
  };
  if (values.help === true || !isRight(options)) throw new Error(USAGE);
  return options;
}

function isRight({ seconds, share, seed, memory = LEAST_MEMORY }: SoakOptions): boolean {
  return seconds >= LEAST_SECONDS && share > 0 && share <= MOST_SHARE && Number.isInteger(seed) && memory >= LEAST_MEMORY;
}
