import type { Sandbox } from '../../codec';
import type { ConnectorHub } from '../../connections';
import type { Db } from '../../database';
import { createExecutionHandlers, Executions } from '../../executions';
import type { Cursors } from '../../kernel/pages';
import type { Tracing } from '../../observability/traces/tracing';
import type { Foundation } from '../foundation';

/** What executions need of other modules. */
interface ExecutionDependencies {
  readonly hub: ConnectorHub;
  readonly encoder: Sandbox;
  readonly cursors: Cursors;
  readonly tracing: Tracing | undefined;
}

/** Creates the executions module, which sends commands and tracks them until their final state. */
export function createExecutions(
  { database, clock, log }: Foundation,
  { hub, encoder, cursors, tracing }: ExecutionDependencies,
) {
  const executions = new Executions({
    database,
    clock,
    log,
    cursors,
    encoder,
    hub: tracing?.executions.traceHub(hub) ?? hub,
    onStep: tracing && ((step) => tracing.executions.recordStep(step)),
  });
  /** Creates the function that ends the executions of a device for a reason. */
  const createTermination =
    (reason: 'device_deleted' | 'physical_device_changed') =>
    async (db: Db, organizationId: string, deviceId: string): Promise<void> =>
      await executions.targetRemoval.targetRemoved(db, organizationId, deviceId, reason);
  return {
    executions,
    handlers: createExecutionHandlers(executions),
    /** Ends the executions of a device, in the transaction that deletes it. */
    onDeviceDeleted: createTermination('device_deleted'),
    /** Ends the executions of a device, in the transaction that binds it to another physical device. */
    onBindingRemoved: createTermination('physical_device_changed'),
  };
}
