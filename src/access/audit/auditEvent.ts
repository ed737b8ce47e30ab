import { hash } from 'node:crypto';
import { newId } from '../../kernel/ids';

/**
 * Who caused the event: a caller with an API key (also with an unknown one), the command line, or the server itself.
 */
export type AuditActor = 'key' | 'command_line' | 'server';

/** How the change ended; `unknown`: the process stopped before it recorded the outcome. */
export type AuditOutcome = 'succeeded' | 'refused' | 'failed' | 'unknown';

/** Who does what; recorded before the outcome is known. Contains names and ids, never a value. */
export interface AuditSubject {
  readonly id: string;
  /** The organization id; empty for events of the installation. */
  readonly chain: string;
  /** When it started, Unix milliseconds. */
  readonly at: number;
  readonly actor: AuditActor;
  readonly keyId: string | undefined;
  /** Of the key, or of a well-formed key that this server does not know; empty if there was none. */
  readonly keyPrefix: string;
  readonly userId: string | undefined;
  /** The IP address without the port; for the command line the name of the operating system user. */
  readonly peer: string;
  readonly method: string;
  /** For example `devices/<id>`; empty if the event is about nothing that has an id. */
  readonly resource: string;
  /** The names of the fields that were set. */
  readonly fields: readonly string[];
  readonly requestId: string;
}

/** The content of an event, without its position in the chain. */
export interface AuditDetails extends AuditSubject {
  readonly outcome: AuditOutcome;
  /** Why it was refused or failed; empty otherwise. */
  readonly reason: string;
  /** The number of equal attempts that this event covers. */
  readonly count: number;
}

/** An event in its chain. */
export interface AuditEvent extends AuditDetails {
  /** The position in the chain, starting at 1, without gaps. */
  readonly seq: number;
  /** The SHA-256 hash of the previous hash and this event, in hex. */
  readonly hash: string;
}

/**
 * The name of the chain for events of the installation, which belong to no organization. All other chains have the name
 * of their organization id.
 */
export const INSTALLATION_CHAIN = '';

/** The first and the last event of a chain. */
export interface ChainEnds {
  /** The sequence number of the oldest stored event. */
  readonly firstSeq: number;
  /** The hash of the event before the oldest stored event. */
  readonly firstPrevious: string;
  readonly lastSeq: number;
  readonly lastHash: string;
}

/** The hash before the first event of a chain. */
export const CHAIN_START = '0'.repeat(64);

/** A chain without events. */
export const EMPTY_CHAIN: ChainEnds = { firstSeq: 1, firstPrevious: CHAIN_START, lastSeq: 0, lastHash: CHAIN_START };

/** The columns that the hash of an event covers, as stored in the database: `fields` is JSON text. */
export interface HashedColumns {
  readonly chain: string;
  readonly seq: number;
  readonly id: string;
  readonly at: number;
  readonly actor: string;
  readonly key_id: string | null;
  readonly key_prefix: string;
  readonly user_id: string | null;
  readonly peer: string;
  readonly method: string;
  readonly resource: string;
  readonly fields: string;
  readonly outcome: string;
  readonly reason: string;
  readonly request_id: string;
  readonly count: number;
}

/** Returns the hash of an event that follows an event with the hash `previousHash`. */
export function computeEventHash(previousHash: string, columns: HashedColumns): string {
  const covered = [
    previousHash,
    columns.chain,
    columns.seq,
    columns.id,
    columns.at,
    columns.actor,
    columns.key_id,
    columns.key_prefix,
    columns.user_id,
    columns.peer,
    columns.method,
    columns.resource,
    columns.fields,
    columns.outcome,
    columns.reason,
    columns.request_id,
    columns.count,
  ];
  return hash('sha256', JSON.stringify(covered), 'hex');
}

/**
 * Returns the first two segments of a resource, the column by which events are searched: `devices/<id>` for
 * `devices/<id>/commands/<id>`.
 */
export function getSubjectResource(resource: string): string {
  return resource.split('/', 2).join('/');
}

const MAX_LENGTH = 300;

/**
 * Returns the text in a form that both database engines can store, so that no event blocks later ones: without control
 * characters, at most 300 UTF-16 code units, well-formed.
 */
export function sanitizeForStorage(text: string): string {
  return text
    .replaceAll(/\p{Cc}/gu, '')
    .slice(0, MAX_LENGTH)
    .toWellFormed();
}

/** Returns a reduced form of an event that every database accepts: a new id, printable ASCII text, no field names. */
export function truncateEvent(event: AuditDetails): AuditDetails {
  const { keyId, keyPrefix, userId, peer, method, resource, reason, requestId } = event;
  const texts = {
    keyPrefix: toAscii(keyPrefix),
    peer: toAscii(peer),
    method: toAscii(method),
    resource: toAscii(resource),
    reason: toAscii(reason),
    requestId: toAscii(requestId),
  };
  return {
    ...event,
    ...texts,
    id: newId(),
    keyId: keyId && toAscii(keyId),
    userId: userId && toAscii(userId),
    fields: [],
  };
}

/** Replaces each character that is not printable ASCII with `?` and limits the length. */
const toAscii = (text: string): string => text.replaceAll(/[^ -~]/g, '?').slice(0, MAX_LENGTH);
