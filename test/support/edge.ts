import {
  ChannelCredentials,
  type ClientReadableStream,
  Metadata,
  type ChannelOptions,
  type ServiceError,
} from '@grpc/grpc-js';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { systemClock } from '../../src/kernel/clock';
import { DomainError } from '../../src/kernel/errors';
import type { Logger } from '../../src/kernel/logger';
import type { Principal } from '../../src/kernel/principal';
import { SCOPES } from '../../src/kernel/scopes';
import type { Authenticator } from '../../src/api/pipeline/authenticator';
import { GrpcServer } from '../../src/api/grpc/grpcServer';
import type { GrpcLimits } from '../../src/api/limits';
import { Services, type ServerTransport, type ServicesOptions } from '../../src/api/services';
import { ServerTls } from '../../src/api/tls/serverTls';
import { Status } from '../../src/gen/google/rpc/status';
import { BadRequest, ErrorInfo, RequestInfo, RetryInfo } from '../../src/gen/google/rpc/error_details';

/** One line of a log, as a test reads it. */
export interface LogLine {
  readonly level: string;
  readonly event: string;
  readonly fields: Record<string, unknown>;
}

/** A log in memory that a test can read. */
export class MemoryLog implements Logger {
  readonly lines: LogLine[] = [];
  private readonly waiting: { event: string; count: number; resolve: () => void }[] = [];

  debug = (fields: object, event: string): void => this.write('debug', fields, event);
  info = (fields: object, event: string): void => this.write('info', fields, event);
  warn = (fields: object, event: string): void => this.write('warn', fields, event);
  error = (fields: object, event: string): void => this.write('error', fields, event);

  /** Returns the fields of all lines of an event. */
  of(event: string): Record<string, unknown>[] {
    return this.lines.filter((line) => line.event === event).map((line) => line.fields);
  }

  /** Resolves when an event was logged this number of times. */
  async until(event: string, count = 1): Promise<void> {
    if (this.of(event).length < count)
      await new Promise<void>((resolve) => this.waiting.push({ event, count, resolve }));
  }

  private write(level: string, fields: object, event: string): void {
    this.lines.push({ level, event, fields: { ...fields } });
    for (const one of this.waiting) if (this.of(one.event).length >= one.count) one.resolve();
  }
}

/** Replaces the key store. It accepts fixed keys. A key that starts with `slow-` is answered by a promise. */
export class FakeAuthenticator implements Authenticator {
  readonly keys = new Map<string, Principal>();
  readonly ended = new Map<string, DomainError>();
  /** Peers that have no calls left. */
  readonly busy = new Set<string>();
  countedCalls = 0;
  lookups = 0;

  add(key: string, overrides: Partial<Principal> = {}): string {
    this.keys.set(key, {
      keyId: key,
      keyPrefix: `plr_${key}`,
      organizationId: 'org-1',
      ownerUserId: 'user-1',
      scopes: new Set(SCOPES),
      connections: 'all',
      resourceScope: undefined,
      allowedAddresses: [],
      canActAsOwner: true,
      isOwner: true,
      isAdmin: false,
      expiresAt: undefined,
      ...overrides,
    });
    return key;
  }

  authenticate(key: string | undefined, peer: string): Principal | Promise<Principal> {
    this.lookups += 1;
    return key?.startsWith('slow-') ? Promise.resolve().then(() => this.find(key, peer)) : this.find(key, peer);
  }

  recheck(principal: Principal): Promise<Principal> {
    const end = this.ended.get(principal.keyId);
    return end ? Promise.reject(end) : Promise.resolve(this.keys.get(principal.keyId) ?? principal);
  }

  countCall(_principal: Principal, peer: string): void {
    this.countedCalls += 1;
    if (this.busy.has(peer))
      throw new DomainError('exhausted', 'rate_limited', 'too many calls; wait a little', { retryAfterMs: 1500 });
  }

  assertAddressAllowed(principal: Principal, peer: string): void {
    const { allowedAddresses } = this.keys.get(principal.keyId) ?? principal;
    if (allowedAddresses.length > 0 && !allowedAddresses.includes(peer))
      throw new DomainError('permission_denied', 'address_not_allowed', 'use the key from elsewhere');
  }

  private find(key: string | undefined, peer: string): Principal {
    if (key === undefined)
      throw new DomainError('unauthenticated', 'api_key_missing', 'the call has no key; send it as x-api-key');
    const end = this.ended.get(key);
    if (end) throw end;
    const found = this.keys.get(key);
    if (!found) throw new DomainError('unauthenticated', 'api_key_invalid', 'the key is not one of this server');
    this.assertAddressAllowed(found, peer);
    return found;
  }
}

/** A server without TLS on a free port of loopback, and what a test needs with it. */
export interface TestEdge {
  readonly server: Services;
  readonly transport: ServerTransport;
  readonly keys: FakeAuthenticator;
  readonly log: MemoryLog;
  readonly address: string;
  /** Creates a client of the server, which is closed with it. */
  client<C extends { close(): void }>(
    Client: new (address: string, credentials: ChannelCredentials, options?: ChannelOptions) => C,
    options?: ChannelOptions,
  ): C;
  stop(): Promise<void>;
}

