// npm run test:gateway: a gateway on plantroom-client/gateway, callers on plantroom-client, and a server, each in a process of its own. Server and
// gateway are killed with kill -9, the gateway's clock jumps, its disk is full. Ends with 1 unless nothing was lost, doubled or wrong.
import { rmSync } from 'node:fs';
import { serveUntilKilled, type ServerOrders } from '../crash/serverChild';
import { faults } from '../crash/table';
import { Random } from '../soak/random';
import { clockRounds, proveClock } from './clockRow';
import { DISK_STEPS, proveDisk } from './diskRow';
import { forgetfulKills, proveForgetful } from './forgetfulRow';
import { serveGateway } from './gatewayChild';
import type { GatewayOrders } from './gatewayOrders';
import { proveKills } from './killing';
import { type ProofOptions, proofOptions, ROWS, sizesOf } from './options';
import { Progress } from './progress';
import { proofTable, unreached } from './proofTable';
import type { Outcome } from './settle';

// Much of it is waiting.
const AT_ONCE = 3;

interface Row {
  readonly steps: (options: ProofOptions) => number;
  /** Undefined: it cannot be done on this machine. */
  readonly prove: (options: ProofOptions, random: Random, progress: Progress) => Promise<Outcome | undefined>;
}

const ROW: Readonly<Record<(typeof ROWS)[number], Row>> = {
  server: { steps: (options) => sizesOf('server', options).kills, prove: async (...all) => await proveKills('server', ...all) },
  gateway: { steps: (options) => sizesOf('gateway', options).kills, prove: async (...all) => await proveKills('gateway', ...all) },
  both: { steps: (options) => sizesOf('both', options).kills, prove: async (...all) => await proveKills('both', ...all) },
  clock: { steps: clockRounds, prove: proveClock },
  forgetful: { steps: forgetfulKills, prove: proveForgetful },
  disk: { steps: () => DISK_STEPS, prove: async (_, random, progress) => await proveDisk(random, progress) },
};

async function main(): Promise<void> {
  const options = proofOptions(process.argv.slice(2));
  const started = performance.now();
  say(`proof of the gateway library: ${options.kills} kills, ${options.commands} commands, ${options.uplinks} uplinks, seed ${options.seed}`);
  const progress = new Progress(options.rows.reduce((sum, row) => sum + ROW[row].steps(options), 0));
  const open = options.rows.values();
  const outcomes: Outcome[] = [];
  const work = async (): Promise<void> => {
    for (const row of open) {
      try {
        const outcome = await ROW[row].prove(options, new Random(options.seed + ROWS.indexOf(row)), progress);
        if (outcome) outcomes.push(outcome);
        else progress.note(`SKIPPED ${row}: this machine lets nobody mount a small disk`);
      } catch (error) {
        process.exitCode = 1;
        progress.note(`FAILED ${row}: ${textOf(error)}`);
      }
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work)); // they share one iterator
  if (outcomes.length > 0) say(`\n${proofTable(outcomes)}\n`);
  outcomes.flatMap(unreached).forEach(say);
  outcomes.forEach(end);
  say(`${process.exitCode === 1 ? 'FAILED' : 'nothing was lost, doubled or wrong'}: ${((performance.now() - started) / 1000).toFixed(0)} s, seed ${options.seed}`);
}

/** Names every fault; the folder of what was right is removed. */
function end(outcome: Outcome): void {
  const { lost, doubled, wrong, errors, folder, name } = outcome;
  if (lost.length + doubled.length + wrong.length + errors.length === 0) return rmSync(folder, { recursive: true, force: true });
  process.exitCode = 1;
  say(`${name}:\n${faults(outcome)}`);
}

function textOf(error: unknown): string {
  return error instanceof Error ? (error.stack ?? error.message) : String(error);
}

function say(text: string): void {
  process.stdout.write(`${text}\n`);
}

if (process.argv[2] === 'gateway') serveGateway(JSON.parse(process.argv[3] ?? '') as GatewayOrders);
else if (process.argv[2] === 'serve') void serveUntilKilled(JSON.parse(process.argv[3] ?? '') as ServerOrders);
else {
  main().catch((error: unknown) => {
    process.stderr.write(`${textOf(error)}\n`);
    process.exit(1);
  });
}
