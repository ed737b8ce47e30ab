import { credentials } from '@grpc/grpc-js';
import { renameSync } from 'node:fs';
import { join } from 'node:path';
import { type RunningServer, startServer } from '../../src/server';
import { loadConfig } from '../../src/config';
import {
  type Connection,
  ConnectionServiceClient,
  ConnectionState,
  type ConnectionStatus,
  type CreateConnectionRequest,
} from '../../src/gen/connection/connection_service';
import { systemClock } from '../../src/kernel/clock';
import { listAnswers, call, headers, MemoryLog } from '../support/edge';
import { engines, type TestDatabase } from '../support/engines';
import { as } from '../support/testApp';

const PASSWORD = 'correct horse battery staple';
// Nothing listens on port 1.
const configuration = {
  url: 'mqtt://127.0.0.1:1',
  username: 'plantroom',
  password: PASSWORD,
  applicationId: '0190a0a0-0000-7000-8000-000000000001',
};

describe.each(engines())('connections of a starting server, on $name', (engine) => {
  let test: TestDatabase;
  let app: RunningServer | undefined;
  let client: ConnectionServiceClient;
  let caller: Record<string, string>;
  const logs: MemoryLog[] = [];

  const start = async (): Promise<void> => {
    const flags = {
      'data.dir': test.dataDir,
      'database.url': test.url,
      'grpc.listen': '127.0.0.1:0',
      'http.listen': '127.0.0.1:0',
      'metrics.listen': 'off',
      'database.diskReserveMib': '0',
      'tls.mode': 'off',
      'limits.shutdownTimeoutMs': '2000',
    };
    const log = new MemoryLog();
    logs.push(log);
    app = await startServer(loadConfig({ file: false, env: {}, flags }).config, { log, clock: systemClock });
    caller = app.bootstrapped ? as(app.bootstrapped.key, app.bootstrapped.organization.id) : caller;
    client = new ConnectionServiceClient(app.addresses.grpc, credentials.createInsecure());
  };
  const stop = async (): Promise<void> => {
    client.close();
    await app?.stop();
    app = undefined;
  };
  beforeEach(async () => {
    test = await engine.createDatabase();
  });
  afterEach(async () => {
    if (app) await stop();
    await test.drop();
  });

  /** Watches a connection until its status matches. */
  const until = async (id: string, isExpected: (status: ConnectionStatus) => boolean): Promise<ConnectionStatus> => {
    const stream = client.watchConnectionStatus({ organizationId: '', ids: [id] }, headers(caller));
    for await (const { status } of listAnswers(stream)) if (status && isExpected(status)) return status;
    throw new Error('the stream ended');
  };

  it('are started again even without a reachable peer; a missing secrets key stops only the connections that need it', async () => {
    await start();
    const request: CreateConnectionRequest = {
      organizationId: '',
      connectorId: 'chirpstack',
      name: 'Network server',
      configuration,
      policy: undefined,
    };
    const { id } = await call<CreateConnectionRequest, Connection>(
      client.createConnection.bind(client),
      request,
      caller,
    );
    await until(id, ({ lastError }) => lastError !== '');
    await stop();

    const key = join(test.dataDir, 'secrets.key');
    renameSync(key, `${key}.away`);
    await start();
    const failed = await until(id, ({ state }) => state === ConnectionState.CONNECTION_STATE_ERROR);
    expect(failed.lastError).toMatch(
      /^secrets_unreadable: the secret fields `password` are unreadable: .* is missing; restore it$/,
    );
    await stop();

    renameSync(`${key}.away`, key);
    await start();
    expect(await until(id, ({ lastError }) => lastError !== '')).toMatchObject({
      state: ConnectionState.CONNECTION_STATE_DISCONNECTED,
      lastError: expect.not.stringContaining('secrets'),
    });
    await stop();
    expect(JSON.stringify(logs)).not.toContain(PASSWORD);
  });
});
