import { join } from 'node:path';
import { UpdateConnectionRequest } from '../../src/gen/connection/connection_service';
import { ExecuteCommandRequest } from '../../src/gen/actuator_command/v2/actuator_command_service';
import { UpdateDigitalDeviceRequest } from '../../src/gen/digitaldevice/v2/digital_device_service';
import { ask, DEVICES, target } from './fleet';
import { run } from './load';
import { argument, compare, say, short, turnMs, type Subject } from './measure';
import { PlantroomServer } from './plantroomServer';
import { startPostgres } from './postgres';
import { COMMANDS, makeSite, type Site } from './site';

const UNAUDITED = join(__dirname, 'bench-unaudited.js');
const VALVES = 512;
const rounds = short ? 3 : 11;

/** What the audit trail adds to a change: the same calls on a server and on one without it, in turns. */
export async function benchAudit(): Promise<void> {
  say('\nwhat the audit trail adds to a change: two servers, one without the trail, in turns, TLS off, every call on disk');
  const engine = argument('--engine') ?? 'both';
  if (engine !== 'PostgreSQL') await onEngine('SQLite', {}, {});
  if (engine !== 'SQLite') await onPostgres();
}

async function onPostgres(): Promise<void> {
  const servers = [await startPostgres(), await startPostgres()];
  try {
    const [first, second] = servers.map((server) => server && { PLANTROOM_DATABASE_URL: server.url });
    if (first && second) await onEngine('PostgreSQL', first, second);
    else say('  PostgreSQL: the package with its program is not installed; left out');
  } finally {
    for (const server of servers) await server?.stop();
  }
}

async function onEngine(engine: string, plainEnv: NodeJS.ProcessEnv, auditedEnv: NodeJS.ProcessEnv): Promise<void> {
  const servers: PlantroomServer[] = [];
  const site = async (env: NodeJS.ProcessEnv, program?: string): Promise<Site> => {
    const server = await PlantroomServer.start({ PLANTROOM_TLS_MODE: 'off', ...env }, program === undefined ? {} : { program });
    servers.push(server);
    const made = await makeSite(server, server.key, VALVES);
    const policy = UpdateConnectionRequest.fromPartial({ id: made.connectionId, policy: { queueLimit: 1000, sleepy: true } });
    await ask(server, server.key, '/connection.ConnectionService/UpdateConnection', UpdateConnectionRequest.encode(policy).finish());
    return made;
  };
  try {
    const sites = [await site(plainEnv, UNAUDITED), await site(auditedEnv)] as const;
    for (const concurrency of [1, 32]) {
      for (const method of [UPDATE, EXECUTE]) {
        const [without, withIt] = await compare(sites.map((one, at): Subject => subject(`${engine}, ${method.name}, ${concurrency} at once, ${at === 0 ? 'without' : 'with'} the trail`, one, method, concurrency)), rounds);
        if (without && withIt) say(`  -> with the trail: p50 ${(withIt.p50 / without.p50).toFixed(2)} times, CPU a call ${(withIt.cpu / without.cpu).toFixed(2)} times, calls a second ${(withIt.perSecond / without.perSecond).toFixed(2)} times`);
      }
    }
  } finally {
    for (const server of servers) await server.remove();
  }
}

/** A method that is called on one valve after the other. */
interface Method {
  readonly name: string;
  readonly path: string;
  message(site: Site, n: number): Uint8Array;
}

const valve = ({ valves }: Site, n: number) => valves[n % valves.length] as Site['valves'][number];

const UPDATE: Method = {
  name: 'UpdateDigitalDevice',
  path: `${DEVICES}/UpdateDigitalDevice`,
  message: (site, n) => UpdateDigitalDeviceRequest.encode(UpdateDigitalDeviceRequest.fromPartial({ id: valve(site, n).deviceId, name: `Valve ${n}` })).finish(),
};

/** No gateway is there: what is executed stays queued, and only the call is measured. */
const EXECUTE: Method = {
  name: 'ExecuteCommand',
  path: `${COMMANDS}/ExecuteCommand`,
  message: (site, n) => {
    const { deviceId, commandId } = valve(site, n);
    return ExecuteCommandRequest.encode(ExecuteCommandRequest.fromPartial({ id: deviceId, commandId, params: { position: n } })).finish();
  },
};

function subject(name: string, site: Site, method: Method, concurrency: number): Subject {
  const load = { ...target(site.server, site.key, method.path), concurrency, milliseconds: turnMs, message: (n: number) => method.message(site, n) };
  return { name, server: site.server.process, load: async (milliseconds) => await run({ ...load, milliseconds }) };
}