/** Starts such a server. `add` registers its services. */
export async function startEdge(
  add: (server: Services) => void,
  { limits = {}, tls, ...overrides }: Partial<ServicesOptions> & { limits?: Partial<GrpcLimits>; tls?: ServerTls } = {},
): Promise<TestEdge> {
  const log = new MemoryLog();
  const keys = new FakeAuthenticator();
  const server = new Services({ authenticator: keys, log, clock: systemClock, reflection: true, ...overrides });
  add(server);
  const door = new GrpcServer({ services: server, tls: tls ?? plainText(log), limits });
  const { address } = await door.start('127.0.0.1:0');
  const clients: { close(): void }[] = [];
  return {
    server,
    transport: door,
    keys,
    log,
    address,
    client: (Client, options) => {
      const client = new Client(address, ChannelCredentials.createInsecure(), {
        'grpc.use_local_subchannel_pool': 1,
        ...options,
      });
      clients.push(client);
      return client;
    },
    stop: async () => {
      for (const client of clients) client.close();
      await server.stop(1000, [door]);
    },
  };
}

/** Returns the TLS settings of a server without TLS, on loopback. */
export function plainText(log: Logger): ServerTls {
  return new ServerTls({ mode: 'off', dataDir: '', names: [], allowInsecureNetwork: false, clock: systemClock, log });
}

/** Creates the metadata of a call. */
export function headers(fields: Record<string, string>): Metadata {
  const metadata = new Metadata();
  for (const [name, value] of Object.entries(fields)) metadata.set(name, value);
  return metadata;
}

/** What a client gets of an error. */
export interface GrpcErrorInfo {
  readonly code: number;
  readonly message: string;
  readonly reason: string | undefined;
  readonly metadata: Record<string, string> | undefined;
  readonly fields: string[];
  readonly violations: Record<string, string>;
  readonly requestId: string | undefined;
  readonly retryMs: number | undefined;
  readonly trailers: Metadata;
}

/** Parses an error of a client, including its details. */
export function parseError(error: ServiceError): GrpcErrorInfo {
  const [raw] = error.metadata.get('grpc-status-details-bin');
  const details = raw ? Status.decode(raw as Buffer).details : [];
  const find = <T>(name: string, type: { decode(bytes: Uint8Array): T }): T | undefined => {
    const any = details.find((one) => one.typeUrl === `type.googleapis.com/google.rpc.${name}`);
    return any && type.decode(any.value);
  };
  const info = find('ErrorInfo', ErrorInfo);
  const violations = find('BadRequest', BadRequest)?.fieldViolations ?? [];
  const retry = find('RetryInfo', RetryInfo)?.retryDelay;
  return {
    code: error.code,
    message: error.details,
    reason: info?.reason,
    metadata: info?.metadata,
    fields: violations.map((one) => one.field),
    violations: Object.fromEntries(violations.map((one) => [one.field, one.description])),
    requestId: find('RequestInfo', RequestInfo)?.requestId,
    retryMs: retry && retry.seconds * 1000 + retry.nanos / 1e6,
    trailers: error.metadata,
  };
}

type Unary<Request, Response> = (
  request: Request,
  metadata: Metadata,
  callback: (error: ServiceError | null, response: Response) => void,
) => unknown;

/** Calls a unary method. Resolves with its response or the error. */
export async function call<Request, Response>(
  method: Unary<Request, Response>,
  request: Request,
  fields: Record<string, string>,
): Promise<Response> {
  return await new Promise((resolve, reject) =>
    method(request, headers(fields), (error, response) => (error ? reject(error) : resolve(response))),
  );
}

/** Calls a unary method that must fail. Resolves with what the client gets. */
export async function callFails<Request, Response>(
  method: Unary<Request, Response>,
  request: Request,
  fields: Record<string, string>,
): Promise<GrpcErrorInfo> {
  return await new Promise((resolve, reject) =>
    method(request, headers(fields), (error, response) =>
      error ? resolve(parseError(error)) : reject(new Error(`the call succeeded: ${JSON.stringify(response)}`)),
    ),
  );
}

/**
 * Iterates over the responses of a stream. Leaving the loop cancels the call, which grpc-js does not do automatically:
 * a call with unread responses keeps its connection open, and with it jest, for half a minute after both sides were
 * closed.
 */
export async function* listAnswers<Response>(stream: ClientReadableStream<Response>): AsyncGenerator<Response> {
  try {
    for await (const answer of stream) yield answer as Response;
  } finally {
    stream.on('error', () => {}).cancel();
  }
}

/** Creates an empty folder that is removed at the end. */
export async function temporaryFolder(): Promise<{ path: string; remove: () => Promise<void> }> {
  const path = await mkdtemp(join(tmpdir(), 'plantroom-'));
  return { path, remove: async () => await rm(path, { recursive: true }) };
}
