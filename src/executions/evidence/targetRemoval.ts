import { setImmediate as yieldToEventLoop } from 'node:timers/promises';
import type { Db } from '../../database';
import type { Dispatcher } from '../dispatch/dispatcher';
import type { ExecutionStore } from '../changes/executionStore';
import type { ExecutionEvent } from '../machine/executionEvent';
import { DeadlineRepository } from '../store/deadlineRepository';

const MAX_ATTEMPTS = 5;

/** Finishes the executions of devices that can no longer be reached. */
export class TargetRemoval {
  constructor(
    private readonly executionStore: ExecutionStore,
    private readonly dispatcher: Dispatcher,
  ) {}

  /**
   * Finishes the executions of a device that is deleted, unbound or rebound (`reason`), inside the caller's
   * transaction, which holds the lock of the device, so that no execution is added. Cancels commands that have not left
   * the server. Works in batches, so that other work runs in between; on SQLite, writers wait for all of it.
   */
  async targetRemoved(
    db: Db,
    organizationId: string,
    deviceId: string,
    reason: 'device_deleted' | 'physical_device_changed',
  ): Promise<void> {
    const deadlines = new DeadlineRepository(db);
    const removed: ExecutionEvent = { kind: 'removed', reason };
    for (let failedAttempts = 0; failedAttempts < MAX_ATTEMPTS;) {
      const open = await deadlines.listOpenOfDevice(organizationId, deviceId);
      if (open.length === 0) return;
      const changes = open.flatMap((execution) => {
        const events = this.dispatcher.cancelBefore(removed, execution);
        return this.executionStore.planAll(execution, events, { source: 'api' }) ?? [];
      });
      const stored = await this.executionStore.save(db, organizationId, changes);
      if (stored.length === 0) failedAttempts += 1;
      await yieldToEventLoop();
    }
    throw new Error(`executions of device ${deviceId} kept changing while it was removed`);
  }
}
