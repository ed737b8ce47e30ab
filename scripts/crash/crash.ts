// npm run test:crash: kill -9 at every named point with a real gateway attached, start again, and compare what was acknowledged with
// what is stored and with what the devices did. Ends with 1 unless nothing was lost, doubled or wrong, and every point was reached.
import { rmSync } from 'node:fs';
import { serveBroker } from './aedesProcess';
import { BROKER_POINTS } from './brokerPoints';
import { BrokerProof } from './brokerProof';
import { KILL_POINTS } from './killPoints';
import { proveAudit } from './auditProof';
import { startPostgres } from './postgres';
import { Proof } from './proof';
import { serveUntilKilled, type ServerOrders } from './serverChild';
import { settle, type Outcome } from './settle';
import { Site } from './site';
import { faults, proofTable } from './table';
import { Victim } from './victim';
import { proveWriters } from './writers';

const USAGE = 'usage: npm run test:crash -- [--rounds N (kills for each point, default 10)] [--only TEXT (points whose name holds it)] [--postgres] [--aedes (no Mosquitto, also where there is one)]';
// Much of it is waiting.
const AT_ONCE = 3;
const MOST_MISSED = 3;

type Prove = (site: Site, rounds: number) => Promise<Outcome>;

const PROOFS: readonly { readonly name: string; readonly prove: Prove }[] = [
  ...KILL_POINTS.map((point) => ({
    name: point.name,
    prove: async (site: Site, rounds: number) => {
      const proof = await Proof.prepare(point, site);
      // A round in which chance did not lead to the point proves nothing, and is done again.
      while (proof.kills < rounds && proof.missed < rounds + MOST_MISSED) await proof.round();
      return await settle(proof);
    },
  })),
  ...BROKER_POINTS.map((point) => ({ name: point.name, prove: async (site: Site, rounds: number) => await BrokerProof.prove(point, site, rounds, MOST_MISSED) })),
  { name: 'writers', prove: proveWriters },
  { name: 'audit', prove: proveAudit },
];

async function main(): Promise<void> {
  const rounds = Number(option('--rounds', '10'));
  const proofs = PROOFS.filter(({ name }) => name.includes(option('--only', '')));
  if (!(rounds >= 1) || proofs.length === 0) throw new Error(USAGE);
  const started = performance.now();
  const newDatabase = process.argv.includes('--postgres') ? await startPostgres() : () => '';
  const open = proofs.values();
  const outcomes: Outcome[] = [];
  const work = async (): Promise<void> => {
    for (const { prove } of open) {
      const outcome = await prove(new Site(await newDatabase()), rounds);
      outcomes.push(outcome);
      tell(outcome, `${String(outcomes.length).padStart(2)}/${proofs.length}`);
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work)); // they share one iterator
  say(`\n${proofTable(outcomes)}\n\n${((performance.now() - started) / 1000).toFixed(0)} s`);
  say(`a start was refused at most ${Victim.mostRetries} times because the database was still in use`);
  if (outcomes.some((outcome) => isFault(outcome) || outcome.kills < rounds)) process.exitCode = 1;
}

function tell(outcome: Outcome, done: string): void {
  const { name, kills, acknowledged, lost, doubled, wrong, folder } = outcome;
  say(`${done}  ${name}: killed ${kills} times, ${acknowledged} executions acknowledged, lost ${lost.length}, doubled ${doubled.length}, wrong ${wrong.length}`);
  if (isFault(outcome)) say(faults(outcome));
  else rmSync(folder, { recursive: true, force: true });
}

function isFault({ lost, doubled, wrong, errors }: Outcome): boolean {
  return lost.length + doubled.length + wrong.length + errors.length > 0;
}

function option(name: string, otherwise: string): string {
  const at = process.argv.indexOf(name);
  return (at < 0 ? undefined : process.argv[at + 1]) ?? otherwise;
}

function say(text: string): void {
  process.stdout.write(`${text}\n`);
}

if (process.argv[2] === 'broker') void serveBroker(Number(process.argv[3]));
else if (process.argv[2] === 'serve') void serveUntilKilled(JSON.parse(process.argv[3] ?? '') as ServerOrders);
else void main();
