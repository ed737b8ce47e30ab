import { hash } from 'node:crypto';
import { newId } from '../../kernel/ids';

/** Who did it: a caller with a key (or with one that was not recognised), the command line, the server by itself. */
export type AuditActor = 'key' | 'command_line' | 'server';

/** How it ended; `unknown`: whoever would have told is gone. */
export type AuditOutcome = 'succeeded' | 'refused' | 'failed' | 'unknown';

/** Who and what, before it has an end. Holds names and ids, never a value. */
export interface AuditSubject {
  readonly id: string;
  /** The organization; empty for what belongs to none. */
  readonly chain: string;
  /** When it began. */
  readonly at: number;
  readonly actor: AuditActor;
  readonly keyId: string | undefined;
  /** Empty: no key was recognised. */
  readonly keyPrefix: string;
  readonly userId: string | undefined;
  /** The address without the port; of the command line the name of the machine's user. */
  readonly peer: string;
  readonly method: string;
  /** `devices/<id>`; empty: nothing that has an id. */
  readonly resource: string;
  /** The names of the fields that were given. */
  readonly fields: readonly string[];
  readonly requestId: string;
}

/** All that an event says but its place in the chain. */
export interface AuditFacts extends AuditSubject {
  readonly outcome: AuditOutcome;
  /** Why it was refused or failed; empty: it was not. */
  readonly reason: string;
  /** How many equal attempts it stands for. */
  readonly count: number;
}

/** An event in its chain. */
export interface AuditEvent extends AuditFacts {
  /** Its place, from 1, without gaps. */
  readonly seq: number;
  /** SHA-256 of the hash before it and of this event, hex. */
  readonly hash: string;
}

/** The two ends of a chain. */
export interface ChainEnds {
  /** Of the oldest event that is kept. */
  readonly firstSeq: number;
  /** The hash that it goes on from. */
  readonly firstPrevious: string;
  readonly lastSeq: number;
  readonly lastHash: string;
}

/** The hash that a chain begins with. */
export const CHAIN_START = '0'.repeat(64);

/** A chain that holds nothing yet. */
export const EMPTY_CHAIN: ChainEnds = { firstSeq: 1, firstPrevious: CHAIN_START, lastSeq: 0, lastHash: CHAIN_START };

/** What the hash of an event covers, as the database holds it: `fields` is its JSON text. */
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

/** The hash of an event that follows on one with the hash `previous`. */
export function eventHash(previous: string, e: HashedColumns): string {
  const covered = [previous, e.chain, e.seq, e.id, e.at, e.actor, e.key_id, e.key_prefix, e.user_id, e.peer, e.method, e.resource, e.fields, e.outcome, e.reason, e.request_id, e.count];
  return hash('sha256', JSON.stringify(covered), 'hex');
}

/** The first two steps of a resource, by which events are found: `devices/<id>` of `devices/<id>/commands/<id>`. */
export function subjectOf(resource: string): string {
  return resource.split('/', 2).join('/');
}

const LONGEST = 300;

/** Text that both engines can hold, so that no event can keep those behind it from being written. */
export function storable(text: string): string {
  return text.replaceAll(/\p{Cc}/gu, '').slice(0, LONGEST).toWellFormed();
}

/** What any database takes of an event: an id of its own, plain characters, no names of fields. */
export function reducedForm(event: AuditFacts): AuditFacts {
  const { keyId, keyPrefix, userId, peer, method, resource, reason, requestId } = event;
  const texts = { keyPrefix: plain(keyPrefix), peer: plain(peer), method: plain(method), resource: plain(resource), reason: plain(reason), requestId: plain(requestId) };
  return { ...event, ...texts, id: newId(), keyId: keyId && plain(keyId), userId: userId && plain(userId), fields: [] };
}

const plain = (text: string): string => text.replaceAll(/[^ -~]/g, '?').slice(0, LONGEST);
