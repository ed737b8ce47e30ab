import { deleteOldExecutions } from '../executions';
import type { Modules } from './createModules';
import type { Foundation } from './foundation';

const PURGE_INTERVAL_MS = 3_600_000;

/** Deletes expired records every hour. */
export function startPurging(foundation: Foundation, modules: Modules): void {
  const timer = setInterval(() => void purgeExpired(foundation, modules), PURGE_INTERVAL_MS).unref();
  foundation.disposables.add(() => clearInterval(timer));
}

/** Deletes the expired records of each module. A failure is logged; the next run tries again. */
async function purgeExpired({ database, log, retentionClock }: Foundation, modules: Modules): Promise<void> {
  const { telemetry, media, authentication } = modules;
  const steps = [
    { run: async () => await telemetry.uplinks.sweep(retentionClock.now()), failureEvent: 'telemetry.cleanup_failed' },
    {
      run: async () => await deleteOldExecutions(database, retentionClock.now()),
      failureEvent: 'executions.retention_failed',
    },
    { run: async () => await media.service.collectGarbage(retentionClock.now()), failureEvent: 'media.cleanup_failed' },
    { run: async () => await authentication.idempotency.deleteExpired(), failureEvent: 'idempotency.delete_failed' },
  ];
  for (const { run, failureEvent } of steps) {
    try {
      await run();
    } catch (error) {
      log.warn({ err: error }, failureEvent);
    }
  }
}
