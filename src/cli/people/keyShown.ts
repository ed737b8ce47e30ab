import type { ApiKey, KeyRestrictions } from '../../access';
import { expandScopes, SCOPES } from '../../kernel/scopes';
import { joinFirst } from '../../kernel/truncate';
import { formatTime } from './timeText';

const MAX_LISTED = 3;

/** Returns the record of a key with its times as text. */
export function formatKey(key: ApiKey): { readonly id: string } & Readonly<Record<string, unknown>> {
  return {
    ...key,
    restrictions: key.restrictions ?? null,
    createdAt: formatTime(key.createdAt),
    updatedAt: formatTime(key.updatedAt),
    expiresAt: formatTime(key.expiresAt),
    revokedAt: formatTime(key.revokedAt),
    lastUsedAt: formatTime(key.lastUsedAt),
  };
}

/** A key as a row of a table. */
interface KeyRow {
  readonly id: string;
  readonly name: string;
  readonly prefix: string;
  readonly state: 'valid' | 'revoked' | 'expired';
  readonly scopes: string;
  readonly limits: string;
  readonly expiresAt: string | null;
  readonly lastUsedAt: string | null;
}

/** Returns the table row of a key; `now`: Unix milliseconds. */
export function toKeyRow(key: ApiKey, now: number): KeyRow {
  return {
    id: key.id,
    name: key.name,
    prefix: key.prefix,
    state: getState(key, now),
    scopes: formatScopes(key),
    limits: formatLimits(key),
    expiresAt: formatTime(key.expiresAt),
    lastUsedAt: formatTime(key.lastUsedAt),
  };
}

function getState({ revokedAt, expiresAt = Infinity }: ApiKey, now: number): KeyRow['state'] {
  if (revokedAt !== undefined) return 'revoked';
  return expiresAt <= now ? 'expired' : 'valid';
}

/** Formats the scopes of a key: `all` or the first ones, and whether it is an admin key. */
function formatScopes({ scopes, isAdmin }: ApiKey): string {
  const text = expandScopes(scopes).size === SCOPES.length ? 'all' : joinFirst(scopes, MAX_LISTED);
  return isAdmin ? `admin, ${text}` : text;
}

/** Formats what the key is limited to: devices, connections and commands, and the addresses it may be used from. */
function formatLimits({ restrictions, allowedAddresses }: ApiKey): string {
  const addresses = allowedAddresses.length === 0 ? [] : [`from ${joinFirst(allowedAddresses, MAX_LISTED)}`];
  return [...(restrictions ? formatRestrictions(restrictions) : []), ...addresses].join('; ');
}

function formatRestrictions({ deviceIds, connectionIds, commandIds }: KeyRestrictions): string[] {
  const connections = formatCount(connectionIds.length, 'connection');
  const only = [
    formatCount(deviceIds.length, 'device'),
    connections && `devices of ${connections}`,
    formatCount(commandIds.length, 'command'),
  ].filter(Boolean);
  return only.length === 0 ? [] : [`only ${only.join(', ')}`];
}

function formatCount(count: number, noun: string): string {
  return count === 0 ? '' : `${count} ${noun}${count === 1 ? '' : 's'}`;
}
