import { join } from 'node:path';
import { startApp } from '../../src/app';
import { loadConfig } from '../../src/config';
import { systemClock } from '../../src/kernel/clock';
import { DomainError } from '../../src/kernel/errors';
import { logFile } from './serverLog';
import { TrapLogger, type Trap } from './trapLogger';

/** How a server is started: the program's first argument after `serve`, as JSON. */
export interface ServerOrders {
  readonly folder: string;
  /** PostgreSQL; empty: SQLite in the folder. */
  readonly databaseUrl: string;
  /** Where it speaks gRPC, `host:port`. */
  readonly listen: string;
  /** How far its clock is ahead, in milliseconds. */
  readonly aheadMs: number;
  readonly trap: Trap | undefined;
}

/** What the parent says to a running server. */
export type ToServer = { readonly kind: 'trap'; readonly trap: Trap | undefined } | { readonly kind: 'skip'; readonly ms: number };

/** What a server says to its parent, once. */
export type FromServer =
  | { readonly kind: 'ready'; readonly address: string; readonly http: string; /** Of the first start. */ readonly key: { readonly organizationId: string; readonly apiKey: string } | undefined }
  | { readonly kind: 'refused'; readonly reason: string; readonly message: string };

/** Runs the real server with a log that kills it and a clock that can be put forward. Ends with its parent. */
export async function serveUntilKilled(orders: ServerOrders): Promise<void> {
  const log = new TrapLogger(logFile(orders.folder));
  log.arm(orders.trap);
  let ahead = orders.aheadMs;
  const clock = { now: () => systemClock.now() + ahead, monotonic: () => systemClock.monotonic() };
  process.on('disconnect', () => process.exit(0));
  process.on('message', (order: ToServer) => {
    if (order.kind === 'trap') log.arm(order.trap);
    else ahead += order.ms;
  });
  const env = {
    PLANTROOM_DATA_DIR: join(orders.folder, 'data'),
    PLANTROOM_GRPC_LISTEN: orders.listen, PLANTROOM_HTTP_LISTEN: '127.0.0.1:0', PLANTROOM_METRICS_LISTEN: '127.0.0.1:0',
    PLANTROOM_TLS_MODE: 'off',
    // On a machine that is busy with all this an encoder waits long for its turn, and that must not refuse a request.
    PLANTROOM_CODEC_SCRIPT_MS: '20000',
    PLANTROOM_CODEC_HARD_MS: '60000',
    ...(orders.databaseUrl !== '' && { PLANTROOM_DATABASE_URL: orders.databaseUrl }),
  };
  try {
    const app = await startApp(loadConfig({ file: false, env }).config, { log, clock });
    const made = app.bootstrapped;
    tell({ kind: 'ready', address: app.addresses.grpc, http: app.addresses.http ?? '', key: made && { organizationId: made.organization.id, apiKey: made.key } });
  } catch (error) {
    tell({ kind: 'refused', reason: error instanceof DomainError ? error.reason : 'internal', message: String(error) });
    process.disconnect();
  }
}

function tell(message: FromServer): void {
  process.send?.(message);
}
