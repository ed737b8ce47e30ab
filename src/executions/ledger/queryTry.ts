import type { Execution } from '../execution';
import { UNSENT } from '../submit/unsent';

/**
 * The try of its query that a parent's last transition asked for, as an execution of its own: on the parent's route, with the parent's
 * times, and never beyond the parent's window. It expects no sensor states: it is done once it is answered. Undefined: there is no such try.
 */
export function queryTryOf(parent: Execution, now: number): Execution | undefined {
  const { query, tConv } = parent;
  const asked = query?.tries[parent.queriesSent - 1];
  if (!query || !asked || tConv === undefined) return undefined;
  const { organizationId, deviceId, physicalDeviceId, connectionId, clientDeviceId, triggerId, times } = parent;
  const { tries: _tries, ...command } = query;
  return {
    ...UNSENT,
    ...command,
    organizationId,
    deviceId,
    physicalDeviceId,
    connectionId,
    clientDeviceId,
    triggerId,
    times,
    id: asked.executionId,
    strategy: 'wait_next_uplink',
    expected: [],
    convergenceTimeout: undefined,
    triggerKey: undefined,
    triggerHash: undefined,
    query: undefined,
    parentExecutionId: parent.id,
    payload: asked.payload,
    tDelivery: Math.min(now + times.deliveryMs, tConv),
    enqueuedAt: now,
    updatedAt: now,
  };
}
