import { isLorawan } from '../../connections';
import type { Execution } from '../execution';
import { INITIAL_EXECUTION } from '../submit/initialExecution';

/**
 * Creates the execution of a query: once its command is delivered, an execution (the parent) may query the state of its
 * device. The parent's last transition has counted this try in `queriesSent`. The query is sent on the parent's route,
 * with the policy of the parent (except `isEncodedByNetwork`), and within the parent's time for the effect (`tConv`).
 * It expects no sensor states: it finishes with its response. Undefined if there is no such try.
 */
export function createQueryTry(parent: Execution, now: number): Execution | undefined {
  const { query, tConv } = parent;
  const currentTry = query?.tries[parent.queriesSent - 1];
  if (!query || !currentTry || tConv === undefined) return undefined;
  const { organizationId, deviceId, physicalDeviceId, connectionId, clientDeviceId, triggerId, policy } = parent;
  const { tries: _tries, askedSensorIds: _askedSensorIds, ...command } = query;
  return {
    ...INITIAL_EXECUTION,
    ...command,
    organizationId,
    deviceId,
    physicalDeviceId,
    connectionId,
    clientDeviceId,
    triggerId,
    policy: { ...policy, isEncodedByNetwork: isLorawan(command.kind) && currentTry.payload?.kind === 'json' },
    id: currentTry.executionId,
    strategy: 'wait_next_uplink',
    expected: [],
    convergenceTimeout: undefined,
    query: undefined,
    parentExecutionId: parent.id,
    payload: currentTry.payload,
    tDelivery: Math.min(now + policy.deliveryMs, tConv),
    enqueuedAt: now,
    updatedAt: now,
  };
}
