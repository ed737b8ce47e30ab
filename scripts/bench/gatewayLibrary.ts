import { runExecutions } from './executionRun';
import { createCounter } from './executions';
import { runGatewayUplinks } from './gatewayLibraryRun';
import { IMPLEMENTATIONS, type GatewayImplementation } from './gatewayImplementations';
import { median, printRow, print, isShort } from './measure';
import { PlantroomServer } from './plantroomServer';
import { createSite } from './site';
import { createSensingDevices } from './uplinkSite';

const VALVES = 100;
const METERS = isShort ? 20 : 100;
const UPLINKS = isShort ? 1000 : 5000;
const rounds = isShort ? 2 : 5;
const milliseconds = isShort ? 500 : 3000;
const GOAL = 0.8;

/** The result of a round; `ownCpu`: CPU time of this process (gateway and load) per operation, in microseconds. */
type RoundResult = Awaited<ReturnType<typeof runExecutions>> & { readonly ownCpu: number };

/**
 * Compares gateways that use the library with one that uses the stubs directly, alternating: uplinks, then commands. The
 * gateways run on another core than the server.
 */
export async function benchGatewayLibrary(): Promise<void> {
  print(
    `\nthe gateway library against a raw stream of the stub, TLS on, every step on the server's disk (goal: ${GOAL} or better)`,
  );
  const server = await PlantroomServer.start();
  try {
    await benchUplinks(server);
    await benchCommands(server);
  } finally {
    await server.remove();
  }
}

async function benchUplinks(server: PlantroomServer): Promise<void> {
  const { key } = server;
  const { connectionId } = await createSite(server, key, 1);
  const devices = (await createSensingDevices(server, connectionId, METERS, 'meter')).map(
    ({ clientDeviceId }) => clientDeviceId,
  );
  await compareAlternately(
    'uplinks',
    async (implementation) => await runGatewayUplinks(implementation, { server, key, connectionId }, devices, UPLINKS),
  );
}

async function benchCommands(server: PlantroomServer): Promise<void> {
  const site = await createSite(server, server.key, VALVES);
  const position = createCounter();
  await compareAlternately(
    'commands, execute to accepted',
    async (implementation) =>
      await runExecutions(site, {
        milliseconds,
        concurrency: VALVES,
        position,
        attach: async (acknowledged) =>
          await implementation.attach(site, { acknowledged, uplinkAcknowledged: () => {} }),
      }),
  );
}

/** Alternates the implementations, so that disturbances of the machine affect all of them alike. */
async function compareAlternately(
  name: string,
  run: (implementation: GatewayImplementation) => Promise<Omit<RoundResult, 'ownCpu'>>,
): Promise<void> {
  const turns = new Map<GatewayImplementation, RoundResult[]>(
    IMPLEMENTATIONS.map((implementation) => [implementation, []]),
  );
  for (let round = 0; round <= rounds; round += 1) {
    for (const implementation of IMPLEMENTATIONS) {
      const turn = await measureOwnCpu(async () => await run(implementation));
      if (round > 0) turns.get(implementation)?.push(turn); // the first warms up
    }
  }
  const [raw, ...others] = IMPLEMENTATIONS.map((implementation) =>
    printResults(name, implementation, turns.get(implementation) ?? []),
  );
  for (const other of others) printVerdict(name, other, raw as Results);
}

interface Results {
  readonly implementation: GatewayImplementation;
  readonly turns: readonly RoundResult[];
}

function printResults(name: string, implementation: GatewayImplementation, turns: readonly RoundResult[]): Results {
  printRow(`${name}: ${implementation.name}`, turns);
  return { implementation, turns };
}

/** Prints the median of the ratios per round, because each round runs under the same conditions. */
function printVerdict(name: string, { implementation, turns }: Results, raw: Results): void {
  const ratio = median(turns.map(({ perSecond }, round) => perSecond / (raw.turns[round]?.perSecond ?? Number.NaN)));
  const own = (shown: Results): string => median(shown.turns.map((turn) => turn.ownCpu)).toFixed(0);
  print(
    `  -> ${name}, ${implementation.name}: ${ratio.toFixed(2)} of the raw stream${ratio < GOAL ? ', BELOW THE GOAL' : ''}; this process took ${own({ implementation, turns })} us of CPU for each, with the raw stream ${own(raw)} us`,
  );
}

async function measureOwnCpu(run: () => Promise<Omit<RoundResult, 'ownCpu'>>): Promise<RoundResult> {
  const before = process.cpuUsage();
  const result = await run();
  const { user, system } = process.cpuUsage(before);
  return { ...result, ownCpu: (user + system) / result.calls };
}
