import { Client, credentials, type ClientDuplexStream, type Metadata, type ServiceError } from '@grpc/grpc-js';
import { create, toBinary, type DescMessage } from '@bufbuild/protobuf';
import { readFileSync } from 'node:fs';
import { type App, startApp } from '../../src/app';
import { loadConfig } from '../../src/config';
import { systemClock } from '../../src/kernel/clock';
import { asset } from '../../src/kernel/assets';
import { SCOPES } from '../../src/kernel/scopes';
import { Descriptors, type MethodFacts } from '../../src/rpc/descriptors';
import { headers, MemoryLog, seen, type SeenError } from './edge';
import type { TestDatabase, TestEngine } from './engines';

/** The protos, as the server reads them. */
export const descriptors = new Descriptors(asset('image.binpb'));

/** What a client sees of one call: the first answer's bytes, or the error. */
export interface Outcome {
  readonly code: number;
  readonly answer: Buffer | undefined;
  readonly error: SeenError | undefined;
}

/** The fields of a request by their JSON names; what is left out is absent. */
export type Fields = Readonly<Record<string, unknown>>;

/** What a key of a test has other than most. */
export interface KeyOverrides {
  readonly scopes?: readonly string[];
  readonly expiresAt?: number;
  readonly isAdmin?: boolean;
  readonly allowedAddresses?: readonly string[];
  readonly ownerUserId?: string;
}

/** The whole server on a free port with TLS, a database of its own, and a client that is built from the protos alone. */
export interface TestApp {
  readonly app: App;
  readonly log: MemoryLog;
  readonly database: TestDatabase;
  /** The organization and key of the first start. */
  readonly organizationId: string;
  readonly key: string;
  /** Another organization. */
  organization(name: string): Promise<string>;
  /** A key; of all scopes and gateway connections unless said. */
  newKey(organizationId: string, overrides?: KeyOverrides): Promise<{ key: string; id: string }>;
  /** Calls a method with these bytes, of a stream of requests the only one; of a stream of answers it waits for the first or the end. */
  send(facts: MethodFacts, message: Uint8Array, fields: Readonly<Record<string, string>>): Promise<Outcome>;
  stop(): Promise<void>;
}

/** Starts it; `flags`: settings that are not as usual. */
export async function startTestApp(engine: TestEngine, flags: Readonly<Record<string, string>> = {}): Promise<TestApp> {
  const database = await engine.createDatabase();
  const log = new MemoryLog();
  const { config } = loadConfig({ file: false, env: {}, flags: { 'data.dir': database.dataDir, 'grpc.listen': '127.0.0.1:0', 'http.listen': '127.0.0.1:0', 'metrics.listen': 'off', 'database.reserveMib': '0', 'database.url': database.url, 'limits.stopMs': '2000', 'rates.failedPerMinute': '0', ...flags } });
  const app = await startApp(config, { log, clock: systemClock });
  if (!app.bootstrapped || !app.ca) throw new Error('the database was not empty, or TLS is off');
  const client = new Client(app.addresses.grpc.replace('127.0.0.1', 'localhost'), credentials.createSsl(readFileSync(app.ca)), { 'grpc.enable_retries': 0 });
  return {
    app,
    log,
    database,
    organizationId: app.bootstrapped.organization.id,
    key: app.bootstrapped.key,
    organization: async (name) => (await app.organizations.create(name)).id,
    newKey: async (organizationId, overrides = {}) => {
      const { scopes = SCOPES } = overrides;
      const wanted = { name: 'test', connectionIds: [], allConnections: scopes.includes('gateways:write'), ownerUserId: undefined, isAdmin: false, expiresAt: undefined, ...overrides, scopes };
      const { key, apiKey } = await app.keys.create(organizationId, wanted);
      return { key, id: apiKey.id };
    },
    send: async (facts, message, fields) => await send(client, facts, Buffer.from(message), headers(fields)),
    stop: async () => {
      client.close();
      await app.stop();
      await database.drop();
    },
  };
}

/** The bytes of a request. */
export function encode(request: DescMessage, fields: Fields): Uint8Array {
  return toBinary(request, create(request, fields as never));
}

/** What every call sends. */
export function as(key: string, organizationId: string): Record<string, string> {
  return { 'x-api-key': key, 'x-organization-id': organizationId };
}

const same = (bytes: Buffer): Buffer => bytes;

async function send(client: Client, facts: MethodFacts, message: Buffer, metadata: Metadata): Promise<Outcome> {
  return await new Promise((resolve) => {
    const failed = (error: ServiceError): void => resolve({ code: error.code, answer: undefined, error: seen(error) });
    const answered = (answer: Buffer | undefined): void => resolve({ code: 0, answer, error: undefined });
    if (facts.kind === 'unary') {
      client.makeUnaryRequest(facts.path, same, same, message, metadata, (error, answer) => (error ? failed(error) : answered(answer)));
      return;
    }
    if (facts.kind === 'client_streaming') {
      client.makeClientStreamRequest(facts.path, same, same, metadata, (error, answer) => (error ? failed(error) : answered(answer))).end(message);
      return;
    }
    const stream = facts.kind === 'server_streaming' ? client.makeServerStreamRequest(facts.path, same, same, message, metadata) : opened(client.makeBidiStreamRequest(facts.path, same, same, metadata), message);
    stream.on('error', failed);
    stream.on('data', (answer: Buffer) => {
      answered(answer);
      stream.cancel();
    });
    stream.on('end', () => answered(undefined));
  });
}

function opened(stream: ClientDuplexStream<Buffer, Buffer>, message: Buffer): ClientDuplexStream<Buffer, Buffer> {
  stream.write(message);
  return stream;
}
