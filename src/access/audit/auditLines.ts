import type { AuditRow } from './auditRepository';
import { getSubjectResource } from './auditEvent';
import type { ChainPosition } from './chainVerifier';

/** The first line of a part of an export: the chain, and the position after which the part continues. */
interface ExportHead {
  readonly chain: string;
  readonly after: ChainPosition;
}

/** The last line of a complete export of a chain. */
interface ExportEnd {
  readonly chain: string;
  readonly end: ChainPosition;
}

/** Formats an event as one line of JSON with everything that its hash covers. */
export function formatLine(row: AuditRow): string {
  return JSON.stringify({
    id: row.id,
    organizationId: row.chain,
    sequence: row.seq,
    time: formatTime(row.at),
    actor: row.actor,
    keyId: row.key_id,
    keyPrefix: row.key_prefix,
    userId: row.user_id,
    peer: row.peer,
    method: row.method,
    resource: row.resource,
    fields: parseFields(row.fields),
    outcome: row.outcome,
    reason: row.reason,
    requestId: row.request_id,
    count: row.count,
    hash: row.hash,
  });
}

/** Formats the first line of a part. */
export function formatHeadLine({ chain, after }: ExportHead): string {
  return JSON.stringify({ chain, after: { seq: after.seq, hash: after.hash } });
}

/** Formats the last line, which contains the end of the chain. */
export function formatEndLine({ chain, end }: ExportEnd): string {
  return JSON.stringify({ chain, end: { seq: end.seq, hash: end.hash } });
}

/**
 * Returns the time as text; for an invalid time of a manipulated row the stored value, so that verification of the
 * export finds it.
 */
function formatTime(at: number): unknown {
  return Number.isNaN(new Date(at).getTime()) ? at : new Date(at).toISOString();
}

/** Returns the field names; for invalid JSON of a manipulated row the stored text. */
function parseFields(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return text;
  }
}

/**
 * Parses a line of an export. Returns undefined if the line is not exactly as an export writes it, for example if it
 * has an additional property: the hash of the event does not cover such a property, so verification would not notice
 * it.
 */
export function readLine(
  line: string,
): { readonly head: ExportHead } | { readonly end: ExportEnd } | { readonly row: AuditRow } | undefined {
  const parsed = parseObject(line);
  if (!parsed) return undefined;
  const { chain, after, end } = parsed;
  if (typeof chain === 'string' && isPosition(after))
    return formatHeadLine({ chain, after }) === line ? { head: { chain, after } } : undefined;
  if (typeof chain === 'string' && isPosition(end))
    return formatEndLine({ chain, end }) === line ? { end: { chain, end } } : undefined;
  const row = parseRow(parsed);
  return row && formatLine(row) === line ? { row } : undefined;
}

/**
 * Returns the table row for the properties of an event line; undefined if the sequence number or the resource has the
 * wrong type. The caller checks all other properties by formatting the row again.
 */
function parseRow(parsed: Readonly<Record<string, unknown>>): AuditRow | undefined {
  const {
    organizationId: chain,
    sequence: seq,
    time,
    keyId: key_id,
    keyPrefix: key_prefix,
    userId: user_id,
    requestId: request_id,
    fields,
    resource,
    ...otherProperties
  } = parsed;
  if (!Number.isSafeInteger(seq) || typeof resource !== 'string') return undefined;
  const row = {
    ...otherProperties,
    chain,
    seq,
    at: typeof time === 'string' ? Date.parse(time) : time,
    key_id,
    key_prefix,
    user_id,
    request_id,
    resource,
    fields: JSON.stringify(fields),
    subject: getSubjectResource(resource),
  };
  return row as unknown as AuditRow;
}

/** Whether the value is an object with a sequence number and a hash. */
function isPosition(value: unknown): value is ChainPosition {
  if (typeof value !== 'object' || value === null || !('seq' in value) || !('hash' in value)) return false;
  return Number.isSafeInteger(value.seq) && typeof value.hash === 'string';
}

/** Parses JSON; undefined if the text is invalid JSON or not an object. */
function parseObject(line: string): Readonly<Record<string, unknown>> | undefined {
  try {
    const value: unknown = JSON.parse(line);
    return typeof value === 'object' && value !== null ? (value as Readonly<Record<string, unknown>>) : undefined;
  } catch {
    return undefined;
  }
}
