// npm run soak: runs a server under constant load and measures it from outside. Exits with 1 if a resource grows, data
// is lost, or a call fails.
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { startBroker } from '../bench/benchBroker';
import { PlantroomServer } from '../bench/plantroomServer';
import { judge } from './judge';
import { MemoryLimit } from './memoryLimit';
import { parseOptions, type SoakOptions } from './options';
import { printReport, print } from './report';
import { Run } from './run';

const DEBUGGER = '--inspect=127.0.0.1:0';
const MAX_SHUTDOWN_MS = 20_000;

async function main(): Promise<void> {
  const options = parseOptions(process.argv.slice(2));
  const limit = options.memory === undefined ? undefined : MemoryLimit.create(options.memory);
  if (options.memory !== undefined && !limit)
    return print(
      `SKIPPED: cannot create a control group (are you root?), so the server cannot be limited to ${options.memory} MiB`,
    );
  const broker = await startBroker();
  try {
    const server = await startServer(options, limit);
    print(
      `plantroom soak: ${options.seconds} s at ${options.share} of the standard load, seed ${options.seed}, ${broker.name}${limit ? `, memory limit ${options.memory} MiB` : ''}`,
    );
    if (await soak(server, broker.url, options, limit)) await server.remove();
    else {
      process.exitCode = 1;
      await server.process.stop();
      print(`\nthe folder with server.log was kept: ${server.folder}`);
    }
  } finally {
    await broker.stop();
    limit?.remove();
  }
}

/**
 * Starts the server with a debugger, which is used to measure the live heap. With a memory limit it runs without, because
 * measuring also collects more garbage than the server would.
 */
async function startServer({ binary }: SoakOptions, limit: MemoryLimit | undefined): Promise<PlantroomServer> {
  const program = binary === undefined ? [process.execPath, join(__dirname, 'main.js')] : [binary];
  return await PlantroomServer.start(
    { PLANTROOM_LOG_LEVEL: 'warn', ...(limit ? {} : { NODE_OPTIONS: DEBUGGER }) },
    { launch: [...(limit?.launch ?? []), ...program] },
  );
}

/** Runs the load and prints the report. Returns whether all checks passed. */
async function soak(
  server: PlantroomServer,
  brokerUrl: string,
  options: SoakOptions,
  limit: MemoryLimit | undefined,
): Promise<boolean> {
  const died = server.process.ended.then((reason) => ({ reason }));
  const ended = await Promise.race([Run.execute(server, brokerUrl, options), died]);
  if ('reason' in ended) {
    print(
      `\nFAILED: the server exited with ${ended.reason}${limit ? ` (peak memory: ${limit.peak.toFixed(0)} MiB)` : ''}`,
    );
    return false;
  }
  const findings = [...judge(ended.result), ...ended.lost, await checkShutdown(server)];
  printReport(
    options.seconds,
    ended.result.counters,
    ended.result.samples,
    ended.result.live.map(({ value }) => value),
    findings,
  );
  if (limit)
    print(
      `  peak memory of the control group, including cached files: ${limit.peak.toFixed(0)} of ${options.memory} MiB`,
    );
  return findings.every(({ ok }) => ok);
}

async function checkShutdown(server: PlantroomServer): Promise<{ name: string; ok: boolean; text: string }> {
  const began = performance.now();
  void server.process.stop();
  const reason = await Promise.race([server.process.ended, pause(MAX_SHUTDOWN_MS, 'did not exit', { ref: false })]);
  return {
    name: 'stop',
    ok: reason === 0,
    text: `${reason === 0 ? 'cleanly' : reason} after ${((performance.now() - began) / 1000).toFixed(1)} s`,
  };
}

void main().catch((error: unknown) => {
  process.stderr.write(`${error instanceof Error ? (error.stack ?? error.message) : String(error)}\n`);
  process.exitCode = 1;
});
