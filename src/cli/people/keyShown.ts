import type { ApiKey, KeyRestrictions } from '../../access';
import { SCOPES } from '../../kernel/scopes';
import { timeText } from './timeText';

const FEW = 3;

/** What is kept of a key, with its times as texts. */
export function keyShown(key: ApiKey): { readonly id: string } & Readonly<Record<string, unknown>> {
  return { ...key, restrictions: key.restrictions ?? null, createdAt: timeText(key.createdAt), updatedAt: timeText(key.updatedAt), expiresAt: timeText(key.expiresAt), revokedAt: timeText(key.revokedAt), lastUsedAt: timeText(key.lastUsedAt) };
}

/** A key as a line of a table. */
export interface KeyRow {
  readonly id: string;
  readonly name: string;
  readonly prefix: string;
  readonly state: 'valid' | 'revoked' | 'expired';
  readonly scopes: string;
  readonly limits: string;
  readonly expiresAt: string | null;
  readonly lastUsedAt: string | null;
}

/** The line of a key; `now` in Unix milliseconds. */
export function keyRow(key: ApiKey, now: number): KeyRow {
  const state = key.revokedAt !== undefined ? 'revoked' : (key.expiresAt ?? Infinity) <= now ? 'expired' : 'valid';
  return { id: key.id, name: key.name, prefix: key.prefix, state, scopes: scopesText(key), limits: limitsText(key), expiresAt: timeText(key.expiresAt), lastUsedAt: timeText(key.lastUsedAt) };
}

function scopesText({ scopes, isAdmin }: ApiKey): string {
  const text = SCOPES.every((scope) => scopes.includes(scope)) ? 'all' : fewOf(scopes);
  return isAdmin ? `admin, ${text}` : text;
}

function fewOf(texts: readonly string[]): string {
  return texts.length <= FEW ? texts.join(', ') : `${texts.slice(0, FEW).join(', ')} and ${texts.length - FEW} more`;
}

function limitsText({ restrictions, allowedAddresses }: ApiKey): string {
  const addresses = allowedAddresses.length === 0 ? [] : [`from ${fewOf(allowedAddresses)}`];
  return [...(restrictions ? restrictionTexts(restrictions) : []), ...addresses].join('; ');
}

function restrictionTexts({ deviceIds, connectionIds, commandIds }: KeyRestrictions): string[] {
  const ofConnections = counted(connectionIds.length, 'connection');
  const only = [counted(deviceIds.length, 'device'), ofConnections && `devices of ${ofConnections}`, counted(commandIds.length, 'command')].filter(Boolean);
  return only.length === 0 ? [] : [`only ${only.join(', ')}`];
}

function counted(count: number, thing: string): string {
  return count === 0 ? '' : `${count} ${thing}${count === 1 ? '' : 's'}`;
}
