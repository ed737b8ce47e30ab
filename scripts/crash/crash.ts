// npm run test:crash: kills the server with SIGKILL at every named point while a gateway is attached, restarts it, and
// compares what was acknowledged with what is stored and with what the devices did. Exits with 1 if something was lost,
// duplicated or wrong, or if a point was not reached.
import { rmSync } from 'node:fs';
import { serveBroker } from './aedesProcess';
import { type Backlog, proveBacklog } from './backlogProof';
import { BROKER_POINTS } from './brokerPoints';
import { BrokerProof } from './brokerProof';
import { KILL_POINTS } from './killPoints';
import { proveAudit } from './auditProof';
import { proveDatabaseCuts } from './databaseProof';
import { startPostgres } from './postgres';
import { Proof } from './proof';
import { serveUntilKilled, type ServerOrders } from './serverChild';
import { collectOutcome, type Outcome } from './outcome';
import { Site } from './site';
import { proveSuccession } from './successionProof';
import { formatFindings, formatProofTable } from './table';
import { proveWriters } from './writers';

const USAGE =
  'usage: npm run test:crash -- [--rounds N (kills per point, default 10)] [--only TEXT (only points whose name contains TEXT)] [--postgres (use PostgreSQL)] [--aedes (use aedes even if Mosquitto is installed)] [--backlog N (messages queued at the broker, default 6000)] [--backlog-bytes N (padding of each message, default 0)] [--cut-seconds N (duration of the PostgreSQL disturbances, default 4 per round)]';
// The proofs mostly wait, so several run concurrently.
const MAX_CONCURRENT = 3;
const MAX_MISSED = 3;

const BACKLOGS: readonly Pick<Backlog, 'transport' | 'protocol'>[] = [
  { transport: 'mqtt', protocol: '5' },
  { transport: 'mqtt', protocol: '3.1.1' },
  { transport: 'chirpstack', protocol: '5' },
];

type Prove = (site: Site, rounds: number) => Promise<Outcome>;

let postgres: ReturnType<typeof startPostgres> | undefined;
/** Creates an empty PostgreSQL database; the first call starts the server. */
const createPostgresDatabase = async (): Promise<string> => await (await (postgres ??= startPostgres()))();

const PROOFS: readonly { readonly name: string; readonly prove: Prove }[] = [
  ...KILL_POINTS.map((point) => ({
    name: point.name,
    prove: async (site: Site, rounds: number) => {
      const proof = await Proof.prepare(point, site);
      // A round that did not reach the point proves nothing and is repeated.
      while (proof.kills < rounds && proof.missed < rounds + MAX_MISSED) await proof.runRound();
      return await collectOutcome(proof);
    },
  })),
  ...BROKER_POINTS.map((point) => ({
    name: point.name,
    prove: async (site: Site, rounds: number) => await BrokerProof.prove(point, site, rounds, MAX_MISSED),
  })),
  ...BACKLOGS.map(({ transport, protocol }) => ({
    name: `${transport} ${protocol}: a backlog`,
    prove: async (site: Site, rounds: number) =>
      await proveBacklog(
        {
          transport,
          protocol,
          messages: Number(readOption('--backlog', '6000')),
          bytes: Number(readOption('--backlog-bytes', '0')),
        },
        site,
        rounds,
      ),
  })),
  { name: 'mqtt: kills in close succession', prove: proveSuccession },
  { name: 'writers', prove: proveWriters },
  { name: 'audit', prove: proveAudit },
  {
    name: 'database',
    prove: async (_, rounds) =>
      await proveDatabaseCuts({
        seconds: Number(readOption('--cut-seconds', String(4 * rounds))),
        url: await createPostgresDatabase(),
      }),
  },
];

async function main(): Promise<void> {
  const rounds = Number(readOption('--rounds', '10'));
  const proofs = PROOFS.filter(({ name }) => name.includes(readOption('--only', '')));
  if (!(rounds >= 1) || proofs.length === 0) throw new Error(USAGE);
  const started = performance.now();
  const createDatabase = process.argv.includes('--postgres') ? createPostgresDatabase : () => '';
  const remainingProofs = proofs.values();
  const outcomes: Outcome[] = [];
  const work = async (): Promise<void> => {
    for (const { prove } of remainingProofs) {
      const outcome = await prove(new Site(await createDatabase()), rounds);
      outcomes.push(outcome);
      printOutcome(outcome, `${String(outcomes.length).padStart(2)}/${proofs.length}`);
    }
  };
  await Promise.all(Array.from({ length: MAX_CONCURRENT }, work)); // they share one iterator
  print(`\n${formatProofTable(outcomes)}\n\n${((performance.now() - started) / 1000).toFixed(0)} s`);
  if (outcomes.some((outcome) => hasFindings(outcome) || outcome.kills < rounds)) process.exitCode = 1;
}

function printOutcome(outcome: Outcome, done: string): void {
  const { name, kills, acknowledged, lost, doubled, wrong, folder } = outcome;
  print(
    `${done}  ${name}: killed ${kills} times, ${acknowledged} executions acknowledged; lost ${lost.length}, duplicated ${doubled.length}, wrong ${wrong.length}`,
  );
  if (hasFindings(outcome)) print(formatFindings(outcome));
  else rmSync(folder, { recursive: true, force: true });
}

function hasFindings({ lost, doubled, wrong, errors }: Outcome): boolean {
  return lost.length + doubled.length + wrong.length + errors.length > 0;
}

function readOption(name: string, defaultValue: string): string {
  const at = process.argv.indexOf(name);
  return (at < 0 ? undefined : process.argv[at + 1]) ?? defaultValue;
}

function print(text: string): void {
  process.stdout.write(`${text}\n`);
}

if (process.argv[2] === 'broker') void serveBroker(Number(process.argv[3]));
else if (process.argv[2] === 'serve') void serveUntilKilled(JSON.parse(process.argv[3] ?? '') as ServerOrders);
else void main();
