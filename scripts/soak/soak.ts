// npm run soak: a server under load for long, watched from outside. Ends with 1 if something grows, is lost, or is not answered.
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { startBroker } from '../bench/benchBroker';
import { PlantroomServer } from '../bench/plantroomServer';
import { judge } from './judge';
import { MemoryLimit } from './memoryLimit';
import { soakOptions, type SoakOptions } from './options';
import { report, say } from './report';
import { Run } from './run';

const DEBUGGER = '--inspect=127.0.0.1:0';
const STOPPED_MS = 20_000;

async function main(): Promise<void> {
  const options = soakOptions(process.argv.slice(2));
  const limit = options.memory === undefined ? undefined : MemoryLimit.make(options.memory);
  if (options.memory !== undefined && !limit) return say(`SKIPPED: this machine lets nobody but root make a control group, so the server cannot be limited to ${options.memory} MiB`);
  const broker = await startBroker();
  try {
    const server = await start(options, limit);
    say(`plantroom soak: ${options.seconds} s at ${options.share} of the standard load, seed ${options.seed}, ${broker.name}${limit ? `, the server has ${options.memory} MiB` : ''}`);
    if (await soak(server, broker.url, options, limit)) await server.remove();
    else {
      process.exitCode = 1;
      await server.process.stop();
      say(`\nits folder, with server.log, is kept: ${server.folder}`);
    }
  } finally {
    await broker.stop();
    limit?.remove();
  }
}

/** With a debugger that is asked for what is alive on the heap; where memory is limited without, because that also collects more than the server would by itself. */
async function start({ binary }: SoakOptions, limit: MemoryLimit | undefined): Promise<PlantroomServer> {
  const program = binary === undefined ? [process.execPath, join(__dirname, 'main.js')] : [binary];
  return await PlantroomServer.start({ PLANTROOM_LOG_LEVEL: 'warn', ...(limit ? {} : { NODE_OPTIONS: DEBUGGER }) }, { launch: [...(limit?.launch ?? []), ...program] });
}

/** Whether all was well. */
async function soak(server: PlantroomServer, brokerUrl: string, options: SoakOptions, limit: MemoryLimit | undefined): Promise<boolean> {
  const died = server.process.ended.then((how) => ({ how }));
  const ended = await Promise.race([Run.whole(server, brokerUrl, options), died]);
  if ('how' in ended) {
    say(`\nFAILED: the server ended with ${ended.how}${limit ? ` (most memory: ${limit.peak.toFixed(0)} MiB)` : ''}`);
    return false;
  }
  const findings = [...judge(ended.seen), ...ended.lost, await stopped(server)];
  report(options.seconds, ended.seen.tallies, ended.seen.samples, ended.seen.live.map(({ value }) => value), findings);
  if (limit) say(`  the most that the control group ever had, with cached files: ${limit.peak.toFixed(0)} of ${options.memory} MiB`);
  return findings.every(({ ok }) => ok);
}

async function stopped(server: PlantroomServer): Promise<{ name: string; ok: boolean; text: string }> {
  const began = performance.now();
  void server.process.stop();
  const how = await Promise.race([server.process.ended, pause(STOPPED_MS, 'did not end', { ref: false })]);
  return { name: 'stop', ok: how === 0, text: `${how === 0 ? 'in peace' : how} after ${((performance.now() - began) / 1000).toFixed(1)} s` };
}

void main().catch((error: unknown) => {
  process.stderr.write(`${error instanceof Error ? (error.stack ?? error.message) : String(error)}\n`);
  process.exitCode = 1;
});
