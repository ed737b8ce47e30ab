import { randomInt } from 'node:crypto';
import { setTimeout as wait } from 'node:timers/promises';
import { TcpProxy } from '../../test/brokers/tcpProxy';
import type { KillPoint } from './killPoints';
import { Proof } from './proof';
import { type Outcome, collectOutcome } from './outcome';
import { Site } from './site';

const NAME = 'PostgreSQL connections cut and half-open';
const MAX_UNDISTURBED_MS = 1500;
/** Longer than the server needs to detect that the database does not respond. */
const MAX_SILENCE_MS = 5000;
/** In a long proof, the first of so many silences lasts a quarter of the proof. */
const SILENCES_PER_LONG_ONE = 20;
/** Error lines that are expected while the database is unavailable; all others are failures. */
const EXPECTED_ERRORS = [
  '"event":"database.unreachable"',
  '"reason":"database_unavailable"',
  'DomainError: the database is unavailable at the moment (no connection)',
  'DomainError: the database is unavailable at the moment (ECONNRESET)',
  'DomainError: the connection to the database broke during the commit',
];
const POINT: KillPoint = {
  name: NAME,
  kill: { by: 'time' },
  conditions: { store: 'durable', timeout: 86_400, pauseMs: 20, maxDeviceMs: 15, hasTimeouts: false, max: 40 },
};

/** The duration and the database of the proof. */
export interface DatabaseProofOptions {
  readonly seconds: number;
  /** The URL of an empty PostgreSQL database. */
  readonly url: string;
}

/**
 * Cuts the connections between server and PostgreSQL, on both sides or on the server's side only, or silences them, while
 * callers and a gateway work. The server must survive this, and a new one must start after the last cut. Nothing may be
 * lost or duplicated.
 */
export async function proveDatabaseCuts({ seconds, url }: DatabaseProofOptions): Promise<Outcome> {
  const target = new URL(url);
  const proxy = await TcpProxy.start(Number(target.port));
  target.port = String(proxy.port);
  const proof = await Proof.prepare(POINT, new Site(target.href));
  const { gateway, submitters } = proof;
  const over = new AbortController();
  const disturbed = disturb(proxy, seconds * 1000).finally(() => over.abort());
  gateway.attachTo(proof.running.clients);
  await submitUntil(proof, over.signal);
  const { count, longestSilenceMs } = await disturbed;
  const unexpectedExits = proof.running.victim.hasEnded ? ['the server exited while its database was unavailable'] : [];
  proxy.cut('client');
  await proof.restart();
  await submitters.retryOpenRequests(proof.running.clients);
  const outcome = await collectOutcome(proof);
  await proxy.stop();
  const errors = outcome.errors.filter((line) => !EXPECTED_ERRORS.some((text) => line.includes(text)));
  return {
    ...outcome,
    name: `${NAME} (${count} times in ${seconds} s, silent for up to ${Math.round(longestSilenceMs / 1000)} s)`,
    kills: count,
    wrong: [...outcome.wrong, ...unexpectedExits],
    errors,
  };
}

/** Disturbs the connections for `durationMs`, and restores them. A last silence may end later. */
async function disturb(proxy: TcpProxy, durationMs: number): Promise<{ count: number; longestSilenceMs: number }> {
  const end = performance.now() + durationMs;
  const silences: number[] = [];
  let count = 0;
  while (performance.now() < end) {
    await wait(randomInt(MAX_UNDISTURBED_MS));
    count += 1;
    const kind = randomInt(3);
    if (kind < 2) {
      proxy.cut(kind === 0 ? 'both' : 'client');
      continue;
    }
    const isLong = durationMs / 4 > MAX_SILENCE_MS && silences.length % SILENCES_PER_LONG_ONE === 0;
    const silenceMs = isLong ? durationMs / 4 : randomInt(MAX_SILENCE_MS);
    silences.push(silenceMs);
    proxy.swallow();
    await wait(silenceMs);
    proxy.restore();
  }
  return { count, longestSilenceMs: Math.max(0, ...silences) };
}

/** Repeats failed requests with the same trigger ids until the signal aborts. */
async function submitUntil({ submitters, running, point }: Proof, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    await submitters.run(running.clients, point.conditions.pauseMs, 5);
    await wait(point.conditions.pauseMs);
  }
}
