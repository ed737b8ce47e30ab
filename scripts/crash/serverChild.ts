import { join } from 'node:path';
import { type RunningServer, startServer } from '../../src/server';
import { loadConfig } from '../../src/config';
import { systemClock } from '../../src/kernel/clock';
import { DomainError } from '../../src/kernel/errors';
import { getLogFile } from './serverLog';
import { TrapLogger, type Trap } from './trapLogger';

/** The start parameters of a server: the program's argument after `serve`, as JSON. */
export interface ServerOrders {
  readonly folder: string;
  /** The PostgreSQL database; '' for SQLite in the folder. */
  readonly databaseUrl: string;
  /** The gRPC address, `host:port`. */
  readonly listen: string;
  /** By how much its clock is ahead, in milliseconds. */
  readonly aheadMs: number;
  readonly trap: Trap | undefined;
}

/** Messages from the parent to the server. `skip`: move the clock forward. `stop`: shut down as for SIGTERM. */
export type ToServer =
  | { readonly kind: 'trap'; readonly trap: Trap | undefined }
  | { readonly kind: 'skip'; readonly ms: number }
  | { readonly kind: 'stop' };

/** The single message from a server to its parent. */
export type FromServer =
  | {
      readonly kind: 'ready';
      readonly address: string;
      readonly http: string;
      /** Set at the first start only. */ readonly key:
        { readonly organizationId: string; readonly apiKey: string } | undefined;
    }
  | { readonly kind: 'refused'; readonly reason: string; readonly message: string };

/** Runs the real server with a log that can kill it and a clock that can be moved forward, until its parent ends. */
export async function serveUntilKilled(orders: ServerOrders): Promise<void> {
  const log = new TrapLogger(getLogFile(orders.folder));
  log.arm(orders.trap);
  let ahead = orders.aheadMs;
  let app: RunningServer | undefined;
  const clock = { now: () => systemClock.now() + ahead, monotonic: () => systemClock.monotonic() };
  process.on('disconnect', () => process.exit(0));
  process.on('message', (order: ToServer) => {
    if (order.kind === 'trap') log.arm(order.trap);
    else if (order.kind === 'skip') ahead += order.ms;
    else void app?.stop().then(() => process.exit(0));
  });
  const env = {
    PLANTROOM_DATA_DIR: join(orders.folder, 'data'),
    PLANTROOM_GRPC_LISTEN: orders.listen,
    PLANTROOM_HTTP_LISTEN: '127.0.0.1:0',
    PLANTROOM_METRICS_LISTEN: '127.0.0.1:0',
    PLANTROOM_TLS_MODE: 'off',
    // On this busy machine an encoder waits for long in its queue, which must not fail a request.
    PLANTROOM_CODEC_TIMEOUT_MS: '20000',
    PLANTROOM_CODEC_HARD_TIMEOUT_MS: '60000',
    // A server that starts after a kill waits until the database lease of the killed one has expired.
    ...(orders.databaseUrl !== '' && {
      PLANTROOM_DATABASE_URL: orders.databaseUrl,
      PLANTROOM_DATABASE_LEASE_MS: '1000',
    }),
  };
  try {
    app = await startServer(loadConfig({ file: false, env }).config, { log, clock });
    const { bootstrapped } = app;
    sendToParent({
      kind: 'ready',
      address: app.addresses.grpc,
      http: app.addresses.http ?? '',
      key: bootstrapped && { organizationId: bootstrapped.organization.id, apiKey: bootstrapped.key },
    });
  } catch (error) {
    sendToParent({
      kind: 'refused',
      reason: error instanceof DomainError ? error.reason : 'internal',
      message: String(error),
    });
    process.disconnect();
  }
}

function sendToParent(message: FromServer): void {
  process.send?.(message);
}
