import { newId } from '../../kernel/ids';
import type { AuditDetails } from './auditEvent';

/** The `method` of the event in which the retention records the removed events. */
export const RETENTION = 'audit retention';

/** Creates an event for a change by the server itself. `at`: when it happened, Unix milliseconds. */
export function createServerEvent(at: number, chain: string, method: string, resource: string): AuditDetails {
  const id = newId();
  return {
    id,
    chain,
    at,
    actor: 'server',
    keyId: undefined,
    keyPrefix: '',
    userId: undefined,
    peer: '',
    method,
    resource,
    fields: [],
    requestId: id,
    outcome: 'succeeded',
    reason: '',
    count: 1,
  };
}
