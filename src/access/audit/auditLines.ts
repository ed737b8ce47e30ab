import type { AuditRow } from './auditRepository';
import { subjectOf } from './auditEvent';
import type { ChainPlace } from './chainCheck';

/** The first line of a part of an export: which chain it is of, and what its first event goes on from. */
export interface ExportHead {
  readonly chain: string;
  readonly after: ChainPlace;
}

/** The last line of a chain in an export that came to its end. */
export interface ExportEnd {
  readonly chain: string;
  readonly end: ChainPlace;
}

/** One event as a line of JSON; all that its hash covers is there. */
export function lineOf(row: AuditRow): string {
  return JSON.stringify({
    id: row.id,
    organizationId: row.chain,
    sequence: row.seq,
    time: new Date(row.at).toISOString(),
    actor: row.actor,
    keyId: row.key_id,
    keyPrefix: row.key_prefix,
    userId: row.user_id,
    peer: row.peer,
    method: row.method,
    resource: row.resource,
    fields: fieldsOf(row.fields),
    outcome: row.outcome,
    reason: row.reason,
    requestId: row.request_id,
    count: row.count,
    hash: row.hash,
  });
}

/** The names; of a row that somebody spoilt the text itself, so that verifying the export finds it too. */
function fieldsOf(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return text;
  }
}

/** What a line of an export says; undefined: it is none. */
export function readLine(line: string): { readonly head: ExportHead } | { readonly end: ExportEnd } | { readonly row: AuditRow } | undefined {
  const found = findObject(line);
  if (!found) return undefined;
  if (typeof found['chain'] === 'string' && found['after']) return { head: found as unknown as ExportHead };
  if (typeof found['chain'] === 'string' && found['end']) return { end: found as unknown as ExportEnd };
  if (typeof found['sequence'] !== 'number' || typeof found['resource'] !== 'string') return undefined;
  const { organizationId: chain, sequence: seq, time, keyId: key_id, keyPrefix: key_prefix, userId: user_id, requestId: request_id, fields, ...others } = found;
  const row = { ...others, chain, seq, at: Date.parse(String(time)), key_id, key_prefix, user_id, request_id, fields: JSON.stringify(fields), subject: subjectOf(found['resource']) };
  return { row: row as unknown as AuditRow };
}

function findObject(line: string): Readonly<Record<string, unknown>> | undefined {
  try {
    const value: unknown = JSON.parse(line);
    return typeof value === 'object' && value !== null ? (value as Readonly<Record<string, unknown>>) : undefined;
  } catch {
    return undefined;
  }
}
