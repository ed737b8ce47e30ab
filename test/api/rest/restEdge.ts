import { systemClock } from '../../../src/kernel/clock';
import { RestServer, type RestServerOptions } from '../../../src/api/rest/restServer';
import { Services, type ServicesOptions } from '../../../src/api/services';
import { ServerTls, type ServerTlsOptions } from '../../../src/api/tls/serverTls';
import { FakeAuthenticator, MemoryLog, plainText, temporaryFolder } from '../../support/edge';

/** The headers of every call in the tests. */
export const FIELDS = { 'x-api-key': 'key', 'x-organization-id': 'org-1' };

/** A REST server on a free loopback port with an API key, and its dependencies. */
export interface RestEdge {
  readonly server: Services;
  readonly restServer: RestServer;
  readonly keys: FakeAuthenticator;
  readonly log: MemoryLog;
  /** `host:port`. */
  readonly address: string;
  /** The path of the CA file; undefined without TLS. */
  readonly ca: string | undefined;
  readonly tls: ServerTls;
  /** Stops the server gracefully, within the limit. */
  stop(limitMs?: number): Promise<void>;
}

/** Settings that differ from the defaults. */
export interface RestEdgeOptions {
  readonly isSecure?: boolean;
  readonly listen?: string;
  readonly tlsOptions?: Partial<ServerTlsOptions>;
  readonly rest?: Partial<RestServerOptions>;
}

/** Starts a server; `add` registers its services. */
export async function startRestEdge(
  add: (server: Services) => void,
  {
    isSecure = false,
    listen = '127.0.0.1:0',
    tlsOptions = {},
    rest = {},
    ...overrides
  }: Partial<ServicesOptions> & RestEdgeOptions = {},
): Promise<RestEdge> {
  const log = new MemoryLog();
  const keys = new FakeAuthenticator();
  keys.add('key');
  const folder = await temporaryFolder();
  const tls = isSecure
    ? new ServerTls({
        mode: 'auto',
        dataDir: folder.path,
        names: [],
        allowInsecureNetwork: false,
        clock: systemClock,
        log,
        machineNames: () => ['localhost', '127.0.0.1'],
        ...tlsOptions,
      })
    : plainText(log);
  await tls.start();
  const server = new Services({ authenticator: keys, log, clock: systemClock, reflection: false, ...overrides });
  add(server);
  const restServer = new RestServer({
    services: server,
    tls,
    trustedProxies: [],
    corsOrigins: [],
    links: [],
    docsEnabled: false,
    publicUrl: '',
    ...rest,
  });
  const { address } = await restServer.start(listen);
  const stop = async (limitMs = 1000): Promise<void> => {
    await server.stop(limitMs, [restServer]);
    tls.stop();
    await folder.remove();
  };
  return { server, restServer, keys, log, address, ca: tls.caFile, tls, stop };
}
