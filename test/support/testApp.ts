import {
  type ChannelCredentials,
  Client,
  credentials,
  type ClientDuplexStream,
  type Metadata,
  type ServiceError,
} from '@grpc/grpc-js';
import { create, toBinary, type DescMessage } from '@bufbuild/protobuf';
import { readFileSync } from 'node:fs';
import { type RunningServer, startServer } from '../../src/server';
import { loadConfig } from '../../src/config';
import { systemClock } from '../../src/kernel/clock';
import { SCOPES } from '../../src/kernel/scopes';
import { type MethodDescriptor, getApiDescriptors } from '../../src/api/descriptors/descriptors';
import { headers, MemoryLog, parseError, type GrpcErrorInfo } from './edge';
import type { TestDatabase, TestEngine } from './engines';

/** The protos, as the server reads them. */
export const descriptors = getApiDescriptors();

/** What a client gets from one call: the bytes of the first response, or the error. */
export interface Outcome {
  readonly code: number;
  readonly answer: Buffer | undefined;
  readonly error: GrpcErrorInfo | undefined;
}

/** The fields of a request by their JSON names. Omitted fields are absent. */
export type Fields = Readonly<Record<string, unknown>>;

/** Properties of a test key that differ from the defaults. */
export interface KeyOverrides {
  readonly scopes?: readonly string[];
  readonly expiresAt?: number;
  readonly isAdmin?: boolean;
  readonly allowedAddresses?: readonly string[];
  readonly ownerUserId?: string;
}

/** The complete server on a free port with TLS, its own database, and a client that is built from the protos only. */
export interface TestApp {
  readonly app: RunningServer;
  readonly log: MemoryLog;
  readonly database: TestDatabase;
  /** The organization and key of the first start. */
  readonly organizationId: string;
  readonly key: string;
  /** Creates a client of the gRPC port, which is closed with the server. */
  client<C extends { close(): void }>(Service: new (address: string, channel: ChannelCredentials) => C): C;
  /** Creates another organization. */
  organization(name: string): Promise<string>;
  /** Creates a key, by default with all scopes and gateway connections. */
  newKey(organizationId: string, overrides?: KeyOverrides): Promise<{ key: string; id: string }>;
  /**
   * Calls a method with these bytes. For a stream of requests they are the only message. For a stream of responses it
   * waits for the first one or the end.
   */
  send(descriptor: MethodDescriptor, message: Uint8Array, fields: Readonly<Record<string, string>>): Promise<Outcome>;
  stop(): Promise<void>;
}

/** Starts the server. `flags` are settings that differ from the defaults. */
export async function startTestApp(engine: TestEngine, flags: Readonly<Record<string, string>> = {}): Promise<TestApp> {
  const database = await engine.createDatabase();
  const log = new MemoryLog();
  const { config } = loadConfig({
    file: false,
    env: {},
    flags: {
      'data.dir': database.dataDir,
      'grpc.listen': '127.0.0.1:0',
      'http.listen': '127.0.0.1:0',
      'metrics.listen': 'off',
      'database.diskReserveMib': '0',
      'database.url': database.url,
      'limits.shutdownTimeoutMs': '2000',
      'rateLimit.failuresPerMinute': '0',
      ...flags,
    },
  });
  const app = await startServer(config, { log, clock: systemClock });
  if (!app.bootstrapped || !app.ca) throw new Error('the database was not empty, or TLS is off');
  const address = app.addresses.grpc.replace('127.0.0.1', 'localhost');
  const channel = credentials.createSsl(readFileSync(app.ca));
  const client = new Client(address, channel, { 'grpc.enable_retries': 0 });
  const clients: { close(): void }[] = [client];
  return {
    app,
    log,
    database,
    organizationId: app.bootstrapped.organization.id,
    key: app.bootstrapped.key,
    client: (Service) => {
      const made = new Service(address, channel);
      clients.push(made);
      return made;
    },
    organization: async (name) => (await app.organizations.create(name)).id,
    newKey: async (organizationId, overrides = {}) => {
      const { scopes = SCOPES } = overrides;
      const keyFields = {
        name: 'test',
        connectionIds: [],
        allConnections: scopes.includes('gateways:write'),
        ownerUserId: undefined,
        isAdmin: false,
        expiresAt: undefined,
        ...overrides,
        scopes,
      };
      const { key, apiKey } = await app.keys.create(organizationId, keyFields);
      return { key, id: apiKey.id };
    },
    send: async (descriptor, message, fields) => await send(client, descriptor, Buffer.from(message), headers(fields)),
    stop: async () => {
      for (const one of clients) one.close();
      await app.stop();
      await database.drop();
    },
  };
}

/** Encodes a request. */
export function encode(request: DescMessage, fields: Fields): Uint8Array {
  return toBinary(request, create(request, fields as never));
}

/** Returns the headers that every call sends. */
export function as(key: string, organizationId: string): Record<string, string> {
  return { 'x-api-key': key, 'x-organization-id': organizationId };
}

const same = (bytes: Buffer): Buffer => bytes;

async function send(
  client: Client,
  descriptor: MethodDescriptor,
  message: Buffer,
  metadata: Metadata,
): Promise<Outcome> {
  return await new Promise((resolve) => {
    const failed = (error: ServiceError): void =>
      resolve({ code: error.code, answer: undefined, error: parseError(error) });
    const finish = (answer: Buffer | undefined): void => resolve({ code: 0, answer, error: undefined });
    if (descriptor.kind === 'unary') {
      client.makeUnaryRequest(descriptor.path, same, same, message, metadata, (error, answer) =>
        error ? failed(error) : finish(answer),
      );
      return;
    }
    if (descriptor.kind === 'client_streaming') {
      client
        .makeClientStreamRequest(descriptor.path, same, same, metadata, (error, answer) =>
          error ? failed(error) : finish(answer),
        )
        .end(message);
      return;
    }
    const stream =
      descriptor.kind === 'server_streaming'
        ? client.makeServerStreamRequest(descriptor.path, same, same, message, metadata)
        : opened(client.makeBidiStreamRequest(descriptor.path, same, same, metadata), message);
    stream.on('error', failed);
    stream.on('data', (answer: Buffer) => {
      finish(answer);
      stream.cancel();
    });
    stream.on('end', () => finish(undefined));
  });
}

function opened(stream: ClientDuplexStream<Buffer, Buffer>, message: Buffer): ClientDuplexStream<Buffer, Buffer> {
  stream.write(message);
  return stream;
}
