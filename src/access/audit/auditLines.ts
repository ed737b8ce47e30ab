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
    time: timeOf(row.at),
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

/** The line that a part begins with. */
export function headLineOf({ chain, after }: ExportHead): string {
  return JSON.stringify({ chain, after: { seq: after.seq, hash: after.hash } });
}

/** The line that says where the chain ended. */
export function endLineOf({ chain, end }: ExportEnd): string {
  return JSON.stringify({ chain, end: { seq: end.seq, hash: end.hash } });
}

/** Of a row that somebody spoilt what is there: verifying the export finds it too. */
function timeOf(at: number): unknown {
  return Number.isNaN(new Date(at).getTime()) ? at : new Date(at).toISOString();
}

/** The names; of a row that somebody spoilt the text itself. */
function fieldsOf(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return text;
  }
}

/** What a line of an export says; undefined: it is none, or is not written as an export writes it, for example with a property more. */
export function readLine(line: string): { readonly head: ExportHead } | { readonly end: ExportEnd } | { readonly row: AuditRow } | undefined {
  const found = findObject(line);
  if (!found) return undefined;
  const { chain, after, end } = found;
  if (typeof chain === 'string' && isPlace(after)) return headLineOf({ chain, after }) === line ? { head: { chain, after } } : undefined;
  if (typeof chain === 'string' && isPlace(end)) return endLineOf({ chain, end }) === line ? { end: { chain, end } } : undefined;
  const row = rowIn(found);
  return row && lineOf(row) === line ? { row } : undefined;
}

function rowIn(found: Readonly<Record<string, unknown>>): AuditRow | undefined {
  const { organizationId: chain, sequence: seq, time, keyId: key_id, keyPrefix: key_prefix, userId: user_id, requestId: request_id, fields, resource, ...others } = found;
  if (!Number.isSafeInteger(seq) || typeof resource !== 'string') return undefined;
  const row = { ...others, chain, seq, at: typeof time === 'string' ? Date.parse(time) : time, key_id, key_prefix, user_id, request_id, resource, fields: JSON.stringify(fields), subject: subjectOf(resource) };
  return row as unknown as AuditRow;
}

function isPlace(value: unknown): value is ChainPlace {
  if (typeof value !== 'object' || value === null || !('seq' in value) || !('hash' in value)) return false;
  return Number.isSafeInteger(value.seq) && typeof value.hash === 'string';
}

function findObject(line: string): Readonly<Record<string, unknown>> | undefined {
  try {
    const value: unknown = JSON.parse(line);
    return typeof value === 'object' && value !== null ? (value as Readonly<Record<string, unknown>>) : undefined;
  } catch {
    return undefined;
  }
}
