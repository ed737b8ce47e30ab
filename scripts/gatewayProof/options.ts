import { parseArgs } from 'node:util';

/** The rows of the proof; the slowest one comes first. */
export const ROWS = ['clock', 'server', 'gateway', 'both', 'forgetful', 'disk'] as const;

/** The command line options of a run. */
export interface ProofOptions {
  readonly kills: number;
  readonly commands: number;
  readonly uplinks: number;
  readonly seed: number;
  readonly rows: readonly (typeof ROWS)[number][];
}

/** What is killed. */
export type Victims = 'server' | 'gateway' | 'both';

/** Returns the sizes of a row; the row that kills both has a fifth of them. */
export function getSizes(
  victims: Victims,
  { kills, commands, uplinks }: ProofOptions,
): Pick<ProofOptions, 'kills' | 'commands' | 'uplinks'> {
  const part = victims === 'both' ? 5 : 1;
  return { kills: Math.ceil(kills / part), commands: Math.ceil(commands / part), uplinks: Math.ceil(uplinks / part) };
}

const USAGE = `usage: npm run test:gateway -- [options]
  --kills N     kills of the server, and of the gateway in another row (default 50)
  --commands N  commands that are executed meanwhile (default 1000)
  --uplinks N   uplinks that are sent meanwhile (default 10000)
  --seed N      seed of the random choices, to repeat a run (default: random, printed)
  --only ROW    run only one row: ${ROWS.join(', ')}`;

/** Parses the command line. Throws an error with the usage if it is invalid. */
export function parseOptions(args: readonly string[]): ProofOptions {
  const text = { type: 'string' } as const;
  const { values } = parseArgs({
    args: [...args],
    options: { kills: text, commands: text, uplinks: text, seed: text, only: text, help: { type: 'boolean' } },
  });
  const options = {
    kills: Number(values.kills ?? 50),
    commands: Number(values.commands ?? 1000),
    uplinks: Number(values.uplinks ?? 10_000),
    seed: Number(values.seed ?? Math.floor(Math.random() * 1e9)),
    rows: ROWS.filter((row) => values.only === undefined || row === values.only),
  };
  const areNonNegativeIntegers = [options.kills, options.commands, options.uplinks, options.seed].every(
    (value) => Number.isInteger(value) && value >= 0,
  );
  if (values.help === true || !areNonNegativeIntegers || options.kills < 1 || options.rows.length === 0)
    throw new Error(USAGE);
  return options;
}
