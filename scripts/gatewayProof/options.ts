import { parseArgs } from 'node:util';

/** The rows of the proof; the one that waits longest comes first. */
export const ROWS = ['clock', 'server', 'gateway', 'both', 'forgetful', 'disk'] as const;

/** What a run is told. */
export interface ProofOptions {
  readonly kills: number;
  readonly commands: number;
  readonly uplinks: number;
  readonly seed: number;
  readonly rows: readonly (typeof ROWS)[number][];
}

/** Who is killed. */
export type Victims = 'server' | 'gateway' | 'both';

/** Where both are killed it is done a fifth as often. */
export function sizesOf(victims: Victims, { kills, commands, uplinks }: ProofOptions): Pick<ProofOptions, 'kills' | 'commands' | 'uplinks'> {
  const part = victims === 'both' ? 5 : 1;
  return { kills: Math.ceil(kills / part), commands: Math.ceil(commands / part), uplinks: Math.ceil(uplinks / part) };
}

const USAGE = `usage: npm run test:gateway -- [options]
  --kills N     how often the server, and in another row the gateway, is killed (default 50)
  --commands N  how many commands flow meanwhile (default 1000)
  --uplinks N   how many uplinks flow meanwhile (default 10000)
  --seed N      repeats the choices of another run (default: by chance, printed)
  --only ROW    one row: ${ROWS.join(', ')}`;

/** Reads the command line. Throws the usage for what it does not know. */
export function proofOptions(args: readonly string[]): ProofOptions {
  const text = { type: 'string' } as const;
  const { values } = parseArgs({ args: [...args], options: { kills: text, commands: text, uplinks: text, seed: text, only: text, help: { type: 'boolean' } } });
  const options = {
    kills: Number(values.kills ?? 50),
    commands: Number(values.commands ?? 1000),
    uplinks: Number(values.uplinks ?? 10_000),
    seed: Number(values.seed ?? Math.floor(Math.random() * 1e9)),
    rows: ROWS.filter((row) => values.only === undefined || row === values.only),
  };
  const areWhole = [options.kills, options.commands, options.uplinks, options.seed].every((value) => Number.isInteger(value) && value >= 0);
  if (values.help === true || !areWhole || options.kills < 1 || options.rows.length === 0) throw new Error(USAGE);
  return options;
}
