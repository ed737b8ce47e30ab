import { newId } from '../../kernel/ids';
import type { AuditFacts } from './auditEvent';

/** The `method` of the event by which the retention names what it removed. */
export const RETENTION = 'audit retention';

/** An event of the server by itself. */
export function serverEvent(at: number, chain: string, method: string, resource: string): AuditFacts {
  const id = newId();
  return { id, chain, at, actor: 'server', keyId: undefined, keyPrefix: '', userId: undefined, peer: '', method, resource, fields: [], requestId: id, outcome: 'succeeded', reason: '', count: 1 };
}
