import { systemClock } from '../../src/kernel/clock';
import { RestServer, type RestServerOptions } from '../../src/rpc/rest/server';
import { Services, type ServicesOptions } from '../../src/rpc/services';
import { ServerTls, type ServerTlsOptions } from '../../src/rpc/tls/serverTls';
import { FakeAuthenticator, MemoryLog, plainText, temporaryFolder } from '../support/edge';

/** What every call of the tests sends. */
export const FIELDS = { 'x-api-key': 'key', 'x-organization-id': 'org-1' };

/** A REST server on a free port of loopback with a key of its own, and what a test needs around it. */
export interface RestEdge {
  readonly server: Services;
  readonly door: RestServer;
  readonly keys: FakeAuthenticator;
  readonly log: MemoryLog;
  /** `host:port`. */
  readonly address: string;
  /** The file of the CA; undefined without TLS. */
  readonly ca: string | undefined;
  readonly tls: ServerTls;
  /** Stops the server in peace, within the limit. */
  stop(limitMs?: number): Promise<void>;
}

/** What of it is not as usual. */
export interface RestEdgeOptions {
  readonly isSecure?: boolean;
  readonly listen?: string;
  readonly tlsOptions?: Partial<ServerTlsOptions>;
  readonly rest?: Partial<RestServerOptions>;
}

/** Starts one; `add` gives it its services. */
export async function startRestEdge(add: (server: Services) => void, { isSecure = false, listen = '127.0.0.1:0', tlsOptions = {}, rest = {}, ...overrides }: Partial<ServicesOptions> & RestEdgeOptions = {}): Promise<RestEdge> {
  const log = new MemoryLog();
  const keys = new FakeAuthenticator();
  keys.add('key');
  const folder = await temporaryFolder();
  const tls = isSecure ? new ServerTls({ mode: 'auto', dataDir: folder.path, names: [], allowPlaintextNetwork: false, clock: systemClock, log, machineNames: () => ['localhost', '127.0.0.1'], ...tlsOptions }) : plainText(log);
  await tls.start();
  const server = new Services({ authenticator: keys, log, clock: systemClock, reflection: false, ...overrides });
  add(server);
  const door = new RestServer({ services: server, tls, trustedProxies: [], corsOrigins: [], links: [], docs: false, publicUrl: '', ...rest });
  const { address } = await door.start(listen);
  const stop = async (limitMs = 1000): Promise<void> => {
    await server.stop(limitMs, [door]);
    tls.stop();
    await folder.remove();
  };
  return { server, door, keys, log, address, ca: tls.caFile, tls, stop };
}
