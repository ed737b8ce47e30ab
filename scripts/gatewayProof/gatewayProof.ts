// npm run test:gateway: runs a gateway that uses plantroom-client/gateway, callers that use plantroom-client, and a
// server, in separate processes. Kills server and gateway with SIGKILL, moves the gateway's clock, and fills its disk.
// Exits with 1 if something was lost, duplicated or wrong.
import { rmSync } from 'node:fs';
import { serveUntilKilled, type ServerOrders } from '../crash/serverChild';
import { formatFindings } from '../crash/table';
import { Random } from '../soak/random';
import { getClockRounds, proveClock } from './clockRow';
import { DISK_STEPS, proveDisk } from './diskRow';
import { getForgetfulKills, proveForgetful } from './forgetfulRow';
import { serveGateway } from './gatewayChild';
import type { GatewayOrders } from './gatewayOrders';
import { proveKills } from './killing';
import { type ProofOptions, parseOptions, ROWS, getSizes } from './options';
import { Progress } from './progress';
import { formatProofTable, formatUnreachedPoints } from './proofTable';
import type { Outcome } from './outcome';

// The rows mostly wait, so several run concurrently.
const MAX_CONCURRENT = 3;

interface Row {
  readonly steps: (options: ProofOptions) => number;
  /** Resolves to undefined if the row cannot run on this machine. */
  readonly prove: (options: ProofOptions, random: Random, progress: Progress) => Promise<Outcome | undefined>;
}

const ROW: Readonly<Record<(typeof ROWS)[number], Row>> = {
  server: {
    steps: (options) => getSizes('server', options).kills,
    prove: async (...all) => await proveKills('server', ...all),
  },
  gateway: {
    steps: (options) => getSizes('gateway', options).kills,
    prove: async (...all) => await proveKills('gateway', ...all),
  },
  both: {
    steps: (options) => getSizes('both', options).kills,
    prove: async (...all) => await proveKills('both', ...all),
  },
  clock: { steps: getClockRounds, prove: proveClock },
  forgetful: { steps: getForgetfulKills, prove: proveForgetful },
  disk: { steps: () => DISK_STEPS, prove: async (_, random, progress) => await proveDisk(random, progress) },
};

async function main(): Promise<void> {
  const options = parseOptions(process.argv.slice(2));
  const started = performance.now();
  print(
    `proof of the gateway library: ${options.kills} kills, ${options.commands} commands, ${options.uplinks} uplinks, seed ${options.seed}`,
  );
  const progress = new Progress(options.rows.reduce((sum, row) => sum + ROW[row].steps(options), 0));
  const remainingRows = options.rows.values();
  const outcomes: Outcome[] = [];
  const work = async (): Promise<void> => {
    for (const row of remainingRows) {
      try {
        const outcome = await ROW[row].prove(options, new Random(options.seed + ROWS.indexOf(row)), progress);
        if (outcome) outcomes.push(outcome);
        else progress.note(`SKIPPED ${row}: a small file system cannot be mounted on this machine`);
      } catch (error) {
        process.exitCode = 1;
        progress.note(`FAILED ${row}: ${formatText(error)}`);
      }
    }
  };
  await Promise.all(Array.from({ length: MAX_CONCURRENT }, work)); // they share one iterator
  if (outcomes.length > 0) print(`\n${formatProofTable(outcomes)}\n`);
  outcomes.flatMap(formatUnreachedPoints).forEach(print);
  outcomes.forEach(finishOutcome);
  print(
    `${process.exitCode === 1 ? 'FAILED' : 'nothing was lost, duplicated or wrong'}: ${((performance.now() - started) / 1000).toFixed(0)} s, seed ${options.seed}`,
  );
}

/** Prints the findings of an outcome, or deletes its folder if there are none. */
function finishOutcome(outcome: Outcome): void {
  const { lost, doubled, wrong, errors, folder, name } = outcome;
  if (lost.length + doubled.length + wrong.length + errors.length === 0)
    return rmSync(folder, { recursive: true, force: true });
  process.exitCode = 1;
  print(`${name}:\n${formatFindings(outcome)}`);
}

function formatText(error: unknown): string {
  return error instanceof Error ? (error.stack ?? error.message) : String(error);
}

function print(text: string): void {
  process.stdout.write(`${text}\n`);
}

if (process.argv[2] === 'gateway') serveGateway(JSON.parse(process.argv[3] ?? '') as GatewayOrders);
else if (process.argv[2] === 'serve') void serveUntilKilled(JSON.parse(process.argv[3] ?? '') as ServerOrders);
else {
  main().catch((error: unknown) => {
    process.stderr.write(`${formatText(error)}\n`);
    process.exit(1);
  });
}
