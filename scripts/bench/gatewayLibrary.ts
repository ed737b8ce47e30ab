import { runExecutions } from './executionRun';
import { positions } from './executions';
import { runGatewayUplinks } from './gatewayLibraryRun';
import { WAYS, type Way } from './gatewayLibraryWays';
import { median, row, say, short } from './measure';
import { PlantroomServer } from './plantroomServer';
import { makeSite } from './site';
import { makeSensingDevices } from './uplinkSite';

const VALVES = 100;
const METERS = short ? 20 : 100;
const UPLINKS = short ? 1000 : 5000;
const rounds = short ? 2 : 5;
const milliseconds = short ? 500 : 3000;
const GOAL = 0.8;

/** What came of a turn, with the CPU time of this process, which is the gateway's and the load's, in microseconds for each. */
type Turn = Awaited<ReturnType<typeof runExecutions>> & { readonly own: number };

/** Gateways on the library against one that is written by hand with the stubs, in turns: uplinks, then commands. The gateway has the core that the server has not. */
export async function benchGatewayLibrary(): Promise<void> {
  say(`\nthe gateway library against a raw stream of the stub, TLS on, every step on the server's disk (goal: ${GOAL} or better)`);
  const server = await PlantroomServer.start();
  try {
    await uplinks(server);
    await commands(server);
  } finally {
    await server.remove();
  }
}

async function uplinks(server: PlantroomServer): Promise<void> {
  const { key } = server;
  const { connectionId } = await makeSite(server, key, 1);
  const devices = (await makeSensingDevices(server, connectionId, METERS, 'meter')).map(({ clientDeviceId }) => clientDeviceId);
  await inTurns('uplinks', async (way) => await runGatewayUplinks(way, { server, key, connectionId }, devices, UPLINKS));
}

async function commands(server: PlantroomServer): Promise<void> {
  const site = await makeSite(server, server.key, VALVES);
  const position = positions();
  await inTurns('commands, execute to accepted', async (way) => await runExecutions(site, { milliseconds, concurrency: VALVES, position, attach: async (acknowledged) => await way.attach(site, { acknowledged, uplinked: () => {} }) }));
}

/** A round of each way at a time: what the machine does meanwhile meets all alike. */
async function inTurns(name: string, run: (way: Way) => Promise<Omit<Turn, 'own'>>): Promise<void> {
  const turns = new Map<Way, Turn[]>(WAYS.map((way) => [way, []]));
  for (let round = 0; round <= rounds; round += 1) {
    for (const way of WAYS) {
      const turn = await withOwn(async () => await run(way));
      if (round > 0) turns.get(way)?.push(turn); // the first warms up
    }
  }
  const [raw, ...others] = WAYS.map((way) => show(name, way, turns.get(way) ?? []));
  for (const other of others) verdict(name, other, raw as Shown);
}

interface Shown {
  readonly way: Way;
  readonly turns: readonly Turn[];
}

function show(name: string, way: Way, turns: readonly Turn[]): Shown {
  row(`${name}: ${way.name}`, turns);
  return { way, turns };
}

/** The median of the ratios of the rounds, for each round had the same minute of the machine. */
function verdict(name: string, { way, turns }: Shown, raw: Shown): void {
  const ratio = median(turns.map(({ perSecond }, round) => perSecond / (raw.turns[round]?.perSecond ?? Number.NaN)));
  const own = (shown: Shown): string => median(shown.turns.map((turn) => turn.own)).toFixed(0);
  say(`  -> ${name}, ${way.name}: ${ratio.toFixed(2)} of the raw stream${ratio < GOAL ? ', BELOW THE GOAL' : ''}; this process took ${own({ way, turns })} us of CPU for each, with the raw stream ${own(raw)} us`);
}

async function withOwn(run: () => Promise<Omit<Turn, 'own'>>): Promise<Turn> {
  const before = process.cpuUsage();
  const result = await run();
  const { user, system } = process.cpuUsage(before);
  return { ...result, own: (user + system) / result.calls };
}
